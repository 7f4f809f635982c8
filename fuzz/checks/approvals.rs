//! Approvals, and the operators' other requests on the hub. A JSON object is the ConfigMap's data;
//! any other text is an approval.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::approval::{Approval, ApprovalError, Approvals};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::SourceId;
use gitwork_core::plan::directives::{Directives, RECONCILE, SuspensionTarget, suspension_key};
use gitwork_yaml::is_dangerous;

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match serde_json::from_str::<BTreeMap<String, String>>(text) {
        Ok(data) => config_map(&data),
        Err(_) => approval(text),
    }
}

fn source() -> SourceId {
    SourceId::parse("fleet").unwrap()
}

/// The lines that count.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The canonical form, whose hash is the name.
fn canonical(text: &str) -> String {
    let mut lines = lines(text).peekable();
    let first = lines.next_if(|line| {
        let word = line.split(' ').next().unwrap_or_default();
        matches!(word, "rewind" | "changes" | "restored" | "origin")
    });
    let sorted: BTreeSet<&str> = lines.collect();
    first.into_iter().chain(sorted).map(|line| format!("{line}\n")).collect()
}

fn approval(text: &str) -> bool {
    let plain = canonical(text);
    let name = Digest::of(plain.as_bytes()).to_string();
    let read = Approval::read(&name, text);
    let approval = match read {
        Ok(approval) => approval,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert_eq!(approval.hash().to_string(), name);
    assert_eq!(Approval::read(&name, &plain).as_ref(), Ok(&approval), "the order has no meaning");
    assert_eq!(Approval::read(&name, &approval.text()).as_ref(), Ok(&approval));
    // It approves only what it lists.
    let listed: BTreeSet<&str> = lines(text).collect();
    for line in approval.text().lines() {
        assert!(listed.contains(line), "{line:?} of {text:?}");
    }
    // Under another name it approves nothing.
    let other = Digest::of(name.as_bytes()).to_string();
    assert_eq!(Approval::read(&other, text), Err(ApprovalError::OtherWorks));
    assert_eq!(Approval::read("README", text), Err(ApprovalError::Name));
    let more = format!("{text}\nanother/work uid");
    assert!(listed.contains("another/work uid") || Approval::read(&name, &more).is_err());
    let mut elsewhere = Approvals::default();
    elsewhere.add(&SourceId::parse("elsewhere").unwrap(), approval.clone());
    let deletes = matches!(approval, Approval::Deletions(_));
    let named = approval.text().lines().next().is_some_and(|l| l.contains(" elsewhere"));
    assert!(deletes || named || elsewhere == Approvals::default());
    true
}

fn config_map(data: &BTreeMap<String, String>) -> bool {
    let (found, unread) = Directives::read(&source(), data);
    assert_eq!(found.reconcile.is_some(), data.contains_key(RECONCILE));
    assert!(unread.iter().all(|text| !text.chars().any(is_dangerous)), "{unread:?}");
    // Suspended works stay suspended with any text, and each has its own key.
    let suspensions = &found.suspensions;
    let of_clusters = suspensions.clusters.keys().cloned().map(SuspensionTarget::Cluster);
    let of_works = suspensions.works.keys().cloned().map(SuspensionTarget::Work);
    let of_source = suspensions.source.is_some().then_some(SuspensionTarget::Source);
    let all: Vec<SuspensionTarget> = of_clusters.chain(of_works).chain(of_source).collect();
    for target in &all {
        assert!(data.contains_key(&suspension_key(target)), "{target:?}");
    }
    for suspension in suspensions.works.values().chain(suspensions.clusters.values()) {
        assert!(!suspension.to_string().chars().any(is_dangerous), "{suspension}");
    }
    // Every key has one purpose, and only a key with the name of a hash approves anything.
    let approvals = data.keys().filter(|key| Digest::parse(key).is_some()).count();
    let others = usize::from(found.reconcile.is_some()) + all.len();
    assert!(others + unread.len() + approvals >= data.len());
    assert!(approvals > 0 || found.approvals == Approvals::default());
    // Another unreadable key changes nothing of the others.
    let mut more = data.clone();
    if more.insert("no approval".into(), "edge-1/web u-1".into()).is_none() {
        let (again, unread_too) = Directives::read(&source(), &more);
        assert_eq!(again, found);
        assert_eq!(unread_too.len(), unread.len() + 1);
    }
    !all.is_empty() || found.approvals != Approvals::default()
}
