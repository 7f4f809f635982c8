//! OCM's own controller of ManifestWorkReplicaSets: two controllers would undo each other's writes.
//! It leads by a Lease, too.

use std::fmt;
use std::str::FromStr;

use gitwork_api::names::{check_label, check_subdomain};
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::lease;
use gitwork_kube::lease::Lease;
use gitwork_retry::log_error;
use gitwork_runtime::clock::WallClock;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use crate::collection_watch::{CollectionEvent, WatchedCollection, follow};
use crate::hub_api::{HubApi, HubOperation, HubRequest, HubRequestError};
use crate::limits;

/// The Lease of OCM's controller: namespace and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcmLeaseName {
    namespace: String,
    name: String,
}

impl Default for OcmLeaseName {
    /// That of the Deployment `cluster-manager-work-controller`.
    fn default() -> Self {
        Self { namespace: "open-cluster-management-hub".into(), name: "work-manager-lock".into() }
    }
}

impl FromStr for OcmLeaseName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').filter(|(namespace, name)| {
            check_label(namespace, 63).is_ok() && check_subdomain(name, 253).is_ok()
        });
        let (namespace, name) = parts.ok_or("a Lease is named NAMESPACE/NAME")?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for OcmLeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl OcmLeaseName {
    fn folder(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    /// The holder, if OCM's controller leads now. Without the right to read the Lease, this says so
    /// once and goes on.
    pub(crate) async fn holder(
        &self,
        api: &HubApi,
        clock: &WallClock,
    ) -> Result<Option<String>, HubRequestError> {
        let path = format!("{}/{}", self.folder(), self.name);
        let request = HubRequest::new(HubOperation::Read, path, format!("Lease {self}"));
        match api.send::<Lease>(&request).await {
            Ok(lease) => Ok(active_holder(&lease, clock.now())),
            Err(error) if error.status().is_some_and(ApiStatus::is_not_found) => Ok(None),
            Err(error) if error.status().is_some_and(ApiStatus::is_forbidden) => {
                log_error!(
                    warn,
                    &error,
                    "cannot see whether OCM's own controller runs; make sure that it does not"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until OCM's controller leads. Gives its holder.
    pub(crate) async fn until_led(&self, api: &HubApi, clock: &WallClock) -> String {
        let path = format!("{}?fieldSelector=metadata.name%3D{}", self.folder(), self.name);
        let collection = WatchedCollection { path, kind: "the Lease of OCM's controller" };
        let (sender, mut holders) = watch::channel(None);
        let observe = |event| {
            let (CollectionEvent::Listed(Value::Object(lease))
            | CollectionEvent::Changed(Value::Object(lease))) = event
            else {
                return;
            };
            if let Some(holder) = active_holder(&lease, clock.now()) {
                sender.send_replace(Some(holder));
            }
        };
        tokio::select! {
            () = follow(api, &collection, observe) => {}
            _ = holders.changed() => {}
        }
        let holder = holders.borrow().clone();
        holder.unwrap_or_default()
    }
}

/// The holder of a Lease that was renewed a short time ago by its own clock.
fn active_holder(lease: &Lease, now: Timestamp) -> Option<String> {
    let holder = lease::holder(lease);
    let renewed = lease.get("spec")?.get("renewTime")?.as_str()?;
    let renewed: Timestamp = renewed.parse().ok()?;
    let valid_for = lease::duration(lease, limits::LEASE_DURATION) + limits::CLOCK_SKEW;
    let until = renewed.checked_add(SignedDuration::try_from(valid_for).ok()?).ok()?;
    (!holder.is_empty() && now < until).then(|| holder.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_fresh_lease_with_a_holder_counts() {
        let now: Timestamp = "2026-11-20T10:10:00Z".parse().unwrap();
        let holder = |spec: Value| {
            let lease = json!({"spec": spec}).as_object().cloned().unwrap();
            active_holder(&lease, now)
        };
        let of = |name: &str, renewed: &str| {
            let (holder, seconds) = (name, 137);
            json!({"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed})
        };
        assert_eq!(holder(of("work-1", "2026-11-20T10:09:00.5Z")), Some("work-1".into()));
        assert_eq!(holder(of("work-1", "2026-11-20T10:12:00Z")), Some("work-1".into()));
        assert_eq!(holder(of("work-1", "2026-11-20T10:06:00Z")), None);
        assert_eq!(holder(of("", "2026-11-20T10:09:00Z")), None);
        assert_eq!(holder(json!({"holderIdentity": "work-1"})), None);
    }

    #[test]
    fn names_have_two_parts() {
        let name: OcmLeaseName = "a/b.c".parse().unwrap();
        assert_eq!(name.to_string(), "a/b.c");
        for text in ["", "a", "/b", "a/", "a/b/c", "A/b", "a b/c"] {
            assert!(text.parse::<OcmLeaseName>().is_err(), "{text}");
        }
        let ocm = OcmLeaseName::default().to_string();
        assert_eq!(ocm, "open-cluster-management-hub/work-manager-lock");
    }
}
