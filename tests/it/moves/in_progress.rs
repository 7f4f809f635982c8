//! What the commands and the status page say of a move while it goes on.

use std::path::Path;
use std::time::Duration;

use super::Agent;
use super::layout::WorkLayout;
use super::objects::Object;
use super::stage::Stage;
use crate::agent::fixture::Fixture;
use crate::cli::{code, err, gitwork, out};
use crate::harness::eventually;
use crate::sync::program::get;

const DEADLINE: Duration = Duration::from_secs(300);

/// The output of a command that reads the repository and the hub.
fn ask(stage: &Stage, arguments: &[&str], of_repository: bool) -> String {
    let sync = stage.sync();
    let mut command = gitwork(arguments);
    if of_repository {
        let cache = sync.folder.path().join("cli-cache");
        command.args(["--branch", "main", "--repo", &sync.server.url("fleet.git")]);
        command.args([Path::new("--cache"), &cache]).args(["--source-id", sync.id.as_str()]);
    }
    let output = command.arg("--kubeconfig").arg(sync.hub.kubeconfig_path()).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    out(&output)
}

#[tokio::test(flavor = "multi_thread")]
async fn move_is_shown_by_commands_and_page_until_it_is_done() {
    let mut agent = Fixture::start().await;
    let cluster = agent.cluster_name.clone();
    let mut stage = Stage::start(&cluster, &agent.namespace, agent.managed).await;
    agent.pause().await;
    let all = WorkLayout { objects: Object::ALL.into(), orphans: false };
    stage.commit([("store".to_owned(), all)].into(), "moved");
    assert!(stage.until_moving().await);

    let object = format!("PersistentVolumeClaim {}/data", agent.namespace);
    let waits = "shop keeps it until store has applied it";
    let plan = ask(&stage, &["plan"], true);
    assert!(plan.contains("moves from shop to store") && plan.contains(waits), "{plan}");
    for work in ["shop", "store"] {
        let what = format!("{cluster}/{work}/PersistentVolumeClaim/{}/data", agent.namespace);
        let explained = ask(&stage, &["explain", &what], true);
        assert!(explained.contains(waits), "{object}: {explained}");
    }
    eventually("the status to show the move", DEADLINE, || async {
        let status = ask(&stage, &["status", "-o", "json", "--cluster", &cluster], false);
        if status.contains("moves from shop to store") { Ok(()) } else { Err(status) }
    })
    .await
    .unwrap();
    let path = format!("/api/works/{}/{cluster}/shop", stage.sync().id);
    let shown = get(stage.page().await, &path).await;
    assert!(shown.contains(waits), "{shown}");

    agent.resume();
    stage.until_as_in_git("after the move").await;
    eventually("the status without the work that is gone", DEADLINE, || async {
        let status = ask(&stage, &["status", "-o", "json", "--cluster", &cluster], false);
        if status.contains("\"shop\"") { Err(status) } else { Ok(()) }
    })
    .await
    .unwrap();
    stage.end().await;
}
