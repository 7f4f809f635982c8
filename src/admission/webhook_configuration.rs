//! The ValidatingWebhookConfiguration, as far as it is about these webhooks: which authorities the
//! API servers trust.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use serde_json::{Value, json};

/// The names of the webhooks in `deploy/admission.yaml`. Other entries belong to others.
const WEBHOOKS: [&str; 2] =
    ["manifestworks.admission.gitwork.dev", "manifestworkreplicasets.admission.gitwork.dev"];

/// A configuration that was read.
#[derive(Debug)]
pub(crate) struct WebhookConfiguration {
    resource_version: String,
    /// Each own webhook: its index, its name and its bundle.
    own: Vec<(usize, String, Option<String>)>,
    /// What webhooks with gitwork's names call, if that is another installation of gitwork.
    called_instead: Option<String>,
}

impl WebhookConfiguration {
    /// Reads one. A webhook is own if it calls one of `names`: another installation of gitwork
    /// looks after its own.
    pub fn read(object: &Value, names: &BTreeSet<String>) -> Self {
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let webhooks = object.get("webhooks").and_then(Value::as_array);
        let webhooks = webhooks.into_iter().flatten().enumerate();
        let mut called_instead = None;
        let own = webhooks.filter_map(|(index, webhook)| {
            let name = text(webhook, "/name");
            if !WEBHOOKS.contains(&name.as_str()) {
                return None;
            }
            if let Some(other) = called_host(webhook).filter(|host| !names.contains(host)) {
                called_instead = Some(other);
                return None;
            }
            let bundle = webhook.pointer("/clientConfig/caBundle").and_then(Value::as_str);
            let bundle = bundle.and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
            let bundle = bundle.and_then(|bytes| String::from_utf8(bytes).ok());
            Some((index, name, bundle))
        });
        let own = own.collect();
        Self { resource_version: text(object, "/metadata/resourceVersion"), own, called_instead }
    }

    /// What the webhooks call in place of this installation.
    pub fn called_instead(&self) -> Option<&str> {
        self.called_instead.as_deref()
    }

    /// Whether it has no own webhooks.
    pub fn is_foreign(&self) -> bool {
        self.own.is_empty()
    }

    /// What all own webhooks trust; `None` if there are none.
    pub fn bundle(&self) -> Option<String> {
        let bundles = self.own.iter().map(|(_, _, bundle)| bundle.clone().unwrap_or_default());
        // A part that one of them lacks is not trusted.
        bundles.reduce(|one, other| if one == other { one } else { String::new() })
    }

    /// The JSON patch that makes all own webhooks trust `bundle`; `None` if they do. It fails if
    /// somebody else changed the configuration meanwhile.
    pub fn patch(&self, bundle: &str) -> Option<Value> {
        let differ = self.own.iter().filter(|(_, _, own)| own.as_deref() != Some(bundle));
        let encoded = BASE64_STANDARD.encode(bundle);
        let changes: Vec<Value> = differ
            .flat_map(|(index, name, _)| {
                let at = |below: &str| format!("/webhooks/{index}/{below}");
                [
                    json!({"op": "test", "path": at("name"), "value": name}),
                    json!({"op": "add", "path": at("clientConfig/caBundle"), "value": encoded}),
                ]
            })
            .collect();
        if changes.is_empty() {
            return None;
        }
        // A version in the object is a precondition: a change meanwhile is a conflict.
        let version = json!({"op": "replace", "path": "/metadata/resourceVersion",
            "value": self.resource_version});
        Some(json!([vec![version], changes].concat()))
    }
}

/// The name or address by which the API servers call a webhook.
fn called_host(webhook: &Value) -> Option<String> {
    let text = |pointer: &str| webhook.pointer(pointer).and_then(Value::as_str);
    if let Some(url) = text("/clientConfig/url") {
        let url: Uri = url.parse().ok()?;
        return Some(url.host()?.trim_matches(['[', ']']).to_owned());
    }
    let (name, namespace) =
        (text("/clientConfig/service/name")?, text("/clientConfig/service/namespace")?);
    Some(service_host(namespace, name))
}

/// The name by which API servers call a Service.
pub(crate) fn service_host(namespace: &str, service: &str) -> String {
    format!("{service}.{namespace}.svc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_webhooks_change_and_only_if_they_differ() {
        let names = BTreeSet::from([service_host("gitwork", "webhooks")]);
        let trusting = |name: &str, bundle: Option<&str>| {
            json!({"name": name, "clientConfig": {
                "service": {"namespace": "gitwork", "name": "webhooks"},
                "caBundle": bundle.map(|bundle| BASE64_STANDARD.encode(bundle))}})
        };
        let of = |one: Option<&str>, two: Option<&str>| {
            WebhookConfiguration::read(
                &json!({
                    "metadata": {"resourceVersion": "7"},
                    "webhooks": [trusting(WEBHOOKS[0], one), trusting("foreign.example.com", None),
                        trusting(WEBHOOKS[1], two)],
                }),
                &names,
            )
        };
        let configuration = of(Some("A"), None);
        assert_eq!(configuration.bundle().as_deref(), Some(""));
        let patch = configuration.patch("A").unwrap();
        assert_eq!(
            patch,
            json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "test", "path": "/webhooks/2/name", "value": WEBHOOKS[1]},
                {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "QQ=="},
            ])
        );
        assert_eq!(configuration.patch("B").unwrap().as_array().unwrap().len(), 5);
        let same = of(Some("A"), Some("A"));
        assert_eq!((same.bundle().as_deref(), same.patch("A")), (Some("A"), None));
        let foreign = WebhookConfiguration::read(&json!({"webhooks": [{"name": "x"}, 1]}), &names);
        assert!(foreign.is_foreign() && foreign.patch("A").is_none());
        assert_eq!((foreign.bundle(), foreign.called_instead()), (None, None));
    }

    #[test]
    fn webhooks_of_another_installation_are_not_own() {
        let names = BTreeSet::from([service_host("gitwork", "webhooks"), "::1".to_owned()]);
        let read = |called: Value| {
            let webhooks = json!([{"name": WEBHOOKS[0], "clientConfig": called}]);
            WebhookConfiguration::read(&json!({"webhooks": webhooks}), &names)
        };
        let service = |namespace| json!({"service": {"namespace": namespace, "name": "webhooks"}});
        assert!(!read(service("gitwork")).is_foreign());
        assert!(!read(json!({"url": "https://[::1]:9443/validate"})).is_foreign());
        let other = read(service("second"));
        assert!(other.is_foreign() && other.patch("A").is_none());
        assert_eq!(other.called_instead(), Some("webhooks.second.svc"));
        let by_url = read(json!({"url": "https://hooks.example.com/validate"}));
        assert_eq!(by_url.called_instead(), Some("hooks.example.com"));
    }
}
