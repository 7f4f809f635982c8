//! What the well-known rules of OCM report: for which kinds, and from which fields.

/// The name of a feedback value, and its path in the object.
pub type NamedPath = (&'static str, &'static str);

/// The condition that a `WellKnownConditions` rule can have.
pub const COMPLETE: &str = "Complete";

const DEPLOYMENT: &[NamedPath] = &[
    ("ReadyReplicas", ".status.readyReplicas"),
    ("Replicas", ".status.replicas"),
    ("AvailableReplicas", ".status.availableReplicas"),
];
const DAEMON_SET: &[NamedPath] = &[
    ("NumberReady", ".status.numberReady"),
    ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
    ("NumberAvailable", ".status.numberAvailable"),
];
const JOB: &[NamedPath] = &[
    ("JobComplete", r#".status.conditions[?(@.type=="Complete")].status"#),
    ("JobSucceeded", ".status.succeeded"),
];
const POD: &[NamedPath] = &[
    ("PodReady", r#".status.conditions[?(@.type=="Ready")].status"#),
    ("PodPhase", ".status.phase"),
];

/// The values that a `WellKnownStatus` rule reports; `None` if the kind has none.
pub fn status_paths(api_version: &str, kind: &str) -> Option<&'static [NamedPath]> {
    match (api_version, kind) {
        ("apps/v1", "Deployment") => Some(DEPLOYMENT),
        ("apps/v1", "DaemonSet") => Some(DAEMON_SET),
        ("batch/v1", "Job") => Some(JOB),
        ("v1", "Pod") => Some(POD),
        _ => None,
    }
}

/// Whether a `WellKnownConditions` rule sets this condition for the kind.
pub fn has_condition(api_version: &str, kind: &str, condition: &str) -> bool {
    condition == COMPLETE && matches!((api_version, kind), ("batch/v1", "Job") | ("v1", "Pod"))
}
