//! Names, labels and annotations of the works of a replica set.

use std::fmt;

use gitwork_api::names::check_label_value;
use gitwork_core::model::digest::Digest;

/// On each work: the replica set that it belongs to.
pub const LABEL_OWNER: &str = "work.open-cluster-management.io/manifestworkreplicaset";
/// On each work: the Placement that selects its cluster.
pub const LABEL_WORK_PLACEMENT: &str = "work.open-cluster-management.io/placementname";
/// On the replica set: its works must be deleted first.
pub const FINALIZER: &str = "work.open-cluster-management.io/manifest-work-cleanup";
/// On each work: namespace and name of the replica set in full. The label has them only in part if
/// they are long.
pub const ANNOTATION_OWNER: &str = "gitwork.dev/replica-set";
/// On each work: when its content was last written. The deadline and the soak time begin then.
pub const ANNOTATION_WRITTEN: &str = "gitwork.dev/template-written";
/// On each work: keys of the labels that were copied from the replica set, separated by commas.
pub const ANNOTATION_COPIED_LABELS: &str = "gitwork.dev/copied-labels";

/// The longest value of a label.
const LABEL_VALUE_CHARS_MAX: usize = 63;
/// Digits of the hash in the name of a work.
const NAME_HASH_CHARS: usize = 10;
/// Digits of the hash in a value of a label.
const LABEL_HASH_CHARS: usize = 16;

/// A replica set: namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetKey {
    /// Its namespace, where its Placements are, too.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SetKey {
    /// The value of [`LABEL_OWNER`]: `<namespace>.<name>`, as OCM has it. A longer one is cut and
    /// gets a hash.
    pub fn owner_label(&self) -> String {
        label_value(&format!("{}.{}", self.namespace, self.name))
    }

    /// The name of the work on each cluster. `attempt` is 0, or more if works of the lower
    /// attempts are being deleted there.
    pub fn work_name(&self, attempt: u32) -> String {
        let full = match attempt {
            0 => self.to_string(),
            _ => format!("{self}#{attempt}"),
        };
        let hash = hash(&full, NAME_HASH_CHARS);
        let room = LABEL_VALUE_CHARS_MAX - NAME_HASH_CHARS - 1;
        let base: String = self.name.replace('.', "-").chars().take(room).collect();
        format!("{}-{hash}", base.trim_end_matches('-'))
    }
}

impl fmt::Display for SetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A text as the value of a label. One that is too long is cut and gets a hash.
pub fn label_value(text: &str) -> String {
    if check_label_value(text).is_none() {
        return text.to_owned();
    }
    let room = LABEL_VALUE_CHARS_MAX - LABEL_HASH_CHARS - 1;
    let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let base: String = text.chars().filter(kept).take(room).collect();
    let base = base.trim_matches(['-', '.']);
    format!("{base}-{}", hash(text, LABEL_HASH_CHARS)).trim_start_matches('-').to_owned()
}

fn hash(text: &str, digits: usize) -> String {
    Digest::of(text.as_bytes()).to_string().chars().take(digits).collect()
}

#[cfg(test)]
mod tests {
    use gitwork_api::names::check_label;

    use super::*;

    fn key(namespace: &str, name: &str) -> SetKey {
        SetKey { namespace: namespace.into(), name: name.into() }
    }

    /// M15: upstream loses dotted names and rejects long ones.
    #[test]
    fn dotted_and_long_names_have_valid_labels_and_work_names() {
        let long = "x".repeat(250);
        for (set, label) in [
            (key("fleet", "web"), Some("fleet.web")),
            (key("fleet", "web.v2"), Some("fleet.web.v2")),
            (key("fleet", &long), None),
            (key(&"n".repeat(63), "a.b-.c"), None),
        ] {
            let found = set.owner_label();
            assert_eq!(check_label_value(&found), None, "{found}");
            assert!(label.is_none_or(|label| label == found), "{found}");
            let names = [set.work_name(0), set.work_name(1)];
            assert_ne!(names[0], names[1]);
            for name in names {
                assert_eq!(check_label(&name, 63), Ok(()), "{name}");
            }
        }
    }

    #[test]
    fn different_sets_have_different_names_and_labels() {
        let long = |end: &str| key("fleet", &format!("{}{end}", "x".repeat(100)));
        for (one, other) in
            [(key("a", "b-c"), key("a-b", "c")), (key("a", "b.c"), key("a", "b-c")), {
                (long("1"), long("2"))
            }]
        {
            assert_ne!(one.owner_label(), other.owner_label());
            assert_ne!(one.work_name(0), other.work_name(0));
        }
    }
}
