//! A served status page with invented sources.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, CommitId, RepoPath, SourceId, WorkKey, WorkName};
use gitwork_core::plan::Guard;
use gitwork_daemon::page::Page;
use gitwork_report::forge::WebPages;
use gitwork_report::page::SourceInfo;
use gitwork_report::status::State;
use gitwork_report::status::source::{HeldChanges, SourceStatus, WorkState};
use gitwork_report::status::view::StatusView;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A served page, and the senders of its sources' states.
pub struct Stage {
    pub address: SocketAddr,
    pub feeds: Vec<watch::Sender<Option<Arc<SourceStatus>>>>,
    pub source_errors: Vec<watch::Sender<Option<String>>>,
    pub leads: Vec<watch::Sender<bool>>,
    stop: watch::Sender<bool>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Stage {
    /// Serves a page of these sources. Port 0 takes any free port.
    pub async fn start(sources: &[&str], port: u16) -> Stage {
        let page = Page::new(sources.iter().map(|id| info(id)).collect(), Vec::new());
        let (stop, stopped) = watch::channel(false);
        let (mut feeds, mut source_errors, mut leads) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..sources.len() {
            let (feed, fed) = watch::channel(None);
            let (source_error, errors) = watch::channel(None);
            let (lead, standing) = watch::channel(true);
            let source = (fed, errors, standing);
            tokio::spawn(page.clone().follow(number, source, stopped.clone()));
            leads.push(lead);
            feeds.push(feed);
            source_errors.push(source_error);
        }
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(page.serve(listener, stopped));
        Stage { address, feeds, source_errors, leads, stop, server }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub fn publish(&self, status: &SourceStatus) {
        self.feeds[0].send_replace(Some(Arc::new(status.clone())));
    }

    /// Shuts down as the daemon does.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        self.server.await.unwrap().unwrap();
    }
}

pub fn info(id: &str) -> SourceInfo {
    let repository = format!("https://github.com/acme/{id}.git");
    let arguments = ["--repo", &repository, "--branch", "main", "--source-id", id];
    SourceInfo {
        id: SourceId::parse(id).unwrap(),
        reference: "branch main".into(),
        arguments: arguments.map(str::to_owned).to_vec(),
        pages: WebPages::of(None, &repository),
        repository,
    }
}

pub fn key(cluster: &str, work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse(cluster).unwrap(), work: WorkName::parse(work).unwrap() }
}

pub fn commit(seed: &str) -> CommitId {
    CommitId::parse(&Digest::of(seed.as_bytes()).to_string()[..40]).unwrap()
}

/// A work in this state, which its agent has reported for this many minutes.
pub fn work(key: &WorkKey, state: State, minutes: i64) -> WorkState {
    let since = Timestamp::now() - SignedDuration::from_mins(minutes);
    WorkState {
        state,
        since,
        why: None,
        code: None,
        uid: None,
        path: RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work)),
        commit: Some(commit(key.work.as_str())),
        view: StatusView::of(&reported(key, state, &since.to_string()), 1, 4).into(),
    }
}

/// The conditions that OCM's agent writes for such a state.
pub fn reported(key: &WorkKey, state: State, since: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since, "observedGeneration": 1,
        })
    };
    let is_failed = state == State::Failed;
    let refused = "admission webhook \"policy.acme.io\" denied the request: image \
        registry.acme.io/shop:2.4.1 has no \
                   signature";
    let applied = if is_failed {
        condition("Applied", "False", "AppliedManifestFailed", refused)
    } else {
        condition("Applied", "True", "AppliedManifestComplete", "Apply manifest complete")
    };
    let mut conditions = vec![if is_failed {
        condition("Applied", "False", "AppliedManifestWorkFailed", "Failed to apply manifest work")
    } else {
        condition("Applied", "True", "AppliedManifestWorkComplete", "Apply manifest work complete")
    }];
    let (ready, wanted) = if state == State::Progressing { (1, 3) } else { (3, 3) };
    conditions.extend(match state {
        State::Progressing => {
            let message = "2 of 3 replicas are not updated yet";
            Some(condition("Progressing", "True", "WorkProgressing", message))
        }
        State::Degraded => {
            let message = "Deployment web: 1 of 3 replicas is in CrashLoopBackOff";
            Some(condition("Degraded", "True", "WorkDegraded", message))
        }
        State::Available => {
            let message = "All resources are available";
            Some(condition("Available", "True", "ResourcesAvailable", message))
        }
        _ => None,
    });
    let value = |name: &str, value: i64| {
        let field = json!({ "type": "Integer", "integer": value });
        json!({ "name": name, "fieldValue": field })
    };
    json!({
        "conditions": conditions,
        "resourceStatus": { "manifests": [{
            "resourceMeta": {
                "kind": "Deployment", "resource": "deployments",
                "namespace": key.work.as_str(), "name": key.work.as_str(),
            },
            "conditions": [applied],
            "statusFeedback": { "values": [
                value("Replicas", wanted),
                value("ReadyReplicas", ready),
                value("AvailableReplicas", ready),
            ] },
        }] },
    })
}

const WORKS: [&str; 10] = [
    "cert-manager",
    "dns",
    "ingress",
    "logging",
    "mesh",
    "metrics",
    "payments",
    "policies",
    "shop",
    "storage",
];

/// This many clusters with ten works each. Some works are not healthy.
pub fn fleet(clusters: usize) -> SourceStatus {
    let mut works = BTreeMap::new();
    for cluster in 0..clusters {
        let name = cluster_name(cluster);
        for (index, work_name) in WORKS.iter().enumerate() {
            // Some clusters lack a work.
            if (cluster * 7 + index * 3) % 41 == 0 {
                continue;
            }
            let key = key(&name, work_name);
            let state = match (cluster * 13 + index * 29) % 97 {
                3 | 40 => State::Progressing,
                11 => State::Pending,
                55 => State::Degraded,
                60 | 61 => State::Applied,
                70 if cluster % 3 == 0 => State::Failed,
                _ => State::Available,
            };
            let minutes = (cluster * 31 + index * 17) as i64 % 4_000 + 2;
            works.insert(key.clone(), work(&key, state, minutes));
        }
    }
    SourceStatus {
        source: SourceId::parse("fleet").unwrap(),
        commit: Some(commit("fleet")),
        works: works.into_iter().collect(),
        unreachable: BTreeSet::new(),
        record_generation: 0,
        errors: 0,
        first_error: None,
        findings: Vec::new(),
        facts: None,
        held: Vec::new(),
        rollouts: Vec::new(),
    }
}

pub fn cluster_name(number: usize) -> String {
    let places = ["berlin", "london", "madrid", "oslo", "paris", "rome", "vienna", "zurich"];
    format!("edge-{}-{:03}", places[number % places.len()], number / places.len() + 1)
}

/// Held deletions of the first works of these clusters.
pub fn hold(status: &mut SourceStatus, clusters: &[String]) {
    let hash = Digest::of(b"a plan");
    let mut held = 0;
    let keys: Vec<WorkKey> = status.works.keys().cloned().collect();
    for key in keys {
        let work = status.works.get_mut(&key).unwrap();
        if clusters.iter().any(|name| name == key.cluster.as_str()) {
            work.state = State::Held;
            let why = format!(
                "removed from Git; held with all deletions of this plan: check the source's ref \
                 and path, or approve \
                 just these with `gitwork approve {hash}`"
            );
            work.why = Some(why.into());
            held += 1;
        }
    }
    let reason = "that is more than 10 works and more than 10% of the source's".to_owned();
    status.held = vec![HeldChanges { guard: Guard::Budget, hash, works: held, reason }];
}
