//! JSON as a ManifestWork that a hub returns. The kept part is bounded, only gitwork's fields count
//! for its digest, and a work that is stored as sent needs no write.

use std::collections::BTreeMap;

use gitwork_core::limits;
use gitwork_core::model::name::{ClusterName, RepoPath, SourceId, WorkKey, WorkName};
use gitwork_core::model::work::WorkBody;
use gitwork_core::plan::observed::{Observed, ObservedWork};
use serde_json::{Value, json};

pub fn check(bytes: &[u8]) -> bool {
    let Ok(object) = serde_json::from_slice::<Value>(bytes) else { return false };
    stored_as_sent(&object);
    let read = match ObservedWork::from_manifest_work(object.clone()) {
        Ok(read) => read,
        Err(why) => {
            assert!(why.to_string().len() < 2_000, "{why}");
            return false;
        }
    };
    let details = serde_json::to_string(&read.status.details()).unwrap();
    // The size is counted before the commas.
    assert!(details.len() <= limits::STATUS_DETAILS_BYTES_MAX + 200, "{}", details.len());
    let short = |text: &Option<Box<str>>, limit| text.as_ref().is_none_or(|t| t.len() <= limit);
    assert!(short(&read.path, limits::PATH_BYTES_MAX));
    // Fields that other clients may change cause no write.
    let mut others = object;
    others["status"] = json!({"conditions": 7});
    others["metadata"]["finalizers"] = json!(["x"]);
    others["metadata"]["managedFields"] = json!([{}]);
    for field in ["labels", "annotations"] {
        if let Some(all) = others["metadata"][field].as_object_mut()
            && !read.owned().labels.contains("of/others")
            && !read.owned().annotations.contains("of/others")
        {
            all.insert("of/others".into(), "x".into());
        }
    }
    let again = ObservedWork::from_manifest_work(others).unwrap();
    assert_eq!((again.digest, &again.key), (read.digest, &read.key));
    let mut observed = Observed::default();
    observed.record_change(read.clone());
    observed.record_change(read.clone());
    assert_eq!(observed.works.len(), 1);
    true
}

/// Uses the input's spec, labels and annotations as Git's, and a hub that stores what it receives.
fn stored_as_sent(object: &Value) {
    let map = |field: &str| {
        let fields = object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_object);
        let texts = fields.into_iter().flatten();
        let user = |key: &str| !key.contains("gitwork.dev/") && !key.contains("managed-by");
        let texts = texts.filter(|(key, _)| user(key.as_str()));
        let texts =
            texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        texts.collect::<BTreeMap<String, String>>()
    };
    let source = SourceId::parse("fleet").unwrap();
    let path = RepoPath::root().join("clusters").join("edge-1").join("web");
    let key = WorkKey {
        cluster: ClusterName::parse("edge-1").unwrap(),
        work: WorkName::parse("web").unwrap(),
    };
    let spec = object.get("spec").filter(|spec| spec.is_object()).cloned();
    let spec = spec.unwrap_or_else(|| json!({}));
    let body = WorkBody::new(&source, &path, spec, map("labels"), map("annotations"), true);
    let mut stored = body.to_manifest_work(&key, None);
    stored["metadata"]["uid"] = "u-1".into();
    stored["metadata"]["resourceVersion"] = "7".into();
    let keys = stored["metadata"]["annotations"].to_string().len();
    let read = ObservedWork::from_manifest_work(stored).unwrap();
    assert!(read.is_ours(&source) && read.key == key);
    if keys <= limits::ANNOTATION_BYTES_MAX {
        assert_eq!(read.digest, body.digest, "a write that is not needed");
        assert_eq!(read.written, Some(body.digest));
    }
}
