//! Splits the URL of a repository.

/// The parts of a repository's URL. Unlike Git's own parser it accepts local paths, as `None`.
pub(super) struct RepositoryUrl<'a> {
    pub(super) scheme: &'a str,
    /// The host, with the port if it is an HTTP port.
    pub(super) authority: &'a str,
    pub(super) segments: Vec<&'a str>,
}

impl<'a> RepositoryUrl<'a> {
    /// Reads `https://host/path`, `ssh://user@host:port/path` and `user@host:path`.
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("https" | "http"), rest)) => (scheme, rest),
            Some(("ssh", rest)) => ("https", rest),
            Some(_) => return None,
            None => {
                let (host, path) = url.split_once(':').filter(|(host, _)| !host.contains('/'))?;
                let authority = host.rsplit_once('@').map_or(host, |(_, host)| host);
                if !is_authority(authority) {
                    return None;
                }
                return Some(Self { scheme: "https", authority, segments: segments(path) });
            }
        };
        let (authority, path) = rest.split_once('/')?;
        let mut authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if url.starts_with("ssh") {
            // The port is for SSH. The API has another one.
            authority = match authority.rsplit_once(':') {
                Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
                _ => authority,
            };
        }
        is_authority(authority).then(|| Self { scheme, authority, segments: segments(path) })
    }
}

/// Whether the text is a host name or address, with or without a port. URL parsers disagree about
/// any other character.
pub(super) fn is_authority(text: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    !text.is_empty() && text.chars().all(fits)
}

fn segments(path: &str) -> Vec<&str> {
    let path = path.trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path).split('/').filter(|part| !part.is_empty()).collect()
}
