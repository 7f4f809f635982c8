//! What kinds are called in URLs: asked of the cluster once for each group and version, and again
//! where a kind is missing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::server::{ApiError, ApiServer};
use gitwork_agent_core::manifest::ResourceMapping;

/// A kind that is not there is looked for no more often than this: hundreds of works may miss the
/// same one.
const MISS_FOR: Duration = Duration::from_millis(50);

/// Kinds of one group and version: kind to resource and scope.
type Kinds = HashMap<String, (String, bool)>;

#[derive(Default)]
pub struct Discovery {
    known: Mutex<HashMap<String, (Instant, Arc<Kinds>)>>,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

impl Discovery {
    /// The mapping of a kind; `None` where the cluster does not have it.
    ///
    /// # Errors
    /// Where the cluster cannot be asked.
    pub async fn mapping(
        &self,
        server: &ApiServer,
        (group, version): (&str, &str),
        kind: &str,
    ) -> Result<Option<ResourceMapping>, ApiError> {
        let group_path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        let found = |kinds: &Kinds| {
            kinds.get(kind).map(|(resource, namespaced)| ResourceMapping {
                group: group.into(),
                version: version.into(),
                resource: resource.clone(),
                namespaced: *namespaced,
            })
        };
        // The lock is held over the request: who misses the same kind waits for one answer.
        let mut known = self.known.lock().await;
        if let Some((asked, kinds)) = known.get(&group_path) {
            let mapping = found(kinds);
            if mapping.is_some() || asked.elapsed() < MISS_FOR {
                return Ok(mapping);
            }
        }
        let kinds = match server.list::<ResourceList>(&group_path, false).await {
            Ok(list) => kinds(list),
            Err(error) if error.is_not_found() => Kinds::new(),
            Err(error) => return Err(error),
        };
        let mapping = found(&kinds);
        known.insert(group_path, (Instant::now(), Arc::new(kinds)));
        Ok(mapping)
    }

    /// Forgets a group and version: one of its kinds turned out not to be served.
    pub async fn forget(&self, group: &str, version: &str) {
        let path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        self.known.lock().await.remove(&path);
    }
}

/// Sub-resources have a slash in their name.
fn kinds(list: ResourceList) -> Kinds {
    list.resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| (resource.kind, (resource.name, resource.namespaced)))
        .collect()
}
