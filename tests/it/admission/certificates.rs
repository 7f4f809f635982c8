//! Certificates that the programs make and rotate, and mounted ones.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use super::fixture::{
    DEADLINE, Kind, Objects, Program, SETS_HOOK, WORKS_HOOK, WORKS_PATH, bundle, bundles,
    config_map, configuration, encoded, namespace, new_hub, raw_review, secret_text, shared,
    until_called, with,
};
use super::raw;
use crate::harness::{Cluster, apply_all, eventually};

const CONFIGURATION: &str = "gitwork-admission";
const SECRET: &str = "gitwork-admission-tls";

/// A certificate in files, and its authority.
pub struct Files {
    folder: TempDir,
    pub authority: String,
}

impl Files {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Self { folder, authority: String::new() };
        files.replace();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The flags that serve it.
    pub fn flags(&self) -> [&str; 4] {
        let path = |name| -> &str {
            let path = self.path(name).display().to_string();
            // As long as the test runs.
            path.leak()
        };
        ["--tls-cert-file", path("tls.crt"), "--tls-private-key-file", path("tls.key")]
    }

    /// Another certificate by another authority.
    pub fn replace(&mut self) {
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        self.authority = params.self_signed(&authority_key).unwrap().pem();
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        fs::write(self.path("tls.crt"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
        fs::write(self.path("tls.key"), key.serialize_pem()).unwrap();
    }
}

/// Both programs on a hub of their own: one for works, the other one for sets.
struct Replicas {
    hub: Cluster,
    works: Program,
    sets: Program,
    objects: Vec<Objects>,
}

impl Replicas {
    async fn start(flags: &[&str]) -> Self {
        let (hub, kubeconfig) = new_hub().await;
        let flags = [&["--serving-name", "127.0.0.1"], flags].concat();
        // At once: they have to agree on a certificate.
        let works = Program::start(&kubeconfig, &flags);
        let sets = Program::start(&kubeconfig, &flags);
        let mut object =
            configuration(CONFIGURATION, works.webhooks().await, sets.webhooks().await);
        // An entry of somebody else, which is never called.
        let foreign = json!({
            "name": "foreign.example.com", "sideEffects": "None", "failurePolicy": "Ignore",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["none"],
                "operations": ["CREATE"]}],
        });
        object["webhooks"].as_array_mut().unwrap().insert(0, foreign);
        apply_all(hub.client(), &[object]).await.unwrap();
        let space = namespace(&hub, None).await;
        until_called(&hub, &space).await;
        let objects = Kind::ALL.map(|kind| Objects::new(hub.client(), kind, &space));
        Self { hub, works, sets, objects: objects.into() }
    }

    /// Has the API server call both. No call may fail.
    async fn call(&self) {
        for objects in &self.objects {
            let good = objects.create_dry("one", &with(&[config_map("one")])).await;
            assert_eq!(good, Ok(()), "{}\n{}", self.works.log(), self.sets.log());
        }
    }

    /// Calls until `is_over` has a value.
    async fn call_until<T, F>(&self, what: &str, mut is_over: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let begun = tokio::time::Instant::now();
        loop {
            self.call().await;
            if let Some(value) = is_over().await {
                return value;
            }
            assert!(begun.elapsed() < DEADLINE, "waited for {what}\n{}", self.works.log());
        }
    }

    async fn served(&self) -> String {
        secret_text(&self.hub, SECRET, "tls.crt").await.unwrap_or_default()
    }

    /// The certificates that both webhooks trust.
    async fn trusted(&self) -> String {
        // Both change in one write: they are equal in each version of the object.
        let mut bundles = bundles(&self.hub, CONFIGURATION).await;
        let trusted = bundles.remove(WORKS_HOOK).unwrap();
        assert_eq!(bundles[SETS_HOOK], trusted);
        assert_eq!(bundles["foreign.example.com"], "");
        trusted
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_agree_and_no_write_fails_while_certificates_rotate() {
    let replicas = Replicas::start(&["--certificate-lifetime", "40"]).await;
    let authority = || async { secret_text(&replicas.hub, SECRET, "ca.crt").await.unwrap() };
    let mut served = authority().await;
    for round in 0..2 {
        let next = replicas
            .call_until("an announced authority", || async {
                secret_text(&replicas.hub, SECRET, "next-ca.crt").await
            })
            .await;
        let now = replicas
            .call_until("the next certificate", || async {
                Some(authority().await).filter(|now| *now != served)
            })
            .await;
        assert_eq!(now, next, "round {round}");
        // The authority of the last one stays trusted for a while.
        let trusted = replicas.trusted().await;
        assert!(trusted.contains(now.trim()) && trusted.contains(served.trim()), "{trusted}");
        replicas
            .call_until("the old authority to go", || async {
                let trusted = replicas.trusted().await;
                (!trusted.contains(served.trim())).then_some(())
            })
            .await;
        served = now;
    }
    for program in [&replicas.works, &replicas.sets] {
        let log = program.log();
        assert!(!log.contains("PRIVATE") && !log.contains("KEY"), "{log}");
        assert!(log.matches("serving with this certificate").count() >= 5, "{log}");
        let (_, metrics) = program.probe("/metrics").await;
        assert!(metrics.contains("gitwork_admission_certificate_failures_total 0"), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_secret_and_emptied_bundle_come_back_without_a_failure() {
    // Overlaps of 60 s, and looks every 7.5 s.
    let replicas = Replicas::start(&["--certificate-lifetime", "480"]).await;
    let before = replicas.served().await;
    let secrets: Api<Secret> = Api::namespaced(replicas.hub.client(), "gitwork");
    secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();
    // What is served stays, and has a successor.
    let next = replicas
        .call_until("a new Secret", || async {
            secret_text(&replicas.hub, SECRET, "next-ca.crt").await
        })
        .await;
    assert_eq!(replicas.served().await, before);
    replicas
        .call_until("the authority of the successor to be trusted", || async {
            replicas.trusted().await.contains(next.trim()).then_some(())
        })
        .await;
    // As after a `kubectl replace` of the manifest. Calls fail until somebody looks.
    let api: Api<ValidatingWebhookConfiguration> = Api::all(replicas.hub.client());
    let trusted = replicas.trusted().await;
    let mut object = api.get(CONFIGURATION).await.unwrap();
    for webhook in object.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = None;
    }
    api.replace(CONFIGURATION, &PostParams::default(), &object).await.unwrap();
    let back = || async {
        let now = bundle(&replicas.hub, CONFIGURATION, SETS_HOOK).await;
        if now == trusted { Ok(()) } else { Err(now) }
    };
    eventually("the bundle to come back", DEADLINE, back).await.unwrap();
    let called = || async { replicas.objects[0].create_dry("a", &with(&[config_map("a")])).await };
    eventually("the API server to trust the webhooks again", DEADLINE, called).await.unwrap();
    replicas.call().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_of_somebody_else_is_not_overwritten() {
    let shared = shared().await;
    let secrets: Api<Secret> = Api::namespaced(shared.hub.client(), "gitwork");
    let foreign: Secret = serde_json::from_value(json!({
        "metadata": {"name": "foreign-tls"}, "data": {"tls.crt": encoded("theirs")},
    }))
    .unwrap();
    secrets.create(&PostParams::default(), &foreign).await.unwrap();
    let flags = ["--secret", "foreign-tls", "--webhook-configuration", "foreign"];
    let program = Program::start(&shared.hub.kubeconfig_path(), &flags);
    let message = "cannot use Secret gitwork/foreign-tls: it was not made by gitwork admission; \
                   delete it, or name another one by --secret";
    program.until_logged(message).await;
    assert_eq!(program.probe("/readyz").await.0, 503);
    assert_eq!(program.probe("/healthz").await.0, 200);
    let kept = secret_text(&shared.hub, "foreign-tls", "tls.crt").await;
    assert_eq!(kept.as_deref(), Some("theirs"));
    assert_eq!(secret_text(&shared.hub, "foreign-tls", "tls.key").await, None);
    secrets.delete("foreign-tls", &DeleteParams::default()).await.unwrap();
    program.until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_installation_leaves_the_webhooks_of_the_first_alone() {
    let shared = shared().await;
    let trusted = || async { bundle(&shared.hub, CONFIGURATION, WORKS_HOOK).await };
    let before = trusted().await;
    let flags = ["--secret", "second-tls", "--service", "second"];
    let second = Program::start(&shared.hub.kubeconfig_path(), &flags);
    second.until_logged("call another installation of gitwork").await;
    second.until_ready().await;
    let authority = secret_text(&shared.hub, "second-tls", "ca.crt").await.unwrap();
    let now = trusted().await;
    assert!(now == before && !now.contains(authority.trim()), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mounted_certificates_are_replaced_while_running() {
    let mut files = Files::new();
    let program = Program::start(&shared().await.kubeconfig, &files.flags());
    program.until_ready().await;
    let address = program.webhooks().await;
    let post = raw::post(WORKS_PATH, &raw_review(Kind::Work, &with(&[config_map("one")])));
    let first = files.authority.clone();
    let answer = raw::exchange(address, &first, post.as_bytes()).await;
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    // A key that is none of the certificate's, as in the middle of a replacement.
    let key = fs::read(files.path("tls.key")).unwrap();
    fs::write(files.path("tls.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    program.until_logged("the certificate files changed; serving as before").await;
    assert!(!program.log().contains("PRIVATE"));
    raw::connect(address, &first).await.unwrap();
    fs::write(files.path("tls.key"), key).unwrap();
    // A connection goes on over the change.
    let mut open = raw::connect(address, &first).await.unwrap();
    let body = raw_review(Kind::Work, &with(&[config_map("one")]));
    let request = format!("{}\r\n{body}", raw::head(WORKS_PATH, body.len()));
    open.write_all(request.as_bytes()).await.unwrap();
    assert!(raw::read_answer(&mut open).await.contains("\"allowed\":true"));
    files.replace();
    let second = files.authority.clone();
    let served = || async {
        raw::connect(address, &second).await.map(|_| ()).map_err(|error| error.to_string())
    };
    eventually("the second certificate", DEADLINE, served).await.unwrap();
    assert!(raw::connect(address, &first).await.is_err());
    program.until_logged("serving with the changed certificate files").await;
    open.write_all(request.as_bytes()).await.unwrap();
    assert!(raw::read_answer(&mut open).await.contains("\"allowed\":true"));
    // Without files there is no start.
    let missing = ["--tls-cert-file", "/nowhere/tls.crt", "--tls-private-key-file", "/nowhere/k"];
    let program = Program::start(&shared().await.kubeconfig, &missing);
    assert_eq!(program.until_ended().await, 1);
    assert!(
        program.log().contains("cannot use /nowhere/tls.crt: No such file"),
        "{}",
        program.log()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_while_the_program_ends() {
    let files = Files::new();
    let program = Program::start(&shared().await.kubeconfig, &files.flags());
    program.until_ready().await;
    let address = program.webhooks().await;
    let mut open = raw::connect(address, &files.authority).await.unwrap();
    let body = raw_review(Kind::Work, &with(&[config_map("one")]));
    let request = format!("{}\r\n{body}", raw::head(WORKS_PATH, body.len()));
    open.write_all(request.as_bytes()).await.unwrap();
    assert!(!raw::read_answer(&mut open).await.contains("connection: close"));
    let begun = tokio::time::Instant::now();
    program.terminate();
    program.until_logged("SIGTERM: stopping").await;
    let unready = || async {
        match program.probe("/readyz").await.0 {
            503 => Ok(()),
            other => Err(other.to_string()),
        }
    };
    eventually("the readiness probe to fail", DEADLINE, unready).await.unwrap();
    // API servers do not know it yet. Their open connections are to end.
    open.write_all(request.as_bytes()).await.unwrap();
    let answer = raw::read_answer(&mut open).await;
    assert!(
        answer.contains("connection: close") && answer.contains("\"allowed\":true"),
        "{answer}"
    );
    let post = raw::post(WORKS_PATH, &raw_review(Kind::Work, &with(&[])));
    let answer = raw::exchange(address, &files.authority, post.as_bytes()).await;
    assert!(answer.contains("manifests should not be empty"), "{answer}");
    assert_eq!(program.until_ended().await, 0);
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
}

/// A replica that starts later takes what there is, and needs one more name.
#[tokio::test(flavor = "multi_thread")]
async fn later_replica_shares_the_certificate_and_more_names_replace_it() {
    let shared = shared().await;
    let kubeconfig = shared.hub.kubeconfig_path();
    let own = ["--secret", "names-tls", "--webhook-configuration", "names"];
    let first = Program::start(&kubeconfig, &[&own[..], &["--serving-name", "127.0.0.1"]].concat());
    first.until_ready().await;
    let made = secret_text(&shared.hub, "names-tls", "tls.crt").await.unwrap();
    let authority = secret_text(&shared.hub, "names-tls", "ca.crt").await.unwrap();
    let second = Program::start(&kubeconfig, &own);
    second.until_ready().await;
    assert_eq!(secret_text(&shared.hub, "names-tls", "tls.crt").await.unwrap(), made);
    raw::connect(second.webhooks().await, &authority).await.unwrap();
    let third =
        Program::start(&kubeconfig, &[&own[..], &["--serving-name", "hub.example"]].concat());
    third.until_ready().await;
    assert_ne!(secret_text(&shared.hub, "names-tls", "tls.crt").await.unwrap(), made);
    let authority = secret_text(&shared.hub, "names-tls", "ca.crt").await.unwrap();
    // It has the names of all.
    for program in [&first, &second, &third] {
        let address = program.webhooks().await;
        let served = || async {
            raw::connect(address, &authority).await.map(|_| ()).map_err(|error| error.to_string())
        };
        eventually("the new certificate", DEADLINE, served).await.unwrap();
    }
    let api: Api<Secret> = Api::namespaced(shared.hub.client(), "gitwork");
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "x"}}}));
    api.patch("names-tls", &PatchParams::default(), &label).await.unwrap();
}
