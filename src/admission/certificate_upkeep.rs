//! The upkeep of self-made certificates. All replicas do it: each write has the version that was
//! read as its precondition, so that one of them wins and the others read what it wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use gitwork_admission_rules::rotation::{RotationSchedule, RotationStep};
use gitwork_retry::log_error;
use gitwork_retry::operation_error::{ErrorClass, OperationError};
use gitwork_runtime::clock::WallClock;
use serde_json::Value;

use crate::admission_api::{AdmissionApi, AdmissionApiError, ApiCall};
use crate::admission_metrics::AdmissionMetrics;
use crate::serving_certificate::{CertificateError, ServingCertificate};
use crate::stored_certificates::{ChangeInputs, StoredCertificates};
use crate::webhook_configuration::WebhookConfiguration;

/// A look at the certificates failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpkeepError {
    /// A request failed.
    #[error(transparent)]
    Api(#[from] AdmissionApiError),
    /// A certificate cannot be made or used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl OperationError for UpkeepError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Api(error) => error.class(),
            Self::Certificate(error) => error.class(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Api(error) => error.reason(),
            Self::Certificate(error) => error.reason(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Api(error) => error.hints(),
            Self::Certificate(error) => error.hints(),
        }
    }
}

/// Where the certificates are, and what they are for.
pub(crate) struct CertificateUpkeep {
    pub api: Arc<AdmissionApi>,
    pub clock: WallClock,
    pub serving: Arc<ServingCertificate>,
    pub metrics: Arc<AdmissionMetrics>,
    pub namespace: String,
    pub secret: String,
    pub configuration: String,
    /// DNS names and addresses by which the API servers reach the webhooks.
    pub names: BTreeSet<String>,
    pub schedule: RotationSchedule,
    /// What was read or written last.
    pub known: Option<StoredCertificates>,
    /// Whether a missing configuration was logged.
    pub is_missing_logged: bool,
}

/// The Secret in the API, and what is in it.
struct ReadSecret {
    object: Value,
    stored: StoredCertificates,
}

impl CertificateUpkeep {
    /// Looks once. Afterwards a certificate is served that the API servers trust.
    pub async fn look(&mut self) -> Result<(), UpkeepError> {
        // First: what is written to it is never older than what the Secret has, as the version of
        // the configuration is a precondition.
        let configuration = self.read_configuration().await?;
        let mut secret = match self.read_secret().await? {
            Some(secret) => secret,
            None => self.create_secret().await?,
        };
        let bundle = configuration.as_ref().and_then(WebhookConfiguration::bundle);
        let names = self.names.clone();
        let inputs = ChangeInputs { names: &names, schedule: self.schedule, now: self.clock.now() };
        let step = secret.stored.step(bundle.as_deref(), &inputs);
        if step != RotationStep::Keep {
            let changed = secret.stored.changed(step, &inputs)?;
            secret = self.replace_secret(&secret, &changed).await?;
            tracing::info!(?step, secret = self.secret, "changed the certificates");
        }
        self.serve(secret.stored)?;
        self.announce(configuration).await
    }

    fn serve(&mut self, stored: StoredCertificates) -> Result<(), UpkeepError> {
        if self.known.as_ref() != Some(&stored) {
            self.serving.set(stored.current().certified_key(&self.secret_subject())?);
            self.metrics.set_expiry(stored.expires().as_second());
            tracing::info!(expires = %stored.expires(), "serving with this certificate");
            self.known = Some(stored);
        }
        Ok(())
    }

    /// Makes the API servers trust what is served.
    async fn announce(
        &mut self,
        configuration: Option<WebhookConfiguration>,
    ) -> Result<(), UpkeepError> {
        let called = configuration.as_ref().and_then(WebhookConfiguration::called_instead);
        let called = called.map(str::to_owned);
        let Some(configuration) = configuration.filter(|found| !found.is_foreign()) else {
            if !self.is_missing_logged {
                self.log_missing(called.as_deref());
            }
            self.is_missing_logged = true;
            return Ok(());
        };
        self.is_missing_logged = false;
        let bundle = self.known.as_ref().map(StoredCertificates::bundle).unwrap_or_default();
        let Some(patch) = configuration.patch(&bundle) else { return Ok(()) };
        let (path, subject) = (self.configuration_path(), self.configuration_subject());
        let call = ApiCall { verb: "patch", path: &path, subject: &subject, body: Some(&patch) };
        self.api.send(&call).await?;
        tracing::info!(configuration = self.configuration, "wrote caBundle of the webhooks");
        Ok(())
    }

    /// Says that nothing calls this installation.
    fn log_missing(&self, called: Option<&str>) {
        let configuration = &self.configuration;
        match called {
            Some(called) => tracing::warn!(
                configuration,
                called,
                "the webhooks of the ValidatingWebhookConfiguration call another installation of \
                 gitwork, whose caBundle stays as it is; name another configuration by \
                 --webhook-configuration"
            ),
            None => tracing::warn!(
                configuration,
                "the ValidatingWebhookConfiguration does not exist or has no webhook of gitwork; \
                 nothing is checked until deploy/admission.yaml is applied"
            ),
        }
    }

    async fn read_configuration(&self) -> Result<Option<WebhookConfiguration>, AdmissionApiError> {
        let (path, subject) = (self.configuration_path(), self.configuration_subject());
        let call = ApiCall { verb: "read", path: &path, subject: &subject, body: None };
        match self.api.send(&call).await {
            Ok(object) => Ok(Some(WebhookConfiguration::read(&object, &self.names))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn read_secret(&self) -> Result<Option<ReadSecret>, UpkeepError> {
        let (path, subject) = (self.secret_path(), self.secret_subject());
        let call = ApiCall { verb: "read", path: &path, subject: &subject, body: None };
        match self.api.send(&call).await {
            Ok(object) => {
                let stored = StoredCertificates::read(&object, &subject)?;
                Ok(Some(ReadSecret { object, stored }))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the Secret. If another replica was faster, reads what it wrote.
    async fn create_secret(&self) -> Result<ReadSecret, UpkeepError> {
        let inputs =
            ChangeInputs { names: &self.names, schedule: self.schedule, now: self.clock.now() };
        let stored = match &self.known {
            None => StoredCertificates::first(&inputs)?,
            Some(known) => known.with_new_next(&inputs)?,
        };
        let wanted = stored.write((&self.namespace, &self.secret), None);
        let path = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        let subject = self.secret_subject();
        let call = ApiCall { verb: "create", path: &path, subject: &subject, body: Some(&wanted) };
        match self.api.send(&call).await {
            Ok(object) => Ok(ReadSecret { object, stored }),
            Err(error) if error.is_conflict() => {
                self.read_secret().await?.ok_or(UpkeepError::Api(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the Secret. If another replica was faster, reads what it wrote.
    async fn replace_secret(
        &self,
        present: &ReadSecret,
        changed: &StoredCertificates,
    ) -> Result<ReadSecret, UpkeepError> {
        let wanted = changed.write((&self.namespace, &self.secret), Some(&present.object));
        let (path, subject) = (self.secret_path(), self.secret_subject());
        let call = ApiCall { verb: "replace", path: &path, subject: &subject, body: Some(&wanted) };
        match self.api.send(&call).await {
            Ok(object) => Ok(ReadSecret { object, stored: changed.clone() }),
            Err(error) if error.is_conflict() => {
                self.read_secret().await?.ok_or(UpkeepError::Api(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks, and logs an error. Gives whether it succeeded.
    pub async fn look_and_log(&mut self) -> bool {
        match self.look().await {
            Ok(()) => true,
            // Another replica was faster: the next look sees what it wrote.
            Err(UpkeepError::Api(error)) if error.is_conflict() => {
                log_error!(debug, &error, "another replica wrote first");
                false
            }
            Err(error) => {
                self.metrics.upkeep_failed();
                log_error!(warn, &error, "cannot look after the certificates; trying again");
                false
            }
        }
    }

    /// Whether a certificate is served that has not ended.
    pub fn is_valid(&self) -> bool {
        self.known.as_ref().is_some_and(|known| self.clock.now() < known.expires())
    }

    fn secret_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, self.secret)
    }

    fn secret_subject(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.secret)
    }

    fn configuration_path(&self) -> String {
        let folder = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        format!("{folder}/{}", self.configuration)
    }

    fn configuration_subject(&self) -> String {
        format!("ValidatingWebhookConfiguration {}", self.configuration)
    }
}
