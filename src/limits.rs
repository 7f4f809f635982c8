//! Every bound in one place, each with its reason. Input past a bound is a diagnostic, never a
//! crash and never a silent cut.

use std::time::Duration;

/// One file of a repository. Manifests larger than this would not fit into a ManifestWork.
pub const FILE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// All manifest files of one work folder, before rendering.
pub const WORK_INPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Files in one work folder.
pub const WORK_FILES_MAX: usize = 2_000;
/// Folder levels inside one work folder.
pub const WORK_FOLDER_DEPTH_MAX: usize = 16;
/// Nesting of one YAML document. CRD schemas are the deepest real input, at about 60.
pub const YAML_DEPTH_MAX: usize = 128;
/// Nodes of one YAML stream after aliases are expanded.
pub const YAML_NODES_MAX: usize = 1_000_000;
/// Documents of one YAML stream.
pub const YAML_DOCUMENTS_MAX: usize = 10_000;
/// Manifests of one work. OCM's agent keeps a condition list for each in the work's status.
pub const WORK_MANIFESTS_MAX: usize = 5_000;
/// Sum of the manifests' JSON bytes in one work: the default of the hub's admission webhook
/// (OCM work webhook, flag `--manifestLimit`).
pub const WORK_BYTES_MAX: usize = 500 * 1024;
/// Clusters of one source.
pub const CLUSTERS_MAX: usize = 20_000;
/// Works of one source.
pub const WORKS_MAX: usize = 200_000;
/// Length of a path inside a repository, in bytes.
pub const PATH_BYTES_MAX: usize = 4_096;
/// Diagnostics reported for one repository; past it, a last one says how many were left out.
pub const DIAGNOSTICS_MAX: usize = 10_000;
/// Files in `approvals`: each is for one hold, and of no use once that is carried out.
pub const APPROVALS_MAX: usize = 200;
/// One approval: a line of some 100 bytes for each of `WORKS_MAX` works.
pub const APPROVAL_BYTES_MAX: usize = 24 * 1024 * 1024;
/// A uid on the hub. Kubernetes' have 36.
pub const UID_BYTES_MAX: usize = 128;
/// All of one ConfigMap: the API server takes 1 MiB (Kubernetes: `MaxSecretSize`, for both kinds), and the rest is
/// for names and metadata.
pub const CONFIG_MAP_BYTES_MAX: usize = 1000 * 1024;
/// How often the hub is asked what operators say there: whether something is approved, suspended or to be synced now.
/// One request of some 100 bytes for each source.
pub const DIRECTIVES_POLL: Duration = Duration::from_secs(10);
/// How long the hub is left alone before it is asked again for what nothing can be planned without.
pub const DIRECTIVES_RETRY: Duration = Duration::from_secs(2);
/// A source's record on the hub: an annotation, of which all of an object's have 256 KiB at most.
pub const RECORD_BYTES_MAX: usize = 200 * 1024;
/// What the daemon tells of a source on the hub: some hundred works with their reasons. It is written whole at each change.
pub const TOLD_BYTES_MAX: usize = 64 * 1024;
/// Between two writes of it, so that what changes all the time costs the hub little.
pub const TOLD_PAUSE: Duration = Duration::from_secs(3);
/// After the hub did not take it.
pub const TOLD_RETRY: Duration = Duration::from_secs(60);
/// Applied commits that one record says were left behind: 43 bytes each.
pub const ABANDONED_MAX: usize = 4_000;
/// Change windows of one file. A calendar that needs more is better kept as a list of days.
pub const WINDOWS_MAX: usize = 50;
/// The name of a time zone. The longest of the time zone database has 32.
pub const TIME_ZONE_CHARS_MAX: usize = 64;
/// Characters of the reason that an operator gives for a suspension: a line in a table.
pub const REASON_CHARS_MAX: usize = 200;
/// ManifestWork names: OCM's AppliedManifestWork name is a 64-digit hash, a dash and this name,
/// within 253 characters (OCM work agent).
pub const WORK_NAME_CHARS_MAX: usize = 188;

/// One request to the hub, its answer included. The API server gives admission webhooks (OCM's work webhook: 10 s)
/// no longer than this either, so what takes longer is not going to succeed.
pub const HUB_CALL: Duration = Duration::from_secs(10);
/// Setting up a connection to the hub, TLS included.
pub const HUB_CONNECT: Duration = Duration::from_secs(5);
/// How long the hub keeps one watch request open. A connection that died in silence is noticed once this and
/// `HUB_CALL` have passed; a renewed watch goes on where the last one ended and lists nothing.
pub const HUB_WATCH: Duration = Duration::from_secs(120);
/// Works on one page of a list. A page is in memory as text while it is read: 50 MB if each work were as large as
/// OCM's webhook lets them be, 0.5 MB with usual works.
pub const HUB_LIST_PAGE: u32 = 100;
/// Pages of one list: with it an API server that gives continue tokens for ever cannot keep gitwork reading.
pub const HUB_LIST_PAGES_MAX: usize = 2 * WORKS_MAX / HUB_LIST_PAGE as usize;
/// One answer of the hub: a page of works, each as large as etcd stores one by default (1.5 MiB).
pub const HUB_ANSWER_BYTES_MAX: usize = HUB_LIST_PAGE as usize * 1536 * 1024;
/// One event of a watch: the API server takes no request over 3 MiB, so no object is larger with its bookkeeping.
pub const HUB_EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often a list is started anew within one call because its continue token has expired (410).
pub const HUB_LIST_ATTEMPTS_MAX: usize = 3;
/// Credentials that are not accepted are read again, but no more often than this.
pub const HUB_RECONNECT: Duration = Duration::from_secs(5);
/// A watch that the hub ends sooner than this without a single event is a failing one, and waited for.
pub const HUB_WATCH_SHORT: Duration = Duration::from_secs(5);
/// Tries of one effect within one pass. A hiccup is over by then; the next pass waits longer.
pub const HUB_ATTEMPTS_MAX: u32 = 3;
/// The longest wait between those: what needs longer is left to the next pass.
pub const HUB_RETRY_MAX: Duration = Duration::from_secs(5);
/// Requests in a row without an answer after which a pass gives up on the rest: the hub is away.
pub const HUB_UNANSWERED_MAX: usize = 64;
/// Characters kept of a message by the API server or a webhook: it ends up in logs, Events and commit statuses.
pub const HUB_MESSAGE_CHARS_MAX: usize = 1_000;
/// Effects in flight on one hub. The API server takes 200 changing requests at once by default
/// (`--max-mutating-requests-inflight`) and other clients need their share.
pub const HUB_IN_FLIGHT: usize = 32;
/// Effects in flight for one cluster, so that a slow one leaves room for others.
pub const HUB_IN_FLIGHT_PER_CLUSTER: usize = 8;
/// All annotations of one object, as the API server allows (Kubernetes: `TotalAnnotationSizeLimitB`). What the
/// hub holds beyond is not read.
pub const ANNOTATION_BYTES_MAX: usize = 256 * 1024;
/// One JSONPath of a rule. A path with a long filter has some 200 bytes.
pub const JSONPATH_BYTES_MAX: usize = 4_096;
/// Expressions within expressions of one JSONPath; real ones have a key within a filter, which is two.
pub const JSONPATH_DEPTH_MAX: usize = 16;
/// Values that one JSONPath may touch in one object: `..` repeated multiplies them. An object at etcd's limit
/// of 1.5 MiB has at most some 100,000 values.
pub const JSONPATH_STEPS_MAX: usize = 1_000_000;
/// One CEL expression of a condition rule. Real ones have a few hundred bytes, and parsing takes more than
/// linear time.
pub const CEL_BYTES_MAX: usize = 4_096;
/// Brackets, calls and conditions within one another in a CEL expression. A level takes the parser some
/// 150 KiB of stack without optimisation and under 20 KiB with it, and a thread has 2 MiB.
pub const CEL_DEPTH_MAX: u16 = if cfg!(debug_assertions) { 8 } else { 32 };
/// Fields that a diff of one object shows. A person reads no more; past it, they are counted.
pub const DIFF_FIELDS_MAX: usize = 200;
/// Lines that a diff of one text shows, context included.
pub const DIFF_LINES_MAX: usize = 200;
/// Bytes of one value that a diff keeps.
pub const DIFF_VALUE_BYTES_MAX: usize = 2_048;
/// Items (or lines) that differ in one list (or text), both sides together, of which the shortest edit is
/// searched for: it takes up to the square of this many steps.
pub const DIFF_ITEMS_MAX: usize = 4_000;
/// Characters of a pull-request comment: GitHub takes 65,536, and the caller may add some words.
pub const COMMENT_CHARS_MAX: usize = 60_000;
/// Characters kept of one text of a work's status: a person reads no more in a table or a file.
pub const STATUS_TEXT_CHARS_MAX: usize = 300;
/// Conditions kept of a work or an object. OCM's agent sets at most five, and condition rules add some.
pub const STATUS_CONDITIONS_MAX: usize = 12;
/// Feedback values kept of one object. OCM's well-known rules give at most five.
pub const STATUS_FEEDBACK_MAX: usize = 32;
/// What is kept of one work's status. Usual works have some hundred bytes; this is what a hostile
/// agent can make the daemon keep for each.
pub const STATUS_ACCOUNT_BYTES_MAX: usize = 4 * 1024;
/// From SIGTERM to the end: writes in flight are waited for this long. With `LEASE_RELEASE` after it, that leaves a second of
/// the ten that Kubernetes operators expect (spec: graceful shutdown in 10 s).
pub const SHUTDOWN: Duration = Duration::from_secs(7);
/// How long the Lease of a leader counts that is not renewed: as with Kubernetes' own controllers, and so the longest time
/// that a source has no leader after one has died.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew its Lease for so long stops writing: before another may begin, with time for a stall.
pub const LEASE_RENEW: Duration = Duration::from_secs(10);
/// Between two looks at a Lease: three within `LEASE_RENEW`, and a third of a request a second for each source and daemon.
pub const LEASE_RETRY: Duration = Duration::from_secs(3);
/// For the Leases to be given up at the end.
pub const LEASE_RELEASE: Duration = Duration::from_secs(1);
/// One tree object of a repository: a folder of more than a million entries.
pub const TREE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Commits looked at to answer a question about history. Each opens the trees that it changed: measured at 6 ms
/// a commit with 2,000 cluster folders in an unoptimised build, so that an answer takes two minutes at the most.
pub const HISTORY_COMMITS_MAX: usize = 20_000;
/// Files and folders of a local directory, as many as a source of `WORKS_MAX` works of a few files has.
pub const DIRECTORY_ENTRIES_MAX: usize = 1_000_000;
/// Folder levels of a local directory; deeper ones are loops by mounts, or an attack on the stack.
pub const DIRECTORY_DEPTH_MAX: usize = 64;
/// The head of an answer of a Git server over HTTP.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Redirects followed from a repository's URL; forges use one.
pub const HTTP_REDIRECTS_MAX: usize = 5;
/// A file with a password, a token, a key or certificates: a bundle of all public authorities has 250 KiB.
pub const CREDENTIAL_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// References a Git server may list.
pub const REFERENCES_MAX: usize = 500_000;
/// Packs of a mirror before it is written anew as one: every look-up asks each of them.
pub const MIRROR_PACKS_MAX: usize = 100;
/// One commit status, from the look-up of the forge's name to the end of its answer.
pub const FORGE_CALL: Duration = Duration::from_secs(15);
/// What is read of a forge's answer: a commit status has some 5 KiB, an error page some more.
pub const FORGE_ANSWER_BYTES_MAX: usize = 256 * 1024;
/// A token file. JSON Web Tokens are the longest, at a few KiB.
pub const TOKEN_BYTES_MAX: u64 = 64 * 1024;
/// A file of certificate authorities: those of a whole system have some 250 KiB.
pub const CA_BUNDLE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// One push of the status branch, or the fetch before it.
pub const STATUS_PUSH: Duration = Duration::from_secs(120);
/// What is fetched of a status branch: its files have some 20 MB with 10,000 works, and Git packs them.
pub const STATUS_FETCH_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The file of it that sums all up: 200 works that are not as they should be, with a message each, have some 200 KB.
pub const STATUS_SUMMARY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Commits of the status branch. Past it, its history starts anew: nobody reads a thousand of them, and each mirror of
/// the repository carries them.
pub const STATUS_HISTORY_MAX: usize = 1_000;
/// Tries of one publication against others that push to the same branch.
pub const STATUS_PUSH_ATTEMPTS_MAX: usize = 5;
/// Pushes after which the status branch's repository here is made anew: libgit2 cannot collect garbage, and each push
/// leaves some six loose objects.
pub const STATUS_PUSHES_MAX: usize = 2_000;
/// Browsers that follow the status page at once. Each holds a connection; a team and its screens are some dozens.
pub const PAGE_FOLLOWERS_MAX: usize = 128;
/// Connections to the status page at once: a browser opens up to six.
pub const PAGE_CONNECTIONS_MAX: usize = 512;
/// A connection to the status page on which nothing moves for so long is closed. A browser that follows gets a beat
/// every `PAGE_BEAT`.
pub const PAGE_IDLE: Duration = Duration::from_secs(30);
/// Between two beats. The page calls itself out of date after two and a half of them.
pub const PAGE_BEAT: Duration = Duration::from_secs(10);
/// Changes of the status page that are kept for browsers which are behind: at two a second, a minute's worth.
pub const PAGE_CHANGES_MAX: usize = 128;
/// Bytes of those: more than the whole of 10,000 works has, which is sent instead past it.
pub const PAGE_CHANGES_BYTES_MAX: usize = 128 * 1024;
/// Characters of the line that sums a source up on the status page.
pub const PAGE_LINE_CHARS_MAX: usize = 400;
/// Connections for probes and metrics at once: a kubelet and some scrapers.
pub const PROBE_CONNECTIONS_MAX: usize = 64;
/// A connection for probes and metrics on which nothing moves for so long is closed. Scrapers keep one between scrapes,
/// which are usually 15 to 60 s apart.
pub const PROBE_IDLE: Duration = Duration::from_secs(120);
/// A webhook's body. GitHub sends none above 25 MB; it is hashed as it comes and not kept.
pub const WEBHOOK_BODY_BYTES_MAX: usize = 25 * 1024 * 1024;
/// One webhook, from its head to its end: GitHub gives up on an answer after 10 s.
pub const WEBHOOK_CALL: Duration = Duration::from_secs(10);
/// Connections for webhooks at once: forges send some in a second, and each costs a socket and some memory.
pub const WEBHOOK_CONNECTIONS_MAX: usize = 64;
/// Clusters and groups with a commit status of their own, of one source: a forge shows each on every commit's page.
pub const FORGE_CONTEXTS_MAX: usize = 50;
/// Errors and warnings that are shown at their lines: four requests to GitHub, and more than a person reads.
pub const STATUS_FINDINGS_MAX: usize = 200;
/// The text of an Event: the API server takes 1 KiB (Kubernetes: `NoteLengthLimit`).
pub const EVENT_NOTE_BYTES_MAX: usize = 1_024;
/// Events that are written at once over all works of a source, and how often one more may be: an API server keeps each for
/// an hour, so that a fleet that flaps leaves some 18,000 of them there.
pub const EVENTS_AT_ONCE: u32 = 100;
pub const EVENT_EVERY: Duration = Duration::from_millis(200);
/// As the two above, for one work: nobody reads more of a work that flaps.
pub const EVENTS_OF_WORK_AT_ONCE: u32 = 5;
pub const EVENT_OF_WORK_EVERY: Duration = Duration::from_secs(60);
/// Works whose Events are remembered. Past it, those are forgotten whose last one no longer counts: 400 works at the most
/// can have one within `EVENT_OF_WORK_EVERY`, and so no more than 1,600 within five times that.
pub const EVENT_WORKS_MAX: usize = 2_000;
/// One signature of a commit, armoured. Those of OpenPGP with RSA keys have some 900 bytes; what they may carry beside
/// the signature is no reason to read more.
pub const SIGNATURE_BYTES_MAX: usize = 64 * 1024;
/// A commit object whose signature is checked: a tree, parents and a message that people wrote.
pub const COMMIT_BYTES_MAX: usize = 1024 * 1024;
/// New commits that are verified at once; each takes up to a millisecond for its signature, and more for what it changed.
pub const VERIFIED_COMMITS_MAX: usize = 10_000;
/// Lines of one allowed_signers file.
pub const ALLOWED_SIGNERS_MAX: usize = 10_000;
/// One line of it: an RSA key of 16,384 bits has 3 KiB, and certificates are not taken.
pub const ALLOWED_SIGNER_BYTES_MAX: usize = 16 * 1024;
/// OpenPGP keys of one file.
pub const OPENPGP_KEYS_MAX: usize = 1_000;
/// Parts of one OpenPGP key: subkeys, user ids, and signatures on one of them. Keys on public servers can be flooded with
/// signatures of others; a key that an operator exports has a few dozen.
pub const OPENPGP_PARTS_MAX: usize = 1_000;
/// RSA keys under this size have been broken or soon will be (NIST SP 800-57).
pub const RSA_BITS_MIN: usize = 2_048;
/// Larger ones the library refuses, since they take long to check.
pub const RSA_BITS_MAX: usize = 4_096;
/// Rules for paths in one policy, and patterns in one of them.
pub const SIGNER_RULES_MAX: usize = 100;
/// Patterns of one list, in the syntax of .gitignore; of all of them, the bytes of so many of 64. They become one
/// automaton, whose size grows with them.
pub const PATTERNS_MAX: usize = 1_000;
/// Bases that a change is compared with where the last verified commit is not known exactly.
pub const SIGNER_BASES_MAX: usize = 16;
/// Commits of a branch that may be refused one after the other before only its head is judged: each looks at all new
/// commits again, as a later one may bring the signature that is missing.
pub const SIGNER_RETRIES_MAX: usize = 50;
/// Entries of `metadata.managedFields` that are looked at for who has edited a work; a work has three or four, and the API
/// server merges the oldest updates past ten.
pub const MANAGED_FIELDS_ENTRIES_MAX: usize = 32;
/// Fields of one of them, and how deep they are looked for: a ManifestWork's spec has some dozens, and its manifests are
/// one field.
pub const MANAGED_FIELDS_MAX: usize = 1_000;
pub const MANAGED_FIELDS_DEPTH_MAX: usize = 16;
/// Fields that are told of who edited a work, and the characters of each and of the name (Kubernetes takes 128 of it): it
/// has to fit into an Event.
pub const RIVAL_FIELDS_MAX: usize = 4;
pub const RIVAL_CHARS_MAX: usize = 128;
/// Take-overs whose changes `plan` shows: each is a request to the hub, and a page to read.
pub const TAKE_OVERS_SHOWN_MAX: usize = 20;
/// Arenas of glibc's allocator. It would give each thread one of its own, up to eight for each processor, and what is freed in
/// one serves no other thread. Measured after 25 minutes of pushes to 1,000 works: of 44 MiB in eight arenas 18 MiB were in use.
pub const HEAP_ARENAS_MAX: i32 = 2;
/// Pages of the heap that nothing is in are given back so often. Measured after 15 minutes of pushes to 1,000 works: of 26 MB in
/// two arenas 11.5 MB were in use, and giving back took 9.5 MB off the process.
pub const HEAP_GIVEN_BACK: Duration = Duration::from_secs(60);
