//! The origin of a source's files: a repository, and the path in it. Pure.

use std::fmt;

use gitwork_yaml::is_dangerous;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::model::digest::Digest;
use crate::model::name::RepoPath;

/// A repository and a path in it, as one line without credentials. Two sources with equal origins
/// read the same files, apart from the ref.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourceOrigin(String);

/// A text that is no origin: empty, too long, or with characters that [`SourceOrigin::new`]
/// escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the origin of a source is one line of at most {} bytes", limits::ORIGIN_BYTES_MAX)]
pub struct InvalidOrigin;

impl SourceOrigin {
    /// The origin at a path of a repository. Different repositories must have different texts. A
    /// long text is cut, and ends with its digest.
    pub fn new(repository: &str, path: &RepoPath) -> Self {
        let full = escape(&format!("{repository} (path /{})", path.as_str()));
        if full.len() <= limits::ORIGIN_BYTES_MAX {
            return Self(full);
        }
        let end = format!("... (sha256 {})", Digest::of(full.as_bytes()));
        let mut kept = limits::ORIGIN_BYTES_MAX - end.len();
        while !full.is_char_boundary(kept) {
            kept -= 1;
        }
        Self(full.get(..kept).unwrap_or_default().to_owned() + &end)
    }

    /// Parses the text of an origin.
    pub fn parse(text: &str) -> Option<Self> {
        let is_line = !text.is_empty() && text.trim() == text && !text.contains(is_dangerous);
        let fits = is_line && text.len() <= limits::ORIGIN_BYTES_MAX;
        fits.then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text on one line. Different texts stay different.
fn escape(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.trim().chars() {
        if character == '\\' || is_dangerous(character) {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

impl TryFrom<String> for SourceOrigin {
    type Error = InvalidOrigin;

    fn try_from(text: String) -> Result<Self, InvalidOrigin> {
        Self::parse(&text).ok_or(InvalidOrigin)
    }
}

impl From<SourceOrigin> for String {
    fn from(origin: SourceOrigin) -> Self {
        origin.0
    }
}

impl fmt::Display for SourceOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_has_repository_and_path_on_one_bounded_line() {
        let root = RepoPath::root();
        let origin = |repository: &str| SourceOrigin::new(repository, &root);
        assert_eq!(origin("git.example/fleet").as_str(), "git.example/fleet (path /)");
        let below = SourceOrigin::new("git.example/fleet", &root.join("prod"));
        assert_eq!(below.as_str(), "git.example/fleet (path /prod)");
        assert_eq!(origin("/a\nb\u{202e}").as_str(), "/a\\nb\\u{202e} (path /)");
        assert_ne!(origin("/a\nb"), origin("/a\\nb"));
        let [long, other] = ["a", "b"].map(|end| origin(&format!("/{}{end}", "ü".repeat(4_000))));
        assert!(long.as_str().len() <= limits::ORIGIN_BYTES_MAX && long != other, "{long}");
        for one in [long, below] {
            assert_eq!(SourceOrigin::parse(one.as_str()), Some(one.clone()));
            let json = serde_json::to_string(&one).unwrap();
            assert_eq!(serde_json::from_str::<SourceOrigin>(&json).unwrap(), one);
        }
        for bad in ["", " a", "a\nb", "a\u{202e}", &"a".repeat(limits::ORIGIN_BYTES_MAX + 1)] {
            assert_eq!(SourceOrigin::parse(bad), None, "{bad:?}");
        }
    }
}
