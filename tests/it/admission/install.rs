//! `deploy/admission.yaml`: it can be applied, and its rights are exactly those that are used.

use std::collections::BTreeSet;
use std::time::Duration;

use super::fixture::{
    DEADLINE, Kind, Objects, Program, configuration, executed, namespace, new_hub, secret_text,
    until_called,
};
use crate::deploy::{granted, read, until_served};
use crate::harness::{self, apply, apply_all, eventually, tally};

#[tokio::test(flavor = "multi_thread")]
async fn account_has_exactly_the_rights_that_are_used() {
    let (hub, kubeconfig) = new_hub().await;
    let client = hub.client_for("gitwork", "gitwork-admission").await;
    let everywhere = [
        "create authorization.k8s.io/subjectaccessreviews",
        "get admissionregistration.k8s.io/validatingwebhookconfigurations gitwork-admission",
        "patch admissionregistration.k8s.io/validatingwebhookconfigurations gitwork-admission",
    ];
    let at_home = [
        "create /secrets",
        "get /secrets gitwork-admission-tls",
        "update /secrets gitwork-admission-tls",
    ];
    let everywhere: BTreeSet<String> = everywhere.map(str::to_owned).into();
    let mut home = everywhere.clone();
    home.extend(at_home.map(str::to_owned));
    let counted = || async {
        let found = granted(client.clone(), "gitwork").await;
        if found == home { Ok(()) } else { Err(format!("{found:?}")) }
    };
    eventually("exactly the rights of the manifests to count", DEADLINE, counted).await.unwrap();
    assert_eq!(granted(client.clone(), "default").await, everywhere);

    // A rotation and a question use each of them, and nothing is forbidden.
    let mut requests = hub.requests();
    let flags = ["--serving-name", "127.0.0.1", "--certificate-lifetime", "30"];
    let program = Program::start(&kubeconfig, &flags);
    let address = program.webhooks().await;
    let object = configuration("gitwork-admission", address, address);
    apply_all(hub.client(), &[object]).await.unwrap();
    let space = namespace(&hub, None).await;
    until_called(&hub, &space).await;
    let objects = Objects::new(hub.client(), Kind::Work, &space);
    objects.create("one", &executed("apps/deployer")).await.unwrap();
    let next = || async {
        let next = secret_text(&hub, "gitwork-admission-tls", "next-ca.crt").await;
        next.map(|_| ()).ok_or_else(|| program.log())
    };
    eventually("a successor of the certificate", DEADLINE, next).await.unwrap();
    let user = "system:serviceaccount:gitwork:gitwork-admission";
    let made = requests.take();
    let made = made
        .iter()
        .filter(|request| request.user == user && request.user_agent.starts_with("gitwork/"));
    let used: BTreeSet<String> = tally(made).into_keys().collect();
    let expected = [
        "create secrets",
        "create subjectaccessreviews",
        "get secrets",
        "get validatingwebhookconfigurations",
        "patch validatingwebhookconfigurations",
        "update secrets",
    ];
    assert_eq!(used, expected.map(str::to_owned).into());
    assert!(!program.log().contains("orbidden"), "{}", program.log());
}

/// The namespace takes only pods of the restricted Pod Security Standard.
#[tokio::test]
async fn pods_become_ready_and_the_service_finds_them() {
    let cluster = harness::managed().await;
    apply(cluster.client(), &read("deploy/admission.yaml")).await.unwrap();
    until_served(cluster, "gitwork-admission", 9443, Duration::from_secs(300)).await;
}

#[test]
fn image_is_that_of_the_other_programs() {
    let image = format!("image: registry.example.com/gitwork:{}\n", env!("CARGO_PKG_VERSION"));
    assert!(read("deploy/admission.yaml").contains(&image));
    assert!(read("deploy/controller.yaml").contains(&image));
}
