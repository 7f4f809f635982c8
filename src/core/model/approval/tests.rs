use super::*;
use crate::model::name::RepoPath;

fn target(work: &str, uid: &str) -> Target {
    let key = WorkKey {
        cluster: ClusterName::parse("edge-1").unwrap(),
        work: WorkName::parse(work).unwrap(),
    };
    Target { key, uid: uid.into() }
}

fn source(id: &str) -> SourceId {
    SourceId::parse(id).unwrap()
}

fn origin(repository: &str) -> SourceOrigin {
    SourceOrigin::new(repository, &RepoPath::root())
}

fn rollout(step: RolloutStep) -> Approval {
    let (group, content) = (GroupName::parse("tills").unwrap(), Digest::of(b"content"));
    let step = RolloutApproval { group, content, step };
    Approval::Rollout { source: source("fleet"), step }
}

#[test]
fn approval_of_deletions_counts_if_its_name_is_its_hash() {
    let works: Approved = [target("web", "u-2"), target("api", "u-1")].into();
    assert_eq!(listing(&works), "edge-1/api u-1\nedge-1/web u-2\n");
    let name = plan_hash(&works).to_string();
    let read = |text: &str| Approval::read(&name, text);
    let expected = Ok(Approval::Deletions(works.clone()));
    assert_eq!(read("# by me\r\nedge-1/web u-2\r\n\r\nedge-1/api u-1"), expected);
    assert_eq!(read("edge-1/api u-1\n"), Err(ApprovalError::OtherWorks));
    assert_eq!(read("edge-1/api u-1\nedge-1/web u-3\n"), Err(ApprovalError::OtherWorks));
    assert_eq!(read(""), Err(ApprovalError::OtherWorks));
    assert_eq!(read("edge-1/api u-1\n../web x\n"), Err(ApprovalError::Line { line: 2 }));
    assert_eq!(read("edge-1/api\n"), Err(ApprovalError::Line { line: 1 }));
    let none = Approval::read("README", &listing(&works));
    assert_eq!(none, Err(ApprovalError::Name));
}

#[test]
fn every_kind_reads_what_it_writes_and_counts_for_its_own_source_only() {
    let commit = |byte| CommitId::parse(&format!("{byte:02x}").repeat(20)).unwrap();
    let all = [
        Approval::Deletions([target("web", "u-1")].into()),
        Approval::Rewind(Rewind {
            source: source("fleet"),
            from: [commit(1), commit(2)].into(),
            to: commit(3),
        }),
        Approval::Changes { source: source("fleet"), works: [target("web", "ab")].into() },
        Approval::Restored { source: source("fleet"), record_generation: 7 },
        Approval::Origin {
            source: source("fleet"),
            from: origin("a.example/a fleet"),
            to: origin("b.example/fleet"),
        },
        Approval::Trust { source: source("fleet"), after: Some(commit(1)), commit: commit(2) },
        Approval::Trust { source: source("fleet"), after: None, commit: commit(2) },
        rollout(RolloutStep::Wave("lab".into())),
        rollout(RolloutStep::Retry(2)),
    ];
    let (mut ours, mut others) = (Approvals::default(), Approvals::default());
    for approval in all {
        let text = format!("# approved by ann\n{}", approval.text());
        let read = Approval::read(&approval.hash().to_string(), &text);
        assert_eq!(read, Ok(approval.clone()), "{text}");
        ours.add(&source("fleet"), approval.clone());
        others.add(&source("other"), approval);
    }
    let counts = |all: &Approvals| {
        let lists = [all.deletions.len(), all.changes.len(), all.origins.len()];
        let sets = [all.rewinds.len(), all.restored.len(), all.trusted.len()];
        (lists, sets, all.rollouts.len())
    };
    let expected = (([1; 3], [1, 1, 2], 2), ([1, 0, 0], [0; 3], 0));
    assert_eq!((counts(&ours), counts(&others)), expected);
}

#[test]
fn malformed_approval_is_rejected() {
    let to = "ab".repeat(20);
    let rollout_text = |step: &str| format!("rollout f of {} to g\n{step}\n", "ab".repeat(32));
    for (text, expected) in [
        (format!("rewind fleet to {to}\nto {to}\n"), ApprovalError::Form { line: 2 }),
        ("rewind fleet to main\n".into(), ApprovalError::Form { line: 1 }),
        (format!("rewind Fleet to {to}\n"), ApprovalError::Form { line: 1 }),
        ("restored fleet at -1\n".into(), ApprovalError::Form { line: 1 }),
        ("restored fleet at 7\nedge-1/web u-1\n".into(), ApprovalError::Form { line: 2 }),
        ("changes fleet\nedge-1/web\n".into(), ApprovalError::Line { line: 2 }),
        ("restored fleet at 8\n".into(), ApprovalError::OtherWorks),
        (format!("trust fleet at {to}\nafter main\n"), ApprovalError::Form { line: 2 }),
        (format!("trust fleet at {to}\nafter {to}\nafter {to}\n"), ApprovalError::Form { line: 3 }),
        (format!("rollout fleet of {to} to g\nwave a\n"), ApprovalError::Form { line: 1 }),
        (rollout_text("wave A"), ApprovalError::Form { line: 2 }),
        (rollout_text("wave a\nwave b"), ApprovalError::Form { line: 3 }),
        (rollout_text("retry x"), ApprovalError::Form { line: 2 }),
        (rollout_text("wave a"), ApprovalError::OtherWorks),
        ("origin fleet\nfrom a\n".into(), ApprovalError::Form { line: 1 }),
        ("origin fleet\nfrom a\nfrom b\n".into(), ApprovalError::Form { line: 3 }),
        ("origin fleet\nfrom a\nto  b\n".into(), ApprovalError::Form { line: 3 }),
        ("origin fleet\nfrom a\nto b\n".into(), ApprovalError::OtherWorks),
    ] {
        let name = Digest::of(b"something else").to_string();
        assert_eq!(Approval::read(&name, &text), Err(expected), "{text}");
    }
}
