//! The reason why an SSH server ended the channel without an answer.

use crate::error::FetchError;

/// The words for a missing repository, in lower case. Neither SSH nor Git's protocol has a code for
/// it: `git-upload-pack` writes a text to stderr and exits with 128 for any reason. The texts are
/// those of Git, GitHub and GitLab.
const MISSING: [&str; 3] = ["not appear to be a git repository", "not found", "does not exist"];

/// Reads what the server wrote to stderr.
pub(super) fn read(stderr: &[u8], url: String) -> FetchError {
    let text = String::from_utf8_lossy(stderr);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let message = match text.trim() {
        "" => "nothing, and closed the connection",
        message => message,
    };
    let lower = message.to_ascii_lowercase();
    if MISSING.iter().any(|words| lower.contains(words)) {
        return FetchError::RepositoryMissing { url };
    }
    FetchError::Refused { url, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_repository_is_distinguished_from_other_refusals() {
        let read = |text: &str| read(text.as_bytes(), "ssh://host/a".into());
        for text in [
            "fatal: '/a' does not appear to be a git repository",
            "ERROR: Repository not found.\n",
            "ERROR: The project you were looking for could not be found or does not exist",
        ] {
            let error = read(text);
            assert!(matches!(error, FetchError::RepositoryMissing { .. }), "{text}: {error}");
        }
        assert_eq!(read("bye\r\n").to_string(), "ssh://host/a answered: bye");
        let silent = "ssh://host/a answered: nothing, and closed the connection";
        assert_eq!(read("").to_string(), silent);
    }
}
