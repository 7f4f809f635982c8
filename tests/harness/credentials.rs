//! The certificates and keys of one cluster, and kubeconfigs with them. Every cluster has its own
//! authority, so a credential of one is invalid on another.

use std::fs;
use std::path::Path;

use anyhow::Result;
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};

pub struct Credentials {
    authority: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Credentials {
    /// Creates them, and writes those that the control plane's programs read to `folder`: `ca.crt`,
    /// `server.crt`, `server.key`, `service-accounts.key` and `service-accounts.pub`.
    pub fn create(folder: &Path, name: &str) -> Result<Credentials> {
        let authority_key = KeyPair::generate()?;
        let mut params = named(name, None)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = params.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(params, authority_key);

        let server_key = KeyPair::generate()?;
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server = params.signed_by(&server_key, &issuer)?.pem();

        fs::write(folder.join("ca.crt"), &authority)?;
        fs::write(folder.join("server.crt"), server)?;
        fs::write(folder.join("server.key"), server_key.serialize_pem())?;
        let tokens_key = KeyPair::generate()?;
        fs::write(folder.join("service-accounts.key"), tokens_key.serialize_pem())?;
        fs::write(folder.join("service-accounts.pub"), tokens_key.public_key_pem())?;
        Ok(Credentials { authority, issuer })
    }

    /// A kubeconfig of the cluster admin.
    pub fn admin_kubeconfig(&self, url: &str) -> Result<String> {
        self.user_kubeconfig(url, "admin", "system:masters")
    }

    /// A kubeconfig of a user with a client certificate, a new one for each call.
    pub fn user_kubeconfig(&self, url: &str, user: &str, group: &str) -> Result<String> {
        let key = KeyPair::generate()?;
        let mut params = named(user, Some(group))?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let user = json!({
            "client-certificate-data": base64(&params.signed_by(&key, &self.issuer)?.pem()),
            "client-key-data": base64(&key.serialize_pem()),
        });
        self.kubeconfig(url, "default", &user)
    }

    pub fn token_kubeconfig(&self, url: &str, namespace: &str, token: &str) -> Result<String> {
        self.kubeconfig(url, namespace, &json!({ "token": token }))
    }

    fn kubeconfig(&self, url: &str, namespace: &str, user: &Value) -> Result<String> {
        let cluster = json!({"server": url, "certificate-authority-data": base64(&self.authority)});
        let context = json!({"cluster": "cluster", "user": "user", "namespace": namespace});
        Ok(serde_yaml::to_string(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "context", "context": context}],
            "current-context": "context",
        }))?)
    }
}

fn named(name: &str, organization: Option<&str>) -> Result<CertificateParams> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    Ok(params)
}

/// Kubernetes writes bytes as base64.
fn base64(text: &str) -> Value {
    json!(ByteString(text.into()))
}
