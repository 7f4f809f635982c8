//! The program itself: as a subprocess, with the rights that `deploy/` grants, on signals.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use super::fixture::{Sync, config_map};
use crate::deploy;
use crate::harness::eventually;

pub fn gitwork(sync: &Sync, kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gitwork"));
    command
        .arg("run")
        .args(["--repo", &sync.server.url("fleet.git"), "--branch", "main"])
        .args(["--source-id", sync.id.as_str(), "--interval", "3600"])
        .arg("--cache")
        .arg(sync.folder.path().join("cache"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("GITWORK_LOG")
        .stderr(Stdio::piped());
    command
}

/// Ends the program when a test ends early.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

impl Running {
    pub fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end; answers the exit code and the log.
    async fn end(mut self) -> (Option<i32>, String) {
        let status = eventually("the end of gitwork", Duration::from_secs(300), || {
            let ended = self.0.try_wait().unwrap();
            async move { ended.ok_or_else(|| "it runs".to_owned()) }
        })
        .await
        .unwrap();
        let mut log = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (status.code(), log)
    }
}

pub async fn rights(_sync: &Sync) -> PathBuf {
    deploy::installed().await;
    crate::harness::hub().await.kubeconfig_path_for("gitwork", "gitwork").await
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_syncs_with_deploy_rbac_until_sigterm() {
    let sync = Sync::new(2).await;
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (1, "web/cm.yaml", Some(&config_map("web", "one"))),
    ]);
    let running = Running(gitwork(&sync, &rights(&sync).await).spawn().unwrap());
    sync.until_value(0, "web", "one").await;
    sync.until_value(1, "web", "one").await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two"))), (1, "web", None)]);
    running.signal("HUP");
    sync.until_value(0, "web", "two").await;
    sync.until_gone(1, "web").await;
    sync.delete(0, "web").await;
    sync.until_value(0, "web", "two").await;
    running.signal("TERM");
    let (code, log) = running.end().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("forbid"), "{log}");
}

/// Arenas that glibc's allocator has made for threads: each takes 64 MiB of addresses, on a border
/// of as many, the rest of which nobody may touch yet.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn arenas(process: u32) -> usize {
    const BYTES: u64 = 64 << 20;
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let ranges: Vec<(u64, u64, &str)> = maps
        .lines()
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            (number(start), number(end), &rest[..4])
        })
        .collect();
    let is_arena = |pair: &&[(u64, u64, &str)]| {
        let [(start, middle, "rw-p"), (rest, end, "---p")] = pair else { return false };
        start % BYTES == 0 && middle == rest && *end == start + BYTES
    };
    ranges.windows(2).filter(is_arena).count()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[tokio::test(flavor = "multi_thread")]
async fn malloc_arenas_are_limited() {
    let sync = Sync::new(2).await;
    for value in ["one", "two", "three"] {
        let text = config_map("web", value);
        sync.commit(&[(0, "web/cm.yaml", Some(&text)), (1, "web/cm.yaml", Some(&text))]);
    }
    let running = Running(gitwork(&sync, &rights(&sync).await).spawn().unwrap());
    sync.until_value(0, "web", "three").await;
    sync.until_value(1, "web", "three").await;
    // The first thread has an arena that is none of these.
    let made = arenas(running.0.id());
    let most = gitwork_runtime::limits::HEAP_ARENAS_MAX as usize - 1;
    assert!((1..=most).contains(&made), "{made} arenas");
    running.signal("TERM");
    assert_eq!(running.end().await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn single_pass_exit_code_shows_whether_hub_matches_git() {
    let sync = Sync::new(1).await;
    let kubeconfig = rights(&sync).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let once = || gitwork(&sync, &kubeconfig).arg("--once").output().unwrap();
    let output = once();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    sync.until_value(0, "web", "one").await;

    sync.commit(&[
        (0, "db/cm.yaml", Some("kind: [")),
        (0, "web/cm.yaml", Some(&config_map("web", "two"))),
    ]);
    let output = once();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("1 errors in Git"), "{}", text(&output));
    sync.until_value(0, "web", "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_sources_are_synced_and_probed() {
    let first = Sync::new(1).await;
    let second = Sync::new(1).await;
    first.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "first")))]);
    second.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "second")))]);
    let file = first.folder.path().join("gitwork.yaml");
    let cache = first.folder.path().join("cache");
    let sources: String = [&first, &second]
        .iter()
        .map(|sync| {
            format!(
                "- {{id: {}, repo: {:?}, branch: main}}\n",
                sync.id,
                sync.server.url("fleet.git")
            )
        })
        .collect();
    let config = format!("listen: 127.0.0.1:0\ncache: {}\nsources:\n{sources}", cache.display());
    std::fs::write(&file, config).unwrap();
    let log = first.folder.path().join("log");
    let child = Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(["run", "--log-format", "json", "--config"])
        .arg(&file)
        .arg("--kubeconfig")
        .arg(rights(&first).await)
        .env_remove("GITWORK_LOG")
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let running = Running(child);
    first.until_value(0, "web", "first").await;
    second.until_value(0, "web", "second").await;

    let line = std::fs::read_to_string(&log).unwrap();
    let line = line.lines().find(|line| line.contains("listening")).unwrap().to_owned();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address: std::net::SocketAddr = line["address"].as_str().unwrap().parse().unwrap();
    eventually("readiness", Duration::from_secs(300), || async move {
        let answer = get(address, "/readyz").await;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(answer) }
    })
    .await
    .unwrap();
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    let metrics = get(address, "/metrics").await;
    for sync in [&first, &second] {
        let wrote = format!(
            "gitwork_hub_writes_total{{source=\"{}\",effect=\"create\",result=\"success\"}} 1",
            sync.id
        );
        assert!(metrics.contains(&wrote), "{metrics}");
    }
    running.signal("TERM");
    let mut running = running;
    assert!(running.0.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_folder_is_synced_on_save() {
    let sync = Sync::new(1).await;
    let folder = sync.folder.path().join("folder");
    let save = |work: &str, text: &str| {
        let file = folder.join(sync.path(0, &format!("{work}/cm.yaml")));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    save("web", &config_map("web", "one"));
    let child = Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(["run", "--interval", "3600", "--source-id", sync.id.as_str(), "--repo"])
        .arg(&folder)
        .arg("--kubeconfig")
        .arg(rights(&sync).await)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let running = Running(child);
    sync.until_value(0, "web", "one").await;
    // Only the file system notifies the program.
    save("web", &config_map("web", "two"));
    save("db", &config_map("db", "one"));
    sync.until_value(0, "web", "two").await;
    sync.until_value(0, "db", "one").await;
    std::fs::remove_dir_all(folder.join(sync.path(0, "db"))).unwrap();
    sync.until_gone(0, "db").await;
    running.signal("TERM");
    let (code, log) = running.end().await;
    assert_eq!(code, Some(0), "{log}");
}

/// One plain HTTP request; the answer as it comes.
pub async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let path = path.to_owned();
    let ask = move || {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    tokio::task::spawn_blocking(ask).await.unwrap().unwrap()
}
