//! Where the id of a source comes from.

use std::collections::BTreeSet;

use super::error::CommandError;
use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_core::plan::observed::ObservedWork;

/// Where the id of a source comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdFrom {
    /// The arguments, the daemon's file or the hub.
    Name,
    /// A repository's URL: the default id is equal on every machine.
    Url,
    /// A folder on disk: the default id is another one if the folder or its remote changes.
    Folder,
}

impl IdFrom {
    /// Checks that `id` may be written to the hub.
    pub fn check_write(self, id: &SourceId) -> Result<(), CommandError> {
        if self != Self::Folder {
            return Ok(());
        }
        Err(CommandError::usage(format!(
            "the repository is a folder without a source id, so nothing is written to the hub; \
             name the id with --source-id, the same one each time, as in --source-id {id}"
        )))
    }
}

/// The id of a source that nothing names, taken from all works on the hub. A clone has another
/// default id than the daemon's source.
///
/// It is the source of `work`. Without it, it is the default id if the hub has a source of this id.
/// Else it is the only source on the hub.
pub fn source_on_hub(
    works: &[ObservedWork],
    work: Option<&WorkKey>,
    default: &SourceId,
) -> Option<SourceId> {
    let of_work = work.and_then(|key| works.iter().find(|work| work.key == *key));
    if let Some(source) = of_work.and_then(|work| work.source.as_deref()) {
        return SourceId::parse(source).ok();
    }
    let all: BTreeSet<&str> = works.iter().filter_map(|work| work.source.as_deref()).collect();
    if all.contains(default.as_str()) {
        return Some(default.clone());
    }
    let mut all = all.into_iter();
    match (all.next(), all.next()) {
        (Some(only), None) => SourceId::parse(only).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gitwork_core::model::name::{ClusterName, WorkName};
    use serde_json::json;

    use super::*;

    fn work(name: &str, source: Option<&str>) -> ObservedWork {
        let labels = source.map(|id| json!({ "gitwork.dev/source": id }));
        let metadata = json!({ "namespace": "edge-1", "name": name, "uid": name,
            "resourceVersion": "1", "labels": labels });
        let object = json!({ "metadata": metadata, "spec": {} });
        ObservedWork::from_manifest_work(object).unwrap()
    }

    #[test]
    fn source_is_that_of_the_work_or_the_default_or_the_only_one() {
        let key = |name: &str| WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse(name).unwrap(),
        };
        let found = |works: &[ObservedWork], name: Option<&str>, default: &str| {
            let default = SourceId::parse(default).unwrap();
            let id = source_on_hub(works, name.map(key).as_ref(), &default);
            id.map(|id| id.to_string())
        };
        let one = [work("web", Some("fleet")), work("other", None)];
        let two = [work("web", Some("fleet")), work("db", Some("shop"))];
        assert_eq!(found(&one, None, "clone").as_deref(), Some("fleet"));
        assert_eq!(found(&one, Some("other"), "clone").as_deref(), Some("fleet"));
        assert_eq!(found(&two, None, "clone"), None);
        assert_eq!(found(&two, None, "shop").as_deref(), Some("shop"));
        assert_eq!(found(&two, Some("web"), "shop").as_deref(), Some("fleet"));
        assert_eq!(found(&[], None, "clone"), None);
    }
}
