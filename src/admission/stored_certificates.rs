//! The self-made certificates in their Secret, which all replicas share.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gitwork_admission_rules::rotation::{
    CertificateDates, RotationSchedule, RotationStep, StoredDates,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::self_made::{MadeCertificate, make};
use crate::serving_certificate::{CertificateError, PemIdentity};

/// The key of the Secret that says when what was made. A Secret without it is somebody else's.
const STATE: &str = "state.json";

/// What the Secret has beside certificates and keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    #[serde(flatten)]
    dates: StoredDates,
    /// The names in the certificates.
    names: BTreeSet<String>,
}

/// A certificate with its authority.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoredIdentity {
    identity: PemIdentity,
    authority: String,
}

impl From<MadeCertificate> for StoredIdentity {
    fn from(made: MadeCertificate) -> Self {
        Self { identity: made.identity, authority: made.authority }
    }
}

/// The content of the Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredCertificates {
    state: State,
    current: StoredIdentity,
    next: Option<StoredIdentity>,
    previous_authority: Option<String>,
}

/// What a change of the certificates depends on.
#[derive(Debug, Clone)]
pub(crate) struct ChangeInputs<'a> {
    pub names: &'a BTreeSet<String>,
    pub schedule: RotationSchedule,
    pub now: Timestamp,
}

impl ChangeInputs<'_> {
    /// Whole seconds, as certificates have them.
    fn dates(&self) -> CertificateDates {
        let now = Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
        let expires = now.checked_add(self.schedule.lifetime()).unwrap_or(Timestamp::MAX);
        CertificateDates { created: now, expires }
    }

    fn make(&self, names: &BTreeSet<String>) -> Result<StoredIdentity, CertificateError> {
        let names: Vec<String> = names.iter().cloned().collect();
        Ok(make(&names, self.dates())?.into())
    }
}

impl StoredCertificates {
    /// The first certificate.
    pub fn first(inputs: &ChangeInputs<'_>) -> Result<Self, CertificateError> {
        let dates = StoredDates { current: inputs.dates(), next: None, replaced: None };
        let state = State { dates, names: inputs.names.clone() };
        let current = inputs.make(inputs.names)?;
        Ok(Self { state, current, next: None, previous_authority: None })
    }

    /// The same certificate and a successor: somebody deleted the Secret, to have others. What is
    /// served now stays valid meanwhile.
    pub fn with_new_next(&self, inputs: &ChangeInputs<'_>) -> Result<Self, CertificateError> {
        let kept = Self { next: None, ..self.clone() };
        kept.changed(RotationStep::AddNext, inputs)
    }

    /// The next change. `bundle`: what the API servers trust; `None` if nothing tells.
    pub fn step(&self, bundle: Option<&str>, inputs: &ChangeInputs<'_>) -> RotationStep {
        // Other flags than when it was made.
        if !inputs.names.is_subset(&self.state.names) {
            return RotationStep::Replace;
        }
        let is_trusted = self
            .next
            .as_ref()
            .is_some_and(|next| bundle.is_none_or(|bundle| bundle.contains(next.authority.trim())));
        self.state.dates.step(is_trusted, inputs.now, inputs.schedule)
    }

    /// The content after a step.
    pub fn changed(
        &self,
        step: RotationStep,
        inputs: &ChangeInputs<'_>,
    ) -> Result<Self, CertificateError> {
        let mut changed = self.clone();
        let dates = &mut changed.state.dates;
        match step {
            RotationStep::Keep => {}
            RotationStep::Replace => {
                let names = &self.state.names | inputs.names;
                changed = Self::first(&ChangeInputs { names: &names, ..inputs.clone() })?;
                changed.previous_authority = Some(self.current.authority.clone());
                changed.state.dates.replaced = Some(inputs.now);
            }
            RotationStep::AddNext => {
                changed.next = Some(inputs.make(&self.state.names)?);
                dates.next = Some(inputs.dates());
            }
            RotationStep::Promote => {
                if let Some((next, of_next)) = changed.next.take().zip(dates.next.take()) {
                    changed.previous_authority = Some(self.current.authority.clone());
                    changed.current = next;
                    dates.current = of_next;
                    dates.replaced = Some(inputs.now);
                }
            }
            RotationStep::DropPrevious => {
                changed.previous_authority = None;
                dates.replaced = None;
            }
        }
        Ok(changed)
    }

    /// The certificate to serve.
    pub fn current(&self) -> &PemIdentity {
        &self.current.identity
    }

    /// When the certificate to serve ends.
    pub fn expires(&self) -> Timestamp {
        self.state.dates.current.expires
    }

    /// All authorities that the API servers have to trust now, as PEM.
    pub fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.authority.as_str());
        let all = [Some(self.current.authority.as_str()), next, self.previous_authority.as_deref()];
        all.into_iter().flatten().map(|pem| format!("{}\n", pem.trim())).collect()
    }

    /// Reads a Secret. The error names what is missing and quotes nothing.
    pub fn read(secret: &Value, subject: &str) -> Result<Self, CertificateError> {
        let failed = |problem: String| CertificateError { subject: subject.to_owned(), problem };
        let text = |key: &str| {
            let encoded = secret.get("data")?.get(key)?.as_str()?;
            String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()
        };
        let needed = |key: &str| text(key).ok_or_else(|| failed(format!("it has no {key}")));
        let foreign = "it was not made by gitwork admission; delete it, or name another one by \
                       --secret";
        let state = text(STATE).ok_or_else(|| failed(foreign.to_owned()))?;
        let state: State = serde_json::from_str(&state)
            .map_err(|error| failed(format!("{STATE} cannot be read: {error}; delete it")))?;
        let identity = |prefix: &str, authority: &str| {
            let certificate = needed(&format!("{prefix}.crt"))?;
            let identity = PemIdentity { certificate, key: needed(&format!("{prefix}.key"))? };
            identity.certified_key(subject)?;
            Ok(StoredIdentity { identity, authority: needed(authority)? })
        };
        let next = match state.dates.next {
            Some(_) => Some(identity("next", "next-ca.crt")?),
            None => None,
        };
        let previous_authority = match state.dates.replaced {
            Some(_) => Some(needed("previous-ca.crt")?),
            None => None,
        };
        let current = identity("tls", "ca.crt")?;
        Ok(Self { state, current, next, previous_authority })
    }

    /// The Secret with this content. `present`: the one that it replaces.
    pub fn write(&self, (namespace, name): (&str, &str), present: Option<&Value>) -> Value {
        let mut data = json!({
            // Its fields are texts and times.
            STATE: serde_json::to_string(&self.state).unwrap_or_default(),
            "tls.crt": self.current.identity.certificate,
            "tls.key": self.current.identity.key,
            "ca.crt": self.current.authority,
        });
        if let Some(next) = &self.next {
            data["next.crt"] = json!(next.identity.certificate);
            data["next.key"] = json!(next.identity.key);
            data["next-ca.crt"] = json!(next.authority);
        }
        if let Some(authority) = &self.previous_authority {
            data["previous-ca.crt"] = json!(authority);
        }
        let labels = json!({"app.kubernetes.io/managed-by": "gitwork"});
        let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
        // Labels and the version of what it replaces stay; the type cannot change.
        let field = |name: &str| present.and_then(|present| present.get(name)).cloned();
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": field("metadata").unwrap_or(metadata),
            "type": field("type").unwrap_or_else(|| json!("kubernetes.io/tls")),
            "stringData": data,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn as_stored(secret: &Value) -> Value {
        let encode = |text: &Value| json!(BASE64_STANDARD.encode(text.as_str().unwrap()));
        let data = secret["stringData"].as_object().unwrap();
        let data: serde_json::Map<String, Value> =
            data.iter().map(|(key, text)| (key.clone(), encode(text))).collect();
        json!({"data": data, "metadata": {"resourceVersion": "7"}, "type": "Opaque"})
    }

    #[test]
    fn a_rotation_keeps_what_is_trusted_and_survives_the_secret() {
        let names: BTreeSet<String> = ["a.b.svc".to_owned()].into();
        let schedule = RotationSchedule::new(Duration::from_secs(800));
        let inputs = |second: i64| ChangeInputs {
            names: &names,
            schedule,
            now: Timestamp::from_second(1_800_000_000 + second).unwrap(),
        };
        let first = StoredCertificates::first(&inputs(0)).unwrap();
        assert_eq!(first.step(None, &inputs(399)), RotationStep::Keep);
        assert_eq!(first.step(None, &inputs(400)), RotationStep::AddNext);
        let announced = first.changed(RotationStep::AddNext, &inputs(400)).unwrap();
        assert_eq!(announced.current(), first.current());
        assert!(announced.bundle().starts_with(&first.bundle()));
        assert_eq!(announced.step(Some(&first.bundle()), &inputs(700)), RotationStep::Keep);
        let bundle = announced.bundle();
        assert_eq!(announced.step(Some(&bundle), &inputs(500)), RotationStep::Promote);
        let promoted = announced.changed(RotationStep::Promote, &inputs(500)).unwrap();
        assert_ne!(promoted.current(), first.current());
        assert_eq!(promoted.bundle().len(), bundle.len());
        let dropped = promoted.changed(RotationStep::DropPrevious, &inputs(600)).unwrap();
        assert!(bundle.ends_with(&dropped.bundle()));
        for stored in [first, announced, promoted, dropped] {
            let secret = as_stored(&stored.write(("gitwork", "tls"), None));
            assert_eq!(StoredCertificates::read(&secret, "it").unwrap(), stored);
            let again = stored.write(("gitwork", "tls"), Some(&secret));
            assert_eq!(again["metadata"]["resourceVersion"], "7");
            assert_eq!(again["type"], "Opaque");
        }
    }

    #[test]
    fn other_names_replace_the_certificate() {
        let (one, two) = ("a.svc".to_owned(), "b.svc".to_owned());
        let (names, more) = ([one.clone()].into(), [two.clone()].into());
        let inputs = |names| ChangeInputs {
            names,
            schedule: RotationSchedule::new(Duration::from_secs(800)),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
        };
        let first = StoredCertificates::first(&inputs(&names)).unwrap();
        assert_eq!(first.step(None, &inputs(&more)), RotationStep::Replace);
        let replaced = first.changed(RotationStep::Replace, &inputs(&more)).unwrap();
        // Replicas with other flags do not undo each other's certificates.
        assert_eq!(replaced.step(None, &inputs(&names)), RotationStep::Keep);
        assert_eq!(replaced.state.names, [one, two].into());
        assert!(replaced.bundle().ends_with(&first.bundle()));
    }

    #[test]
    fn foreign_and_broken_secrets_are_named() {
        let names = ["a.svc".to_owned()].into();
        let inputs = ChangeInputs {
            names: &names,
            schedule: RotationSchedule::new(Duration::from_secs(800)),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
        };
        let stored = StoredCertificates::first(&inputs).unwrap();
        let secret = as_stored(&stored.write(("gitwork", "tls"), None));
        let read = |secret: &Value| StoredCertificates::read(secret, "Secret a/b").unwrap_err();
        let foreign = read(&json!({"data": {"tls.crt": "eA=="}})).to_string();
        assert!(foreign.contains("not made by gitwork admission"), "{foreign}");
        let mut broken = secret.clone();
        broken["data"]["tls.key"] = json!(BASE64_STANDARD.encode("secret"));
        let error = read(&broken).to_string();
        assert_eq!(error, "cannot use Secret a/b: it has no PEM private key");
        let mut missing = secret;
        missing["data"].as_object_mut().unwrap().remove("ca.crt");
        assert_eq!(read(&missing).to_string(), "cannot use Secret a/b: it has no ca.crt");
    }
}
