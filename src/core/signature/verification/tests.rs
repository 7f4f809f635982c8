use super::*;
use crate::config::signers::{SignedPathRule, SignerPolicy};
use crate::signature::policy::PolicyOrigin;

fn id(number: u8) -> CommitId {
    ObjectId([number; 20])
}

fn state(number: u8) -> FileState {
    Some((0o100_644, id(number)))
}

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

fn by(names: &[&str]) -> Result<Signer, SignatureError> {
    let key = format!("SHA256:{}", names.join("+"));
    Ok(Signer { names: names.iter().map(|&name| name.to_owned()).collect(), key })
}

const NOBODY: Result<Signer, SignatureError> = Err(SignatureError::Unsigned);

fn commit(
    number: u8,
    signer: Result<Signer, SignatureError>,
    covered_files: &[(&str, FileState)],
) -> CheckedCommit {
    let covered_files = covered_files.iter().map(|(file, state)| (path(file), *state)).collect();
    CheckedCommit { id: id(number), signer, covered_files }
}

fn range(
    first_parents: &[u8],
    changes: &[(&str, FileState)],
    commits: Vec<CheckedCommit>,
) -> CommitRange {
    CommitRange {
        commits,
        first_parents: first_parents.iter().map(|number| id(*number)).collect(),
        changes: changes.iter().map(|(file, state)| (path(file), *state)).collect(),
    }
}

fn policy(verify: Option<VerifiedCommits>, rules: &[(&str, &[&str], u32)]) -> CompiledPolicy {
    let paths = rules.iter().map(|(path, signers, required)| SignedPathRule {
        paths: vec![(*path).into()],
        signers: signers.iter().map(|&signer| signer.to_owned()).collect(),
        required: *required,
    });
    let policy = SignerPolicy { verify, paths: paths.collect() };
    CompiledPolicy::new(&policy, PolicyOrigin::Operator).unwrap()
}

fn judged(policy: &CompiledPolicy, range: &CommitRange) -> Result<(), String> {
    let head = range.commits.last().unwrap().id;
    verify(head, &[policy], range).map_err(|refusal| refusal.to_string())
}

#[test]
fn every_commit_or_the_branchs_own_have_to_be_signed() {
    let merge = |inner, outer| range(&[2], &[], vec![commit(1, inner, &[]), commit(2, outer, &[])]);
    let (all, merges) =
        (policy(Some(VerifiedCommits::Commits), &[]), policy(Some(VerifiedCommits::Merges), &[]));
    for (inner, outer, by_all, by_merges) in [
        (by(&["ann"]), by(&["bob"]), true, true),
        (NOBODY, by(&["bob"]), false, true),
        (by(&["ann"]), NOBODY, false, false),
        // Who has no name may sign what needs no certain person.
        (by(&[]), by(&[]), true, true),
    ] {
        let range = merge(inner, outer);
        assert_eq!(judged(&all, &range).is_ok(), by_all);
        assert_eq!(judged(&merges, &range).is_ok(), by_merges);
    }
    let expired = SignatureError::Expired { key: "SHA256:x".into(), until: "2024".into() };
    let found = verify(id(2), &[&all], &merge(Err(expired), by(&["bob"]))).unwrap_err();
    assert_eq!((found.commit, found.key.as_deref()), (id(1), Some("SHA256:x")));
    assert_eq!(found.rule, "signers.verify: commits of the operator");
}

const PROD: &str = "clusters/prod-1/web/a.yaml";

#[test]
fn a_path_needs_so_many_persons_who_signed_it_as_it_is() {
    let two = policy(None, &[("clusters/prod-*", &[], 2)]);
    let now = (PROD, state(7));
    for (what, commits, expected) in [
        ("one", vec![commit(1, by(&["ann"]), &[now])], false),
        ("two", vec![commit(1, by(&["ann"]), &[now]), commit(2, by(&["bob"]), &[now])], true),
        ("twice", vec![commit(1, by(&["ann"]), &[now]), commit(2, by(&["ann"]), &[now])], false),
        (
            "two keys of one",
            vec![commit(1, by(&["ann", "a@x"]), &[now]), commit(2, by(&["a@x"]), &[now])],
            false,
        ),
        (
            "two that turn out to be one",
            vec![
                commit(1, by(&["ann"]), &[now]),
                commit(2, by(&["a@x"]), &[now]),
                commit(3, by(&["ann", "a@x"]), &[now]),
            ],
            false,
        ),
        (
            "signed before it was changed again",
            vec![commit(1, by(&["bob"]), &[(PROD, state(6))]), commit(2, by(&["ann"]), &[now])],
            false,
        ),
        ("nameless", vec![commit(1, by(&["ann"]), &[now]), commit(2, by(&[]), &[now])], false),
        ("unsigned", vec![commit(1, by(&["ann"]), &[now]), commit(2, NOBODY, &[now])], false),
        (
            "of something else",
            vec![commit(1, by(&["ann"]), &[now]), commit(2, by(&["bob"]), &[("README", state(1))])],
            false,
        ),
    ] {
        assert_eq!(judged(&two, &range(&[], &[now], commits)).is_ok(), expected, "{what}");
    }
    // A removal is a change, too.
    let gone = (PROD, None);
    let both = vec![commit(1, by(&["ann"]), &[gone]), commit(2, by(&["bob"]), &[gone])];
    assert!(judged(&two, &range(&[], &[gone], both)).is_ok());
    assert!(judged(&two, &range(&[], &[gone], vec![commit(1, by(&["ann"]), &[gone])])).is_err());
}

#[test]
fn only_the_signers_that_a_rule_names_count_and_a_refusal_says_who_did() {
    let release = policy(None, &[("clusters/prod-*", &["*@release", "!x@release"], 2)]);
    let now = (PROD, state(7));
    let check = |signer| {
        let commits = vec![commit(1, by(&["ann@release"]), &[now]), commit(2, signer, &[now])];
        verify(id(2), &[&release], &range(&[], &[now], commits))
    };
    assert!(check(by(&["bob@release"])).is_ok());
    for (signer, expected) in [
        (by(&["bob@dev"]), "and 02020202 is signed with SHA256:bob@dev, which is bob@dev's"),
        (by(&["x@release"]), "which is x@release's"),
        (by(&[]), "whose line names nobody"),
        (NOBODY, "and 02020202 has no signature"),
    ] {
        let refusal = check(signer).unwrap_err();
        let text = refusal.to_string();
        assert!(text.contains("1 of 2 persons of *@release, !x@release (ann@release)"), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("signers.paths[0] of the operator (clusters/prod-*)"), "{text}");
        assert_eq!(refusal.commit, id(2));
    }
}

#[test]
fn an_approval_counts_from_a_signed_commit_only_where_anything_has_to_be_signed() {
    let elsewhere = policy(None, &[("clusters/prod-*", &[], 2)]);
    let file = ("approvals/0123", state(1));
    let check = |policy: &CompiledPolicy, change: (&str, FileState), signer| {
        judged(policy, &range(&[], &[change], vec![commit(1, signer, &[change])]))
    };
    assert!(check(&elsewhere, file, by(&["ann"])).is_ok());
    let refusal = check(&elsewhere, file, NOBODY).unwrap_err();
    assert!(
        refusal.contains("approvals/0123 is approved by a commit that has no signature"),
        "{refusal}"
    );
    assert!(check(&elsewhere, (file.0, None), NOBODY).is_ok(), "it approves nothing any more");
    assert!(check(&policy(None, &[]), file, NOBODY).is_ok());
}

#[test]
fn what_one_of_two_policies_refuses_is_refused() {
    let (one, other) =
        (policy(Some(VerifiedCommits::Commits), &[]), policy(None, &[("a", &[], 2)]));
    let change = ("a", state(1));
    let range = range(&[1], &[change], vec![commit(1, by(&["ann"]), &[change])]);
    assert!(verify(id(1), &[&one], &range).is_ok());
    assert!(verify(id(1), &[&one, &other], &range).is_err());
}
