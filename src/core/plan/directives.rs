//! What operators say on the hub about one source: approvals, suspensions, and the wish to sync
//! now. Pure.
//!
//! They stand in one ConfigMap, a key for each: an approval under its hash, a suspension under
//! `CLUSTER_WORK`, `CLUSTER_` or `_` (no name of a cluster or work has `_` in it), and `reconcile`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::model::approval::{Approval, Approvals};
use crate::model::name::{ClusterName, SourceId, WorkKey, WorkName};
use crate::model::operation_error::describe;
use crate::text::escape::escape_untrusted;
use crate::text::truncate::truncate_chars;

/// The key under which the wish to sync now stands.
pub const RECONCILE: &str = "reconcile";

/// What a suspension covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuspensionTarget {
    /// The whole source.
    Source,
    /// The works of the source on one cluster.
    Cluster(ClusterName),
    /// One work.
    Work(WorkKey),
}

/// Who stopped the changes of something, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Suspension {
    /// The user of the hub who suspended it; `somebody` if unknown.
    pub by: String,
    /// When, as RFC 3339 has it.
    pub at: String,
    /// Why, in the words of the user; escaped and shortened when it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// All that operators say about one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// Approved changes, of those that name this source.
    pub approvals: Approvals,
    /// What is not to be written.
    pub suspensions: Suspensions,
    /// Another text than before: sync now.
    pub reconcile: Option<String>,
}

/// What is suspended on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suspensions {
    /// The suspension of the whole source (key `_`).
    pub source: Option<Arc<Suspension>>,
    /// Suspended clusters (keys `CLUSTER_`).
    pub clusters: BTreeMap<ClusterName, Arc<Suspension>>,
    /// Suspended works (keys `CLUSTER_WORK`).
    pub works: BTreeMap<WorkKey, Arc<Suspension>>,
}

impl Suspensions {
    /// What keeps a work as it is: the widest suspension that covers it.
    pub fn of(&self, key: &WorkKey) -> Option<&Arc<Suspension>> {
        self.source
            .as_ref()
            .or_else(|| self.clusters.get(&key.cluster))
            .or_else(|| self.works.get(key))
    }
}

/// The key of a suspension.
pub fn suspension_key(target: &SuspensionTarget) -> String {
    match target {
        SuspensionTarget::Source => "_".into(),
        SuspensionTarget::Cluster(cluster) => format!("{cluster}_"),
        SuspensionTarget::Work(WorkKey { cluster, work }) => format!("{cluster}_{work}"),
    }
}

fn read_suspension_key(key: &str) -> Option<SuspensionTarget> {
    let (cluster, work) = key.split_once('_')?;
    if cluster.is_empty() && work.is_empty() {
        return Some(SuspensionTarget::Source);
    }
    let cluster = ClusterName::parse_place(cluster).ok()?;
    if work.is_empty() {
        return Some(SuspensionTarget::Cluster(cluster));
    }
    Some(SuspensionTarget::Work(WorkKey { cluster, work: WorkName::parse(work).ok()? }))
}

impl Directives {
    /// Reads the ConfigMap's data. An approval that cannot be read approves nothing; a suspension
    /// whose text cannot be read suspends all the same. Answers what could not be read, too.
    pub fn read(source: &SourceId, data: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let (mut found, mut unread) = (Self::default(), Vec::new());
        for (key, text) in data {
            if key == RECONCILE {
                found.reconcile =
                    Some(truncate_chars(text, limits::STATUS_TEXT_CHARS_MAX).into_owned());
            } else if let Some(target) = read_suspension_key(key) {
                let suspension = Arc::new(Suspension::read(text));
                let suspensions = &mut found.suspensions;
                match target {
                    SuspensionTarget::Source => suspensions.source = Some(suspension),
                    SuspensionTarget::Cluster(cluster) => {
                        suspensions.clusters.insert(cluster, suspension);
                    }
                    SuspensionTarget::Work(key) => {
                        suspensions.works.insert(key, suspension);
                    }
                }
            } else {
                match Approval::read(key, text) {
                    Ok(approval) => found.approvals.add(source, approval),
                    Err(why) => {
                        unread.push(format!("{}: {}", escape_untrusted(key), describe(&why)));
                    }
                }
            }
        }
        (found, unread)
    }
}

impl Suspension {
    /// As the hub keeps it.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn read(text: &str) -> Self {
        let mut read: Self = serde_json::from_str(text).unwrap_or_default();
        let short = |text: &str| {
            truncate_chars(&escape_untrusted(text), limits::STATUS_TEXT_CHARS_MAX).into_owned()
        };
        read.by = if read.by.is_empty() { "somebody".into() } else { short(&read.by) };
        read.at = short(&read.at);
        read.reason = read.reason.as_deref().map(short);
        read
    }
}

impl fmt::Display for Suspension {
    /// As in `ann at 2026-11-20T09:00:00Z: broken node`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.by)?;
        if !self.at.is_empty() {
            write!(f, " at {}", self.at)?;
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, work: &str) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse(cluster).unwrap(),
            work: WorkName::parse(work).unwrap(),
        }
    }

    fn read(data: &[(&str, &str)]) -> (Directives, Vec<String>) {
        let data = data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        Directives::read(&SourceId::parse("fleet").unwrap(), &data.collect())
    }

    #[test]
    fn a_suspension_covers_its_source_cluster_or_work() {
        let by = |name: &str| Suspension { by: name.into(), at: "now".into(), reason: None }.text();
        let (of_work, of_cluster) = (by("ann"), by("ben"));
        let data = [("edge-1_web.v2", of_work.as_str()), ("edge-2_", of_cluster.as_str())];
        let (found, unread) = read(&data);
        assert_eq!(unread, Vec::<String>::new());
        let who = |cluster: &str, work: &str| {
            found.suspensions.of(&key(cluster, work)).map(|suspension| suspension.by.clone())
        };
        assert_eq!(who("edge-1", "web.v2").as_deref(), Some("ann"));
        assert_eq!(who("edge-1", "web"), None);
        assert_eq!(who("edge-2", "any").as_deref(), Some("ben"));
        assert_eq!(who("edge-3", "any"), None);
        let all = read(&[("_", "")]).0;
        let all = all.suspensions.of(&key("edge-3", "any")).unwrap();
        assert_eq!(all.to_string(), "somebody", "no text, and still suspended");
    }

    #[test]
    fn keys_read_what_they_write() {
        let edge = ClusterName::parse("edge-1").unwrap();
        let work = SuspensionTarget::Work(key("edge-1", "web.v2"));
        for target in [SuspensionTarget::Source, SuspensionTarget::Cluster(edge), work] {
            assert_eq!(read_suspension_key(&suspension_key(&target)), Some(target));
        }
        // The longest names fit into a key (Kubernetes: 253).
        let longest = key(&"c".repeat(63), &"w".repeat(limits::WORK_NAME_CHARS_MAX));
        assert!(suspension_key(&SuspensionTarget::Work(longest)).len() <= 253);
        for none in ["edge-1", "Edge_", "_web", "edge-1_../x", ""] {
            assert_eq!(read_suspension_key(none), None, "{none}");
        }
    }

    #[test]
    fn an_unreadable_directive_is_reported_and_the_others_count() {
        let long = "x".repeat(100_000);
        let hostile = format!("{{\"by\": \"\\u001b[31mann\", \"reason\": \"{long}\"}}");
        let (found, unread) =
            read(&[("README", "hello"), ("reconcile", "1"), ("edge-1_", &hostile)]);
        assert_eq!(unread.len(), 1, "{unread:?}");
        assert_eq!(found.reconcile.as_deref(), Some("1"));
        let suspension = found.suspensions.of(&key("edge-1", "web")).unwrap().to_string();
        assert!(suspension.len() < 2_000 && !suspension.contains('\u{1b}'), "{suspension}");
    }
}
