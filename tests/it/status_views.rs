//! `status` and `tree` on a real hub: filters, forms, the live view, and what they say where they
//! may not look.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gitwork_hub::KubeHub;
use gitwork_report::outputs::OutputKind;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cli::{code, err, gitwork, out};
use crate::harness::{ClusterOptions, ControlPlane, crds};
use crate::output_schemas::assert_documented;
use crate::sync::fixture::{Sync, config_map, works};

const DEADLINE: Duration = Duration::from_secs(300);

/// A source on the hub whose works are `web`, applied, and `db`, on which the agent has failed.
async fn synced() -> Sync {
    let sync = Sync::new(1).await;
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "db/cm.yaml", Some(&config_map("db", "one"))),
    ]);
    sync.engine(Arc::new(KubeHub::new(sync.hub.client())), sync.source()).once().await.unwrap();
    for work in ["web", "db"] {
        sync.agent_takes(0, work).await;
    }
    sync.agent_applies(0, "web").await;
    says(&sync, "db", "False", "denied \u{1b}[2Jby \u{202e}policy", 2).await;
    sync
}

/// What an agent would say of the only object of a work.
async fn says(sync: &Sync, work: &str, applied: &str, message: &str, ready: i64) {
    let generation = sync.until_there(0, work).await.metadata.generation;
    let condition = json!({
        "type": "Applied", "status": applied, "observedGeneration": generation, "reason": "Because",
        "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": {
        "conditions": [condition],
        "resourceStatus": { "manifests": [{
            "resourceMeta": { "ordinal": 0, "kind": "ConfigMap", "namespace": "default",
                "name": work },
            "conditions": [condition],
            "statusFeedback": { "values": [
                { "name": "ready", "fieldValue": { "type": "Integer", "integer": ready } },
            ] },
        }] },
    } });
    let params = PatchParams::default();
    sync.works(0).patch_status(work, &params, &Patch::Merge(status)).await.unwrap();
}

pub fn view(sync: &Sync, arguments: &[&str]) -> Command {
    let mut command = gitwork(arguments);
    command.args(["--source-id", sync.id.as_str(), "--kubeconfig"]);
    command.arg(sync.hub.kubeconfig_path());
    command
}

fn shown(sync: &Sync, arguments: &[&str]) -> String {
    let output = view(sync, arguments).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    out(&output)
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_shows_objects_and_views_can_be_filtered() {
    let sync = synced().await;
    let cluster = sync.clusters[0].as_str();
    let tree = shown(&sync, &["tree", &format!("{cluster}/db")]);
    for words in [
        "└─ ConfigMap default/db",
        "ready=2",
        "Applied=False",
        "Because: denied \\u{1b}[2Jby \\u{202e}policy",
        "0/1 cluster applied, 1 failed",
    ] {
        assert!(tree.contains(words), "{words}: {tree}");
    }
    let value: Value = serde_json::from_str(&shown(&sync, &["tree", "-o", "json"])).unwrap();
    assert_documented(OutputKind::Tree, &value, "tree");
    let object = &value["works"][0]["objects"][0];
    assert_eq!((&object["kind"], &object["state"]), (&json!("ConfigMap"), &json!("failed")));
    assert_eq!(object["feedback"]["ready"], 2);
    assert_eq!(object["message"], "denied \u{1b}[2Jby \u{202e}policy");
    for (arguments, works) in [
        (vec!["status", "--state", "failed"], vec!["db"]),
        (vec!["status", "--state", "applied,failed"], vec!["db", "web"]),
        (vec!["status", "--state", "unreachable"], vec![]),
        (vec!["status", "--work", "w*"], vec!["web"]),
        (vec!["tree", cluster], vec!["db", "web"]),
    ] {
        let mut json_of = arguments.clone();
        json_of.extend(["-o", "json"]);
        let value: Value = serde_json::from_str(&shown(&sync, &json_of)).unwrap();
        let kind = if json_of[0] == "tree" { OutputKind::Tree } else { OutputKind::Status };
        assert_documented(kind, &value, json_of[0]);
        let names =
            value["works"].as_array().unwrap().iter().map(|one| one["work"].as_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), works, "{arguments:?}");
    }
    let wide = shown(&sync, &["status", "-o", "wide"]);
    assert!(wide.contains("REASON") && wide.contains("Because") && wide.contains(sync.id.as_str()));
    let wrong = view(&sync, &["status", "--state", "broken"]).output().unwrap();
    assert_eq!(code(&wrong), Some(2));
    assert!(err(&wrong).contains("degraded") && err(&wrong).contains("unreachable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn view_that_selects_nothing_is_an_error_that_names_the_nearest() {
    let sync = synced().await;
    let cluster = sync.clusters[0].as_str();
    let near_cluster = format!("{cluster}x");
    let tree_of_work = format!("{cluster}/wep");
    let cluster_hint = format!("no cluster matches {near_cluster}; did you mean {cluster}?");
    for (arguments, message) in [
        (vec!["tree", &tree_of_work], "no work matches wep; did you mean web?"),
        (vec!["status", "--work", "wep"], "no work matches wep; did you mean web?"),
        (vec!["status", "--cluster", cluster, "--work", "x*"], "no work matches x*"),
        (vec!["status", "--cluster", &near_cluster], cluster_hint.as_str()),
        (vec!["tree", &near_cluster, "-o", "json"], cluster_hint.as_str()),
        (vec!["status", "--cluster", "no-such-*"], "no cluster matches no-such-*"),
        (vec!["tree", "elsewhere/web", "-o", "json"], "no cluster matches elsewhere"),
    ] {
        let output = view(&sync, &arguments).output().unwrap();
        let found = err(&output);
        assert_eq!(code(&output), Some(2), "{arguments:?}: {found}");
        assert_eq!(out(&output), "", "{arguments:?}");
        assert_eq!(found.trim_end(), format!("error: {message}"), "{arguments:?}");
    }
    // A state that no work has is no error.
    let flags = ["status", "--cluster", cluster, "--state", "degraded"];
    let none = view(&sync, &flags).output().unwrap();
    assert_eq!(code(&none), Some(0), "{}", err(&none));
}

/// A running view, and its output by line.
pub struct Following {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Following {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line with these words and returns it.
    pub fn until(&self, words: &str) -> String {
        self.until_all(&[words])
    }

    /// Waits for a line with all of these words and returns it.
    pub fn until_all(&self, words: &[&str]) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut seen = Vec::new();
        while let Ok(line) =
            self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if words.iter().all(|words| line.contains(words)) {
                return line;
            }
            seen.push(line);
        }
        panic!("no line with {words:?}: {seen:#?}");
    }

    pub fn interrupt(mut self) -> Output {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(done.success());
        let status = self.child.wait().unwrap();
        let mut stderr = Vec::new();
        std::io::Read::read_to_end(&mut self.child.stderr.take().unwrap(), &mut stderr).unwrap();
        Output { status, stdout: Vec::new(), stderr }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn piped_status_prints_one_line_per_transition() {
    let sync = synced().await;
    let cluster = sync.clusters[0].as_str();
    let status = Following::start(view(&sync, &["status", "--watch"]));
    let tree = Following::start(view(&sync, &["tree", "--watch", "-o", "json"]));
    let first = status.until(&format!("{cluster}/db failed (0/1 applied, commit "));
    assert!(first.contains("denied \\u{1b}[2Jby"), "{first}");
    status.until(&format!("{cluster}/web applied"));
    tree.until("ConfigMap default/db");

    says(&sync, "db", "True", "fine", 3).await;
    status.until(&format!("{cluster}/db failed -> applied (1/1 applied"));
    let line: Value = serde_json::from_str(&tree.until("ready=3")).unwrap();
    assert_eq!((&line["before"], &line["state"]), (&json!("failed"), &json!("applied")));
    assert_eq!((&line["object"], &line["work"]), (&json!("ConfigMap default/db"), &json!("db")));
    sync.edit(0, "web", json!({ "metadata": { "finalizers": null } })).await;
    sync.delete(0, "web").await;
    status.until(&format!("{cluster}/web applied -> gone"));
    for following in [status, tree] {
        let ended = following.interrupt();
        assert_eq!((code(&ended), err(&ended)), (Some(0), String::new()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn view_ends_when_its_reader_closes_the_pipe() {
    let sync = synced().await;
    let mut child = view(&sync, &["status", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    // Nothing happens on the hub any more that it could fail to write.
    drop(stdout);
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let ended = tokio::time::timeout(DEADLINE, ended).await.unwrap().unwrap();
    assert_eq!((code(&ended), err(&ended)), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_view_is_drawn_in_place_and_fits() {
    let sync = synced().await;
    // `script` gives it a terminal, of 60 columns and 12 lines.
    let program = format!(
        "stty cols 60 rows 12; exec {} tree --watch --source-id {} --kubeconfig {}",
        env!("CARGO_BIN_EXE_gitwork"),
        sync.id,
        sync.hub.kubeconfig_path().display()
    );
    let mut command = Command::new("script");
    command.args(["-qefc", &program, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    command.stdin(Stdio::null());
    let following = Following::start(command);
    following.until("failed");
    says(&sync, "db", "True", "fine", 7).await;
    let line = following.until("ready=7");
    assert!(line.contains("\u{1b}[K"), "drawn in place: {line:?}");
    let pid = following.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let done = Command::new("kill").args(["-INT", children.trim()]).status().unwrap();
    assert!(done.success());
    // The screen is given back, and the last state stays.
    following.until("\u{1b}[?1049l");
    let line = following.until("ready=7");
    assert!(!line.contains("\u{1b}[K"), "{line:?}");
    let Following { mut child, .. } = following;
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn view_survives_a_hub_restart() {
    let plane = ControlPlane::shared().await;
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = plane.start("views-restart", options).await;
    hub.create_namespace("edge-1").await;
    let work = |commit: &str| {
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {
                "name": "web", "labels": { "app.kubernetes.io/managed-by": "gitwork" },
                "annotations": { "gitwork.dev/commit": commit },
            },
            "spec": { "workload": { "manifests": [] } },
        })
    };
    let apply = |commit: &'static str| {
        let (client, work) = (hub.client(), work(commit));
        async move {
            let params = PatchParams::apply("test");
            works(client, "edge-1").patch("web", &params, &Patch::Apply(work)).await.unwrap();
        }
    };
    apply("0123abcd").await;
    let mut command = gitwork(&["status", "--watch", "--kubeconfig"]);
    command.arg(hub.kubeconfig_path());
    let status = Following::start(command);
    status.until("edge-1/web pending (0/0 applied, commit 0123abcd)");
    hub.kill();
    hub.restart().await.unwrap();
    apply("4567cdef").await;
    status.until("edge-1/web pending -> pending (0/0 applied, commit 4567cdef)");
    assert_eq!(code(&status.interrupt()), Some(0));
}

/// The three views with this kubeconfig, and the error of each.
fn each_view(kubeconfig: &Path, cluster: &str) -> Vec<Output> {
    let work = format!("{cluster}/web");
    let folder = tempfile::tempdir().unwrap();
    let commands: [&[&str]; 5] = [
        &["status"],
        &["tree"],
        &["status", "--watch"],
        &["tree", "--watch", "-o", "json"],
        &["explain", &work],
    ];
    commands
        .into_iter()
        .map(|arguments| {
            let mut command = gitwork(arguments);
            command.arg("--kubeconfig").arg(kubeconfig).current_dir(folder.path()).output().unwrap()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_without_ocm_differs_from_an_empty_hub() {
    let plane = ControlPlane::shared().await;
    let bare = plane.start("no-ocm", ClusterOptions::default()).await;
    for output in each_view(&bare.kubeconfig_path(), "edge-1") {
        assert_eq!(code(&output), Some(1), "{output:?}");
        let reported = format!("{}{}", out(&output), err(&output));
        for words in ["does not know ManifestWork", "gitwork crds", "--context"] {
            assert!(reported.contains(words), "{words}: {reported}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_list_names_the_missing_role() {
    let sync = synced().await;
    let cluster = sync.clusters[0].as_str();
    let kubeconfig = sync.hub.kubeconfig_path_for(cluster, "reader").await;
    for output in each_view(&kubeconfig, cluster) {
        assert_eq!(code(&output), Some(1), "{output:?}");
        let reported = format!("{}{}", out(&output), err(&output));
        for words in ["ask for `list` on manifestworks.work.open-cluster-management.io", "reader"] {
            assert!(reported.contains(words), "{words}: {reported}");
        }
    }
    // Rights in one namespace are enough to look at one cluster.
    let rules = json!([{ "apiGroups": ["work.open-cluster-management.io"],
                         "resources": ["manifestworks"], "verbs": ["get", "list", "watch"] }]);
    let role: Role =
        serde_json::from_value(json!({ "metadata": { "name": "reader" }, "rules": rules }))
            .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "reader", "namespace": cluster }],
    }))
    .unwrap();
    let params = Default::default();
    Api::namespaced(sync.hub.client(), cluster).create(&params, &role).await.unwrap();
    Api::namespaced(sync.hub.client(), cluster).create(&params, &binding).await.unwrap();
    let look = || {
        let mut command = gitwork(&["tree", &format!("{cluster}/web"), "--kubeconfig"]);
        command.arg(&kubeconfig).output().unwrap()
    };
    let seen = crate::harness::eventually("the rights to count", DEADLINE, || async {
        let output = look();
        if code(&output) == Some(0) { Ok(output) } else { Err(err(&output)) }
    });
    let seen = seen.await.unwrap();
    assert!(out(&seen).contains("ConfigMap default/web"), "{}", out(&seen));
    assert!(err(&seen).contains("cannot read which clusters are unreachable"), "{}", err(&seen));
}
