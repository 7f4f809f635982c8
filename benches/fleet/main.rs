//! Measures gitwork against a real kube-apiserver. It prints ratios and counts of one run, because
//! machines are noisy. `docs/benchmarks.md` has the results and the method.
//!
//! `cargo bench --bench fleet -- steady --works 100000`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its results"
)]

mod controller;
mod first_sync;
mod group;
mod page;
mod program;
mod repository;
mod status_branch;
mod steady;

#[path = "../../tests/browser/mod.rs"]
mod browser;
#[path = "../fast_import/mod.rs"]
mod fast_import;
#[path = "../../tests/harness/mod.rs"]
mod harness;

use std::time::Duration;

use clap::{Parser as _, ValueEnum};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};

use harness::{Cluster, ClusterOptions, ControlPlane, crds};
use repository::Layout;

/// Concurrent requests, as many as gitwork sends.
const CONCURRENCY: usize = 32;
/// Works of the first sync, and of all that follows, without `--works`.
const FIRST: usize = 2_000;
const MANY: usize = 10_000;
const DEADLINE: Duration = Duration::from_secs(1_200);

#[derive(clap::Parser)]
struct Args {
    /// The parts to run; all of them without names
    parts: Vec<Part>,
    /// How many works `first-sync`, `steady`, `page` and `status-branch` have
    #[arg(long, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    works: Option<u32>,
    /// In `steady`, each cluster has the same works
    #[arg(long)]
    equal: bool,
    /// In `steady`, a daemon makes the first sync
    #[arg(long)]
    by_daemon: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    FirstSync,
    /// Includes `plan`, which reads the same repository.
    Steady,
    Group,
    Controller,
    StatusBranch,
    /// In a real browser.
    Page,
}

fn main() {
    let args = Args::parse();
    let wants = |part: Part| args.parts.is_empty() || args.parts.contains(&part);
    let works = |default: usize| args.works.map_or(default, |works| works as usize);
    let folder = tempfile::tempdir().unwrap();
    println!("| what | measured |\n|---|---|");
    if [Part::FirstSync, Part::Steady, Part::Group, Part::Controller].into_iter().any(wants) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let plane = ControlPlane::boot().await.unwrap();
            let hub = hub(&plane).await;
            if wants(Part::FirstSync) {
                first_sync::first_sync(&hub, folder.path(), Layout::of_first(works(FIRST))).await;
            }
            if wants(Part::Steady) {
                let layout = Layout::of(works(MANY), args.equal);
                steady::steady(&hub, folder.path(), layout, args.by_daemon).await;
            }
            if wants(Part::Group) {
                group::group(&hub, folder.path()).await;
            }
            if wants(Part::Controller) {
                controller::controller(&hub).await;
            }
        });
    }
    if wants(Part::Page) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(page::page(Layout::of(works(MANY), true)));
    }
    if wants(Part::StatusBranch) {
        status_branch::status_branch(folder.path(), Layout::of(works(MANY), true));
    }
}

async fn hub(plane: &ControlPlane) -> Cluster {
    let options = ClusterOptions { crds: crds::hub(), ..Default::default() };
    let hub = plane.start("bench", options).await;
    // The namespace of gitwork's own objects, as in deploy/gitwork.yaml.
    hub.create_namespace(gitwork_hub::NAMESPACE).await;
    hub
}

/// A client, and the kind of works.
type Works = (kube::Client, ApiResource);

fn works(hub: &Cluster) -> Works {
    let resource = ApiResource {
        group: "work.open-cluster-management.io".into(),
        version: "v1".into(),
        api_version: "work.open-cluster-management.io/v1".into(),
        kind: "ManifestWork".into(),
        plural: "manifestworks".into(),
    };
    (hub.client(), resource)
}

/// The works of a namespace, of a client from [`works`]: a client of its own would have to connect.
fn works_in((client, resource): &Works, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, resource)
}

/// The number of works that a selector selects.
async fn count(hub: &Cluster, selector: &str) -> usize {
    // A list with a selector does not tell how many are left, so it is read to its end.
    let (client, resource) = works(hub);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut params = ListParams::default().labels(selector).limit(500);
    let mut found = 0;
    loop {
        let page = api.list_metadata(&params).await.unwrap();
        found += page.items.len();
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params.continue_token = Some(next),
            _ => return found,
        }
    }
}
