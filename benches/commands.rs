//! Measures the commands that need no hub: `validate`, `render` and `plan --base`, as processes of
//! the real program. Prints seconds, processor time and peak memory of each.
//! `docs/benchmarks.md` has the results and the method.
//!
//! `GITWORK_BENCH_CLUSTERS` sets the number of clusters of the large repository, 1,000 by default.
//! `GITWORK_BENCH_KEEP` names a folder for the repositories, which are kept there, and
//! `GITWORK_BENCH_PROGRAM` another program, to compare with. Names of parts on the command line
//! select some of them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its results"
)]

mod fast_import;

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fast_import::FastImport;

/// Works of each cluster of the large repository.
const WORKS: usize = 4;
/// Bytes of a work of the large repository, as YAML.
const WORK_BYTES: usize = 42 * 1024;
/// Clusters and works for each of the repository with many small works.
const SMALL: (usize, usize) = (100, 100);
/// How often each command runs. The least time and processor time are printed, which other programs
/// disturb least, and the most memory.
const RUNS: usize = 3;

fn main() {
    let clusters = std::env::var("GITWORK_BENCH_CLUSTERS").map_or(1000, |n| n.parse().unwrap());
    let kept = std::env::var_os("GITWORK_BENCH_KEEP").map(PathBuf::from);
    let process = std::process::id();
    let folder = || std::env::temp_dir().join(format!("gitwork-bench-commands-{process}"));
    let folder = kept.clone().unwrap_or_else(folder);
    let large = repository(&folder.join("large"), (clusters, WORKS), large_work);
    let small = repository(&folder.join("small"), SMALL, small_work);
    println!("| what | seconds | CPU seconds | peak MiB |\n|---|---|---|---|");
    let large_url = format!("file://{}", large.display());
    let small_url = format!("file://{}", small.display());
    let cache = folder.join("cache");
    let mirrored = |url: &str, args: &[&str]| {
        let of_mirror = ["--repo", url, "--branch", "main", "--cache", cache.to_str().unwrap()];
        [args, &of_mirror].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let base = ["plan", "--base", "main~1", "--head", "main"];
    let runs = [
        ("`validate`, large", mirrored(&large_url, &["validate"])),
        ("`render -o json`, large", mirrored(&large_url, &["render", "-o", "json"])),
        ("`render -o yaml`, large", mirrored(&large_url, &["render", "-o", "yaml"])),
        ("`plan` of one changed work, large", mirrored(&large_url, &base)),
        ("`plan` of one changed work, small", mirrored(&small_url, &base)),
    ];
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    for (what, args) in runs {
        if !named.is_empty() && !named.iter().any(|name| what.contains(name.as_str())) {
            continue;
        }
        // The first run fills the mirror and the page cache.
        let all: Vec<Measured> = (0..=RUNS).map(|_| measure(&args)).skip(1).collect();
        let least = |of: fn(&Measured) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = all.iter().map(|one| one.peak_kib).max().unwrap();
        let (seconds, cpu) = (least(|one| one.seconds), least(|one| one.cpu));
        println!("| {what} | {seconds:.3} | {cpu:.2} | {} |", most / 1024);
    }
    if kept.is_none() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// What one run of a command takes.
struct Measured {
    seconds: f64,
    cpu: f64,
    peak_kib: u64,
}

/// Runs the program and drops its output.
fn measure(args: &[String]) -> Measured {
    let began = Instant::now();
    let other = std::env::var("GITWORK_BENCH_PROGRAM");
    let program = other.unwrap_or_else(|_| env!("CARGO_BIN_EXE_gitwork").to_owned());
    let mut child = Command::new(program)
        .args(args)
        .env("GITWORK_LOG", "error")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while stdout.read(&mut buffer).unwrap() > 0 {}
    });
    let mut peak_kib = 0;
    while !reader.is_finished() {
        peak_kib = peak_kib.max(peak_of(&child).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    reader.join().unwrap();
    let cpu = cpu_after_exit(&child);
    let seconds = began.elapsed().as_secs_f64();
    let status = child.wait().unwrap();
    assert!(status.success(), "gitwork {args:?}: {status}");
    Measured { seconds, cpu, peak_kib }
}

/// The most memory that a process has had so far; `None` once it has ended.
fn peak_of(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Processor time of a process that ends and was not waited for yet.
fn cpu_after_exit(child: &Child) -> f64 {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        if fields[0] == "Z" {
            let ticks: u64 =
                fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
            return Duration::from_millis(ticks * 10).as_secs_f64();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A bare repository with two commits: the second changes one work.
fn repository(
    at: &Path,
    (clusters, works): (usize, usize),
    work: fn(usize, usize) -> String,
) -> PathBuf {
    if at.exists() {
        return at.to_owned();
    }
    std::fs::create_dir_all(at).unwrap();
    let mut init = Command::new("git");
    init.arg("-C").arg(at).args(["init", "-q", "--bare", "-b", "main"]);
    assert!(init.status().unwrap().success());
    let path = |cluster, number| format!("clusters/edge-{cluster:04}/app-{number:03}/all.yaml");
    let mut import = FastImport::start(at);
    import.commit();
    for cluster in 0..clusters {
        for number in 0..works {
            import.file(&path(cluster, number), &work(cluster * works + number, 0));
        }
    }
    import.commit();
    let (cluster, number) = (clusters / 2, works / 2);
    import.file(&path(cluster, number), &work(cluster * works + number, 1));
    import.end();
    at.to_owned()
}

/// One ConfigMap.
fn small_work(number: usize, revision: usize) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app-{number}\n  namespace: default\n\
         data:\n  revision: \"{revision}\"\n  number: \"{number}\"\n"
    )
}

/// Shops until the work has its bytes. No two works are the same.
fn large_work(number: usize, revision: usize) -> String {
    let mut text = String::new();
    for shop in 0.. {
        let next = objects(&format!("shop-{number}-{shop}"), number, revision);
        if text.len() + next.len() > WORK_BYTES {
            break;
        }
        text += &next;
    }
    text
}

/// A Deployment, a Service, an Ingress, a ServiceAccount and a ConfigMap, as people write them.
fn objects(name: &str, number: usize, revision: usize) -> String {
    let metadata = format!(
        "metadata:\n  name: {name}\n  namespace: shop\n  labels:\n    \
         app.kubernetes.io/name: {name}\n    app.kubernetes.io/part-of: shop\n"
    );
    let mut text = String::new();
    let head = |kind: &str, version: &str| format!("---\napiVersion: {version}\nkind: {kind}\n");
    text += &head("ServiceAccount", "v1");
    text += &metadata;
    text += &head("ConfigMap", "v1");
    text += &metadata;
    text += "data:\n";
    for line in 0..24 {
        let _ = writeln!(text, "  setting-{line}: value {line} of {name}, which is {number}");
    }
    text +=
        "  application.yaml: |\n    server:\n      port: 8080\n    logging:\n      level: info\n";
    text += &head("Service", "v1");
    text += &metadata;
    let _ = writeln!(text, "spec:\n  selector:\n    app.kubernetes.io/name: {name}");
    text += "  ports:\n  - name: http\n    port: 80\n    targetPort: http\n    protocol: TCP\n";
    text += &head("Ingress", "networking.k8s.io/v1");
    text += &metadata;
    let _ = writeln!(
        text,
        "spec:\n  ingressClassName: nginx\n  rules:\n  - host: {name}.example.com\n    http:\n\
         \x20     paths:\n      - path: /\n        pathType: Prefix\n        backend:\n\
         \x20         service:\n\
         \x20           name: {name}\n            port:\n              name: http"
    );
    text += &deployment(name, &metadata, revision);
    text
}

fn deployment(name: &str, metadata: &str, revision: usize) -> String {
    let mut environment = String::new();
    for variable in 0..8 {
        let _ = writeln!(environment, "        - name: SETTING_{variable}\n          valueFrom:");
        let _ = writeln!(environment, "            configMapKeyRef:\n              name: {name}");
        let _ = writeln!(environment, "              key: setting-{variable}");
    }
    let probe = |path: &str| {
        format!("          httpGet:\n            path: {path}\n            port: http\n")
    };
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\n{metadata}spec:\n  replicas: 3\n  selector:\n\
         \x20   matchLabels:\n      app.kubernetes.io/name: {name}\n  strategy:\n    \
         type: RollingUpdate\n    rollingUpdate:\n      maxSurge: 25%\n      maxUnavailable: 0\n\
         \x20 template:\n    metadata:\n      labels:\n        app.kubernetes.io/name: {name}\n\
         \x20   spec:\n      serviceAccountName: {name}\n      containers:\n      - name: shop\n\
         \x20       image: registry.example.com/shop:1.{revision}.0\n        ports:\n\
         \x20       - name: http\n          containerPort: 8080\n        env:\n{environment}\
         \x20       resources:\n          requests:\n            cpu: 100m\n\
         \x20           memory: 128Mi\n          limits:\n            memory: 256Mi\n\
         \x20       readinessProbe:\n{}\
         \x20       livenessProbe:\n{}        securityContext:\n          \
         allowPrivilegeEscalation: false\n          readOnlyRootFilesystem: true\n        \
         volumeMounts:\n        - name: config\n          mountPath: /etc/shop\n      volumes:\n\
         \x20     - name: config\n        configMap:\n          name: {name}\n",
        probe("/readyz"),
        probe("/livez"),
    )
}
