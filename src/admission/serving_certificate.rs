//! The certificate that new connections get. It changes while the server runs.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use gitwork_retry::operation_error::{ErrorClass, OperationError};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// A certificate cannot be made or used. The text has no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {subject}: {problem}")]
pub struct CertificateError {
    /// Where the certificate is.
    pub subject: String,
    /// What is wrong.
    pub problem: String,
}

impl OperationError for CertificateError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "ServingCertificate"
    }
}

/// A certificate chain and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PemIdentity {
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for PemIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PemIdentity").finish_non_exhaustive()
    }
}

impl PemIdentity {
    /// Reads both, and checks that they belong together. `subject` is for the error.
    pub fn certified_key(&self, subject: &str) -> Result<CertifiedKey, CertificateError> {
        let failed = |problem: String| CertificateError { subject: subject.to_owned(), problem };
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| failed("it has no PEM certificate".to_owned()))?;
        if chain.is_empty() {
            return Err(failed("it has no PEM certificate".to_owned()));
        }
        // An error of the parser may quote the key.
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|_| failed("it has no PEM private key".to_owned()))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| failed(error.to_string()))
    }
}

/// The certificate of new connections; none at first.
#[derive(Debug, Default)]
pub(crate) struct ServingCertificate(RwLock<Option<Arc<CertifiedKey>>>);

impl ServingCertificate {
    /// Serves this one from the next connection on.
    pub fn set(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }

    /// The configuration of a server that uses this certificate. It speaks HTTP/1.1 only, so that
    /// one connection has one request at a time.
    pub fn server_config(self: &Arc<Self>) -> Result<ServerConfig, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| CertificateError {
                subject: "TLS".to_owned(),
                problem: error.to_string(),
            })?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
