//! Ordinary repositories, with which hostile ones of as many bytes are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gitwork_core::model::name::ObjectId;
use gitwork_core::model::snapshot::{Entry, EntryKind, Objects as _, Tree};

use crate::memory_repository::{File, MemoryObjects};

/// As JSON, this is just below the hub's limit of a work.
pub const LARGE_WORK_BYTES: usize = 400 * 1024;

/// How much the most memory of this process grows.
pub struct PeakMemory {
    before_kib: u64,
}

impl PeakMemory {
    /// From here on.
    pub fn start() -> Self {
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        Self { before_kib: most_kib() }
    }

    /// The growth so far.
    pub fn mebibytes(&self) -> f64 {
        (most_kib() - self.before_kib) as f64 / 1024.0
    }
}

/// The most memory that this process has had at once.
fn most_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Bytes of the files below a tree, as a checkout has them, up to `max`.
pub fn checkout_bytes(objects: &MemoryObjects, tree: ObjectId, max: usize) -> usize {
    let mut bytes = 0;
    for entry in objects.tree(tree).unwrap().values() {
        bytes += match entry.kind {
            EntryKind::Tree => checkout_bytes(objects, entry.id, max),
            _ => objects.blob(entry.id, usize::MAX).unwrap().len(),
        };
        if bytes >= max {
            return max;
        }
    }
    bytes
}

/// A repository of about so many bytes, as people write them: each shop has a Deployment, a Service
/// and a ConfigMap, and no two are the same. A work has the shops of at least so many bytes.
pub fn ordinary(objects: &mut MemoryObjects, bytes: usize, of_work: usize) -> ObjectId {
    let (mut clusters, mut added, mut number) = (Tree::new(), 0, 0);
    while added < bytes {
        let mut works = BTreeMap::new();
        while added < bytes && works.len() < 20 {
            let mut text = String::new();
            while text.len() < of_work && added + text.len() < bytes {
                text += &shop(number);
                number += 1;
            }
            added += text.len();
            works.insert(format!("shop-{number}/shop.yaml"), File::Bytes(text.into_bytes()));
        }
        let folder = Entry { kind: EntryKind::Tree, id: objects.add(&works) };
        clusters.insert(format!("edge-{}", clusters.len()), folder);
    }
    let clusters = Entry { kind: EntryKind::Tree, id: objects.add_tree(clusters) };
    objects.add_tree([("clusters".to_owned(), clusters)].into())
}

fn shop(number: usize) -> String {
    let settings = (0..20).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "  setting-{line}: value {line} of shop {number}");
        text
    });
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop-{number}
  namespace: shop
spec:
  replicas: 3
  selector:
    matchLabels: {{app: shop-{number}}}
  template:
    metadata:
      labels: {{app: shop-{number}}}
    spec:
      containers:
      - name: shop
        image: registry.example.com/shop:1.{number}.0
        ports:
        - containerPort: 8080
---
apiVersion: v1
kind: Service
metadata:
  name: shop-{number}
  namespace: shop
spec:
  selector: {{app: shop-{number}}}
  ports:
  - port: 80
    targetPort: 8080
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: shop-{number}
  namespace: shop
data:
{settings}"
    )
}
