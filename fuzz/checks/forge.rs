//! A byte for the forge, then a repository's URL. A status goes to the URL's own host, and nowhere
//! else.

use gitwork_core::config::commit_status::Provider;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_report::forge::address::TargetSettings;
use gitwork_report::forge::{CommitState, CommitStatus, ForgeTarget, WebPages, request};
use gitwork_yaml::is_dangerous;

/// Forges whose API has another host than their repositories.
const ELSEWHERE: [&str; 3] = ["api.github.com", "api.bitbucket.org", "dev.azure.com"];

/// The host of a request's URL: no user, no odd characters before the path.
fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    rest.split(['/', '?', '#', '\\']).next()
}

pub fn check(bytes: &[u8]) -> bool {
    let Some((first, rest)) = bytes.split_first() else { return false };
    let Ok(url) = std::str::from_utf8(rest) else { return false };
    let (provider, _) = Provider::ALL[usize::from(*first) % Provider::ALL.len()];
    let commit = CommitId::parse(&"ab".repeat(20)).unwrap();
    if let Some(pages) = WebPages::of(Some(provider), url) {
        let path = RepoPath::root().join("clusters").join("a b&c\"d");
        for page in [pages.commit(commit), pages.folder(commit, &path)] {
            assert!(page.starts_with("https://") || page.starts_with("http://"), "{page}");
            assert!(page.contains(&commit.to_string()), "{page}");
        }
    }
    let settings = TargetSettings { context: "gitwork", ..TargetSettings::default() };
    let Ok(target) = ForgeTarget::new(provider, url, &settings) else { return false };
    let part = Some("edge-1".repeat(20));
    let description = format!("{url}\u{1b}[2J");
    let status = CommitStatus { part, commit, state: CommitState::Failure, description };
    let sent = request(&target, &status);
    let there = host(&sent.url).unwrap();
    assert!(sent.url.starts_with(&target.api_url), "{}", sent.url);
    assert!(ELSEWHERE.contains(&there) || url.contains(there), "{there} is not the host of {url}");
    assert!(!there.is_empty() && !there.contains('@'), "{}", sent.url);
    let path = &sent.url[target.api_url.len()..];
    assert!(!path.contains("/../") && !path.contains("/./") && !path.contains('#'), "{path}");
    assert!(!path.chars().any(|c| c.is_control() || c.is_whitespace()), "{path}");
    let description = sent.body["description"].as_str().unwrap();
    assert!(description.chars().count() <= provider.description_chars_max());
    assert!(!description.chars().any(is_dangerous), "{description:?}");
    assert!(target.context_of(&status).chars().count() <= provider.context_chars_max());
    true
}
