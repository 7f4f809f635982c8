//! Certificates in files that somebody else renews, such as cert-manager.

use std::path::{Path, PathBuf};

use crate::limits;
use crate::serving_certificate::{CertificateError, PemIdentity, ServingCertificate};

/// A certificate chain and its key in two files.
#[derive(Debug)]
pub(crate) struct MountedCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// What is served.
    pub known: Option<PemIdentity>,
}

impl MountedCertificate {
    /// Reads both files, and serves what is in them if it is new. Gives whether it is new.
    pub async fn look(&mut self, serving: &ServingCertificate) -> Result<bool, CertificateError> {
        let certificate = read(&self.certificate).await?;
        let identity = PemIdentity { certificate, key: read(&self.key).await? };
        if self.known.as_ref() == Some(&identity) {
            return Ok(false);
        }
        let (certificate, key) = (self.certificate.display(), self.key.display());
        serving.set(identity.certified_key(&format!("{certificate} with {key}"))?);
        self.known = Some(identity);
        Ok(true)
    }
}

async fn read(path: &Path) -> Result<String, CertificateError> {
    let owned = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_bounded(&owned)).await;
    let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    read.map_err(|error| CertificateError {
        subject: path.display().to_string(),
        problem: error.to_string(),
    })
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(limits::FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
