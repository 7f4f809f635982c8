//! Every bound of this crate in one place, each with its reason. Input past a bound is a
//! diagnostic, never a crash and never a silent cut.

use std::time::Duration;

/// All manifest files of one work folder, before rendering.
pub const WORK_INPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Files in one work folder.
pub const WORK_FILES_MAX: usize = 2_000;
/// Folder levels inside one work folder.
pub const WORK_FOLDER_DEPTH_MAX: usize = 16;
/// Manifests of one work. OCM's agent keeps a condition list for each in the work's status.
pub const WORK_MANIFESTS_MAX: usize = 5_000;
/// Sum of the manifests' JSON bytes in one work: the default of the hub's admission webhook
/// (OCM work webhook, flag `--manifestLimit`).
pub const WORK_BYTES_MAX: usize = 500 * 1024;
/// Files and folders visited in one work folder. Hidden and ignored ones count too. A tree of equal
/// folders takes a few bytes in Git, and any number of visits.
pub const WORK_ENTRIES_MAX: usize = 100_000;
/// Bytes that `${NAME}` may add to one work: as many as its files have at most.
pub const SUBSTITUTED_BYTES_MAX: usize = WORK_INPUT_BYTES_MAX;
/// Comparisons of the rules of one work with its objects. Rules that name an object exactly are
/// looked up and cost one. A file has at most 40,000 others, which fit with 5,000 objects.
pub const RULE_STEPS_MAX: usize = 200_000_000;
/// Bytes of parsed files that a pass keeps for the other members of a group.
pub const PARSED_FILES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Work folders that other threads render before the pass over all folders comes to them. They keep
/// two threads busy while it counts and shares contents.
pub const RENDERED_AHEAD_MAX: usize = 16;
/// The stack of a thread that renders: as large as that of the main thread, for nested YAML.
pub const RENDER_STACK_BYTES: usize = 8 * 1024 * 1024;
/// Clusters of one source.
pub const CLUSTERS_MAX: usize = 20_000;
/// Works of one source.
pub const WORKS_MAX: usize = 200_000;
/// Bytes that the rendered works of one source hold in memory, of which equal contents count once,
/// unless the operator sets another bound. Rendering holds the last commit's as well. A thousand
/// works of usual size take 5 MiB.
pub const CONTENT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of files that are read for the works of one source and one commit, for each byte that the
/// works may hold. The files of a group's folder are read again for each member with values of its
/// own, so they may be as much as a source without groups would have in files.
pub const INPUT_FACTOR: usize = 4;
/// Groups of one source. A fleet of 200 clusters needs about ten.
pub const GROUPS_MAX: usize = 1_000;
/// Comparisons of the conditions of all groups with the names, labels and claims of clusters: 250
/// groups with 10 conditions each, in a fleet of 20,000 clusters.
pub const MEMBERSHIP_STEPS_MAX: usize = 50_000_000;
/// Members of all groups of one source together, of which each has a work for each folder of its
/// group: as many as `CLUSTERS_MAX` clusters that are in 20 groups each.
pub const MEMBERSHIPS_MAX: usize = 400_000;
/// Time for which the decisions of a Placement must have agreed before a cluster leaves its group,
/// unless an operator chooses another. OCM's Placement controller writes PlacementDecisions one
/// after the other, and the status last.
pub const PLACEMENT_GRACE: Duration = Duration::from_secs(120);
/// Labels and claims of one ManagedCluster, each counted with 64 bytes more. Of a larger one, they
/// are unknown.
pub const CLUSTER_FACTS_BYTES_MAX: usize = 64 * 1024;
/// Clusters in all PlacementDecisions of a hub that are kept. Of those past it, nothing is: their
/// Placements are inconsistent then, so that no cluster leaves their groups.
pub const DECIDED_CLUSTERS_MAX: usize = 2_000_000;
/// Values in `facts.json`: 50 for each of `CLUSTERS_MAX` clusters. Each takes some 150 bytes.
pub const FACTS_VALUES_MAX: usize = 1_000_000;
/// `facts.json`: `CLUSTERS_MAX` clusters with 3 KiB of labels and claims each.
pub const FACTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Length of a path inside a repository, in bytes.
pub const PATH_BYTES_MAX: usize = 4_096;
/// Diagnostics reported for one repository; past it, a last one says how many were left out.
pub const DIAGNOSTICS_MAX: usize = 10_000;
/// Diagnostics of one file: more than a person reads at once. A file of 1 MiB may have a million.
pub const FILE_DIAGNOSTICS_MAX: usize = 100;
/// Diagnostics of one work.
pub const WORK_DIAGNOSTICS_MAX: usize = 200;
/// Bytes of texts that the diagnostics of one file or work keep before the others are counted only.
pub const DIAGNOSTICS_BYTES_MAX: usize = 256 * 1024;
/// Objects of one work that look for others, and workloads that they may find. With more, no notes
/// are made on the cluster.
pub const RELATIONS_MAX: usize = 1_000;
/// Bytes of what all works of a source look for and offer. Of works past it, nothing is compared.
pub const RELATIONS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Labels of one selector or workload that are compared.
pub const RELATED_LABELS_MAX: usize = 32;
/// A label, or the name of an object, that is compared. Kubernetes allows 317 bytes of a key.
pub const RELATED_TEXT_BYTES_MAX: usize = 320;
/// Comparisons of labels and names in one cluster. What is left is not reported.
pub const RELATION_STEPS_MAX: usize = 1_000_000;
/// Variables of one work that does not replace them.
pub const UNREPLACED_MAX: usize = 100;
/// Characters of a text from a file that a message shows.
pub const MESSAGE_TEXT_CHARS_MAX: usize = 300;
/// Files in `approvals`: each is for one hold, and of no use once that is carried out.
pub const APPROVALS_MAX: usize = 200;
/// One approval: a line of some 100 bytes for each of `WORKS_MAX` works.
pub const APPROVAL_BYTES_MAX: usize = 24 * 1024 * 1024;
/// All approvals of a source together: one of the largest. They may also list `WORKS_MAX` works
/// together, each of which takes some 200 bytes of memory.
pub const APPROVALS_BYTES_MAX: usize = APPROVAL_BYTES_MAX;
/// A uid on the hub. Kubernetes' have 36.
pub const UID_BYTES_MAX: usize = 128;
/// A source's record on the hub: an annotation, of which all of an object's have 256 KiB at most.
pub const RECORD_BYTES_MAX: usize = 200 * 1024;
/// Bytes of a source's report on the hub: some hundred works with their reasons. Each change writes
/// all of it.
pub const REPORT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the rollouts in the same report, and in `summary.json`.
pub const REPORTED_ROLLOUTS_BYTES_MAX: usize = 16 * 1024;
/// The text of a source's origin: a URL or a folder, and a path. It is in messages, too.
pub const ORIGIN_BYTES_MAX: usize = 1_024;
/// What the record of a source keeps of rollouts, in bytes: some 400 of each group.
pub const ROLLOUTS_BYTES_MAX: usize = 96 * 1024;
/// Contents of one group that clusters have, of which the record keeps a commit.
pub const ROLLOUT_CONTENTS_MAX: usize = 16;
/// Clusters in the record of a group where a content failed. Others count as if they had not.
pub const ROLLOUT_CLUSTERS_MAX: usize = 50;
/// Abandoned commits in one record: 43 bytes each.
pub const ABANDONED_MAX: usize = 2_000;
/// Plurals of one kind that CRDs of frozen works have. Each work with the kind holds them, and one
/// of them is right at most.
pub const FROZEN_PLURALS_MAX: usize = 4;
/// Change windows of one file. A calendar that needs more is better kept as a list of days.
pub const WINDOWS_MAX: usize = 50;
/// The name of a time zone. The longest of the time zone database has 32.
pub const TIME_ZONE_CHARS_MAX: usize = 64;
/// ManifestWork names: OCM's AppliedManifestWork name is a 64-digit hash, a dash and this name,
/// within 253 characters (OCM work agent).
pub const WORK_NAME_CHARS_MAX: usize = 188;
/// Characters kept of a message by the API server or a webhook: it ends up in logs, Events and
/// commit statuses.
pub const HUB_MESSAGE_CHARS_MAX: usize = 1_000;
/// All annotations of one object, as the API server allows (Kubernetes:
/// `TotalAnnotationSizeLimitB`). What the hub holds beyond is not read.
pub const ANNOTATION_BYTES_MAX: usize = 256 * 1024;
/// Fields that a diff of one object shows. A person reads no more; past it, they are counted.
pub const DIFF_FIELDS_MAX: usize = 200;
/// Lines that a diff of one text shows, context included.
pub const DIFF_LINES_MAX: usize = 200;
/// Bytes of one value that a diff keeps.
pub const DIFF_VALUE_BYTES_MAX: usize = 2_048;
/// Items (or lines) that differ in one list (or text), both sides together, of which the shortest
/// edit is searched for: it takes up to the square of this many steps.
pub const DIFF_ITEMS_MAX: usize = 4_000;
/// Characters of a pull-request comment: GitHub takes 65,536, and the caller may add some words.
pub const COMMENT_CHARS_MAX: usize = 60_000;
/// Characters kept of one text of a work's status: a person reads no more in a table or a file.
pub const STATUS_TEXT_CHARS_MAX: usize = 300;
/// Conditions kept of a work or an object. OCM's agent sets at most five, and condition rules add
/// some.
pub const STATUS_CONDITIONS_MAX: usize = 12;
/// Feedback values kept of one object. OCM's well-known rules give at most five.
pub const STATUS_FEEDBACK_MAX: usize = 32;
/// What is kept of one work's status. Usual works have some hundred bytes; this is what a hostile
/// agent can make the daemon keep for each.
pub const STATUS_DETAILS_BYTES_MAX: usize = 4 * 1024;
/// Changes of the status page that are kept for browsers which are behind: at two a second, a
/// minute's worth.
pub const PAGE_CHANGES_MAX: usize = 128;
/// Bytes of those: more than the whole of 10,000 works has, which is sent instead past it.
pub const PAGE_CHANGES_BYTES_MAX: usize = 128 * 1024;
/// Characters of the line that sums a source up on the status page.
pub const PAGE_LINE_CHARS_MAX: usize = 400;
/// Errors and warnings that are shown at their lines: four requests to GitHub, and more than a
/// person reads.
pub const STATUS_FINDINGS_MAX: usize = 200;
/// The text of an Event: the API server takes 1 KiB (Kubernetes: `NoteLengthLimit`).
pub const EVENT_NOTE_BYTES_MAX: usize = 1_024;
/// Events written at once over all works of a source. An API server keeps each for an hour, so a
/// fleet that flaps leaves some 18,000 of them there.
pub const EVENTS_AT_ONCE: u32 = 100;
/// Time after which one more Event over all works of a source is allowed.
pub const EVENT_EVERY: Duration = Duration::from_millis(200);
/// Events written at once for one work: nobody reads more of a work that flaps.
pub const EVENTS_OF_WORK_AT_ONCE: u32 = 5;
/// Time after which one more Event of the same work is allowed.
pub const EVENT_OF_WORK_EVERY: Duration = Duration::from_secs(60);
/// Works whose Events are remembered. Past it, those are forgotten whose last one no longer counts:
/// 400 works at the most can have one within `EVENT_OF_WORK_EVERY`, and so no more than 1,600
/// within five times that.
pub const EVENT_WORKS_MAX: usize = 2_000;
/// Rules for paths in one policy, and patterns in one of them.
pub const SIGNER_RULES_MAX: usize = 100;
/// Patterns of one list, in the syntax of .gitignore; of all of them, the bytes of so many of 64.
/// They become one automaton, whose size grows with them.
pub const PATTERNS_MAX: usize = 1_000;
/// Entries of `metadata.managedFields` that are looked at for who has edited a work; a work has
/// three or four, and the API server merges the oldest updates past ten.
pub const MANAGED_FIELDS_ENTRIES_MAX: usize = 32;
/// Fields read of one such entry. A ManifestWork's spec has some dozens, and its manifests are one
/// field.
pub const MANAGED_FIELDS_MAX: usize = 1_000;
/// Levels below `fieldsV1` to which field names are looked for.
pub const MANAGED_FIELDS_DEPTH_MAX: usize = 16;
/// Fields reported of a manager that edited a work: the report has to fit into an Event.
pub const MANAGER_FIELDS_MAX: usize = 4;
/// Characters kept of one field name, or of the name of a manager (Kubernetes: 128).
pub const MANAGER_CHARS_MAX: usize = 128;
/// How often the directives of operators are read: approvals, suspensions, a requested sync. One
/// request of about 100 bytes for each source.
pub const DIRECTIVES_POLL: Duration = Duration::from_secs(10);
/// How long after the begin of a leader's term a request of a former leader may still take effect.
/// A client waits 10 s for a response, and the API server may go on without it.
pub const LATE_WRITE: Duration = Duration::from_secs(20);
/// Wait before a failed read of directives or record is repeated.
pub const DIRECTIVES_RETRY: Duration = Duration::from_secs(2);
/// Bytes of an explanation, about: thousands of objects, more than a person reads.
pub const EXPLANATION_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one setting in an explanation. Its file and line are shown anyway.
pub const EXPLANATION_SETTING_BYTES_MAX: usize = 16 * 1024;
