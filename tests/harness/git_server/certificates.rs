//! Certificates for servers and clients on the loopback.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn create(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    pub fn pem(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a server at 127.0.0.1 and `localhost`.
    pub fn server(&self) -> Identity {
        self.issue(&["127.0.0.1", "localhost"], "server", ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a server of another name, which a client of 127.0.0.1 must reject.
    pub fn server_named(&self, host: &str) -> Identity {
        self.issue(&[host], "server", ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub fn client(&self, name: &str) -> Identity {
        self.issue(&[], name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(&self, hosts: &[&str], name: &str, usage: ExtendedKeyUsagePurpose) -> Identity {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key` and returns their paths.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let certificate = folder.join(format!("{name}.crt"));
        let key = folder.join(format!("{name}.key"));
        fs::write(&certificate, &self.certificate).unwrap();
        fs::write(&key, &self.key).unwrap();
        (certificate, key)
    }
}
