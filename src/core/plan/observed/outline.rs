//! The spec of a ManifestWork without what its manifests contain.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What else than the manifests' content is in a spec: enough to know its objects, and how they are
/// deleted and updated.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpecOutline {
    #[serde(default)]
    delete_option: Value,
    #[serde(default)]
    manifest_configs: Value,
    workload: Workload,
}

#[derive(Deserialize, Serialize)]
struct Workload {
    manifests: Vec<Manifest>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    api_version: String,
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize, Serialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

impl SpecOutline {
    /// The outline of a spec in JSON. `None` if it is not as gitwork writes specs.
    pub(super) fn of(spec: &str) -> Option<Value> {
        let outline: Self = serde_json::from_str(spec).ok()?;
        serde_json::to_value(outline).ok()
    }
}
