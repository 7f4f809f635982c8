//! TLS with the certificate authorities and the client certificate of one remote.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::attempt::RemoteAttempt;
use crate::credential_file::read_credential;
use crate::error::FetchError;

/// The certificates for a connection to `host`, read again for each one.
pub fn config(attempt: &RemoteAttempt, host: &str) -> Result<ClientConfig, FetchError> {
    let failed = |source| FetchError::Tls { host: host.to_owned(), source: Box::new(source) };
    let roots = match &attempt.remote.ca_bundle {
        Some(file) => bundle(file)?,
        None => system_roots(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(roots);
    let Some(identity) = &attempt.remote.client_certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(&identity.certificate, "client certificate")?;
    let key = read_credential(&identity.key, "key of the client certificate")?;
    let unusable = |file: &Path, purpose, problem: String| FetchError::CredentialFile {
        file: file.to_owned(),
        purpose,
        problem,
    };
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
        unusable(&identity.key, "key of the client certificate", "it has no PEM private key".into())
    })?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|e| unusable(&identity.certificate, "client certificate", e.to_string()))
}

fn bundle(file: &Path) -> Result<Arc<RootCertStore>, FetchError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, "CA bundle")? {
        roots.add(certificate).map_err(|e| FetchError::CredentialFile {
            file: file.to_owned(),
            purpose: "CA bundle",
            problem: e.to_string(),
        })?;
    }
    Ok(Arc::new(roots))
}

fn certificates(
    file: &Path,
    purpose: &'static str,
) -> Result<Vec<CertificateDer<'static>>, FetchError> {
    let fail =
        |problem: String| FetchError::CredentialFile { file: file.to_owned(), purpose, problem };
    let text = read_credential(file, purpose)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|e| fail(format!("it is not PEM: {e}")))?;
    if found.is_empty() {
        return Err(fail("it has no PEM certificate".to_owned()));
    }
    Ok(found)
}

/// The system's certificate authorities, read once: some 150 files on a usual system.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // Unreadable certificates are left out, as in other programs: servers that depend on them
        // are refused as unknown.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    Arc::clone(roots)
}
