//! The ValidatingWebhookConfiguration, as far as it is about these webhooks: which authorities the
//! API servers trust.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
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
}

impl WebhookConfiguration {
    /// Reads one.
    pub fn read(object: &Value) -> Self {
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let webhooks = object.get("webhooks").and_then(Value::as_array);
        let webhooks = webhooks.into_iter().flatten().enumerate();
        let own = webhooks.filter_map(|(index, webhook)| {
            let name = text(webhook, "/name");
            let bundle = webhook.pointer("/clientConfig/caBundle").and_then(Value::as_str);
            let bundle = bundle.and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
            let bundle = bundle.and_then(|bytes| String::from_utf8(bytes).ok());
            WEBHOOKS.contains(&name.as_str()).then_some((index, name, bundle))
        });
        let own = own.collect();
        Self { resource_version: text(object, "/metadata/resourceVersion"), own }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_webhooks_change_and_only_if_they_differ() {
        let trusting = |name: &str, bundle: Option<&str>| {
            json!({"name": name, "clientConfig": {
                "caBundle": bundle.map(|bundle| BASE64_STANDARD.encode(bundle))}})
        };
        let of = |one: Option<&str>, two: Option<&str>| {
            WebhookConfiguration::read(&json!({
                "metadata": {"resourceVersion": "7"},
                "webhooks": [trusting(WEBHOOKS[0], one), trusting("foreign.example.com", None),
                    trusting(WEBHOOKS[1], two)],
            }))
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
        let foreign = WebhookConfiguration::read(&json!({"webhooks": [{"name": "x"}, 1]}));
        assert!(foreign.is_foreign() && foreign.patch("A").is_none());
        assert_eq!(foreign.bundle(), None);
    }
}
