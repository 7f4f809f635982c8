//! What kinds are called in URLs: asked of the cluster once for each group and version, and again
//! where a kind is missing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::mutex::lock;
use super::resource_path::group_version_path;
use super::server::{ApiError, ApiServer};
use gitwork_agent_core::manifest::ResourceMapping;

/// A kind that is not there is looked for no more often than this: hundreds of works may miss the
/// same one.
const MISS_FOR: Duration = Duration::from_millis(50);

/// Time limit of one list of kinds. It is short, because a hanging aggregated API server must not
/// hold up the other manifests of a work for long.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// An API server that did not answer in time is not asked again for this long: hundreds of works
/// may have its kinds, and each would occupy a worker.
const HANGING_FOR: Duration = Duration::from_secs(15);
/// Group versions that are kept. A cluster has some dozens, but works may name any.
const GROUP_VERSIONS_MAX: usize = 500;

/// Kinds of one group and version: kind to resource and scope.
type Kinds = HashMap<String, (String, bool)>;

/// What is known of one group and version.
#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    /// Its kinds at a moment.
    Kinds(Instant, Arc<Kinds>),
    /// Its API server did not answer in time, at this moment.
    Hanging(Instant),
}

/// One group and version.
#[derive(Default)]
struct GroupVersion {
    /// The lock is held over the request: passes that miss
    /// the same kind wait for one response. Others do not wait: an aggregated API server may hang.
    known: Mutex<Known>,
    /// One of the kinds turned out not to be served.
    forgotten: AtomicBool,
}

#[derive(Default)]
pub struct Discovery {
    known: StdMutex<HashMap<String, Arc<GroupVersion>>>,
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
        let group_path = group_version_path(group, version);
        let found = |kinds: &Kinds| {
            kinds.get(kind).map(|(resource, namespaced)| ResourceMapping {
                group: group.into(),
                version: version.into(),
                resource: resource.clone(),
                namespaced: *namespaced,
            })
        };
        let entry = self.entry(&group_path);
        let mut known = entry.known.lock().await;
        if entry.forgotten.swap(false, Ordering::Relaxed) {
            *known = Known::Nothing;
        }
        match &*known {
            Known::Hanging(since) if since.elapsed() < HANGING_FOR => {
                return Err(ApiError::Timeout);
            }
            Known::Kinds(asked, kinds) => {
                let mapping = found(kinds);
                if mapping.is_some() || asked.elapsed() < MISS_FOR {
                    return Ok(mapping);
                }
            }
            Known::Nothing | Known::Hanging(_) => {}
        }
        let listing = timeout(LIST_TIMEOUT, server.list::<ResourceList>(&group_path, false));
        let kinds = match listing.await {
            Ok(Ok(list)) => kinds(list),
            Ok(Err(error)) if error.is_not_found() => Kinds::new(),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                *known = Known::Hanging(Instant::now());
                return Err(ApiError::Timeout);
            }
        };
        let mapping = found(&kinds);
        *known = Known::Kinds(Instant::now(), Arc::new(kinds));
        Ok(mapping)
    }

    fn entry(&self, group_path: &str) -> Arc<GroupVersion> {
        let mut known = lock(&self.known);
        if known.len() >= GROUP_VERSIONS_MAX && !known.contains_key(group_path) {
            known.clear();
        }
        known.entry(group_path.to_owned()).or_default().clone()
    }

    /// Forgets a group and version: one of its kinds turned out not to be served.
    pub fn forget(&self, group: &str, version: &str) {
        if let Some(entry) = lock(&self.known).get(&group_version_path(group, version)) {
            entry.forgotten.store(true, Ordering::Relaxed);
        }
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
