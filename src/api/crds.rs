//! The CustomResourceDefinitions of OCM's kinds, generated from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::cluster::{ClusterClaim, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding};
use super::placement::{Placement, PlacementDecision};
use super::replicaset::ManifestWorkReplicaSet;
use super::work::{AppliedManifestWork, ManifestWork};

/// The CRD of every kind, sorted by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        ManifestWork::crd(),
        AppliedManifestWork::crd(),
        ManifestWorkReplicaSet::crd(),
        ManagedCluster::crd(),
        ManagedClusterSet::crd(),
        ManagedClusterSetBinding::crd(),
        ClusterClaim::crd(),
        Placement::crd(),
        PlacementDecision::crd(),
    ];
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}

/// Every CRD as one YAML stream, each document after a `---` line. The same text every time.
pub fn to_yaml() -> Result<String, serde_yaml::Error> {
    all().iter().map(|crd| document(crd).map(|text| format!("---\n{text}"))).collect()
}

/// One CRD as a YAML document.
pub fn document(crd: &CustomResourceDefinition) -> Result<String, serde_yaml::Error> {
    let mut value = serde_yaml::to_value(crd)?;
    whole_numbers(&mut value);
    serde_yaml::to_string(&value)
}

/// Writes bounds such as `minimum: 1.0` as `1`: the type for CRDs has all of them as floats.
fn whole_numbers(value: &mut serde_yaml::Value) {
    match value {
        serde_yaml::Value::Mapping(fields) => fields.values_mut().for_each(whole_numbers),
        serde_yaml::Value::Sequence(items) => items.iter_mut().for_each(whole_numbers),
        serde_yaml::Value::Number(number) => {
            if let Some(whole) = number.as_f64().map(|float| float as i64)
                && number.is_f64()
                && number.as_f64() == Some(whole as f64)
            {
                *number = whole.into();
            }
        }
        _ => {}
    }
}

/// The schema of a top-level field of a kind.
#[cfg(test)]
pub(super) fn property(crd: &CustomResourceDefinition, name: &str) -> Option<serde_json::Value> {
    let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema.properties.as_ref()?.get(name)?).ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test compares, and rewrites, committed files")]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    #[test]
    fn committed_crds_are_up_to_date() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        let mut expected: Vec<(String, String)> = all()
            .iter()
            .map(|crd| {
                let name = crd.metadata.name.clone().unwrap();
                (format!("{name}.yaml"), document(crd).unwrap())
            })
            .collect();
        expected.sort();
        let is_update = env::var_os("GITWORK_UPDATE").is_some();
        for (name, text) in &expected {
            let path = folder.join(name);
            let is_equal = fs::read_to_string(&path).is_ok_and(|committed| committed == *text);
            if is_update && !is_equal {
                fs::write(&path, text).unwrap();
            } else {
                assert!(is_equal, "deploy/crds/{name} is out of date: run with GITWORK_UPDATE=1");
            }
        }
        let mut names: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert!(names.iter().eq(expected.iter().map(|(name, _)| name)), "{names:?}");
    }

    #[test]
    fn the_stream_has_every_crd_and_reads_back_the_same() {
        let text = to_yaml().unwrap();
        assert_eq!(text, to_yaml().unwrap(), "deterministic");
        let documents: Vec<CustomResourceDefinition> = text
            .split("---\n")
            .filter(|document| !document.is_empty())
            .map(|document| serde_yaml::from_str(document).unwrap())
            .collect();
        assert_eq!(documents, all());
        assert!(!text.contains(".0\n"), "bounds are whole numbers");
    }
}
