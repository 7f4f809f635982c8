//! The addresses of repositories and proxies: URLs, parsed.

use std::fmt;
use std::path::PathBuf;

use super::error::UrlError;
use gitwork_core::limits;

/// A parsed repository URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Http(HttpAddress),
    Ssh { user: String, host: String, port: u16, path: String },
    Local(PathBuf),
}

/// An http or https URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpAddress {
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// Starts with `/`, and does not end with `/`.
    pub path: String,
}

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProxyAddress {
    pub host: String,
    pub port: u16,
    /// `user:password`; never shown.
    pub credentials: Option<String>,
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl HttpAddress {
    /// The `Host` header: the host and, unless it is the scheme's default, the port.
    pub fn authority(&self) -> String {
        let default_port = if self.tls { 443 } else { 80 };
        let host = bracketed(&self.host);
        if self.port == default_port { host } else { format!("{host}:{}", self.port) }
    }

    pub fn same_origin(&self, other: &Self) -> bool {
        self.tls == other.tls
            && self.host.eq_ignore_ascii_case(&other.host)
            && self.port == other.port
    }

    /// Reads what follows `http://` or `https://`.
    fn parse(text: &str, tls: bool, shown: &str) -> Result<Self, UrlError> {
        let malformed = |problem| UrlError::Malformed { shown: shown.to_owned(), problem };
        if text.contains(['?', '#']) {
            return Err(malformed(
                "has a query or a fragment, which a repository URL must not have",
            ));
        }
        let (authority, path) = split_authority(text);
        if authority.contains('@') {
            return Err(UrlError::Credentials { shown: shown.to_owned() });
        }
        let (host, port) = host_and_port(authority).map_err(|error| malformed(error.problem()))?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host, port, path: path.trim_end_matches('/').to_owned() })
    }

    /// Reads a redirect's target.
    pub fn parse_url(url: &str) -> Result<Self, UrlError> {
        let shown = without_userinfo(url);
        match url.split_once("://") {
            Some(("https", rest)) => Self::parse(rest, true, &shown),
            Some(("http", rest)) => Self::parse(rest, false, &shown),
            _ => Err(UrlError::Malformed { shown, problem: "is neither http nor https" }),
        }
    }
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let shown = without_userinfo(url);
        let malformed = |problem| UrlError::Malformed { shown: shown.clone(), problem };
        if url.is_empty() {
            return Err(malformed("is empty"));
        }
        if url.chars().any(char::is_control) || (url.contains("://") && url.contains(' ')) {
            return Err(malformed("has a space or a control character"));
        }
        match url.split_once("://") {
            Some(("https", rest)) => Ok(Self::Http(HttpAddress::parse(rest, true, &shown)?)),
            Some(("http", rest)) => Ok(Self::Http(HttpAddress::parse(rest, false, &shown)?)),
            Some(("ssh", rest)) => {
                let (authority, path) = split_authority(rest);
                if path.len() < 2 {
                    return Err(malformed("has no path"));
                }
                // `/~user/` is a path in a home folder.
                let path = if path.starts_with("/~") { &path[1..] } else { path };
                ssh(authority, path, &shown)
            }
            Some(("file", rest)) if rest.starts_with('/') => Ok(Self::Local(PathBuf::from(rest))),
            Some(("file", _)) => Err(malformed("has a host; write file:///path")),
            Some((scheme, _)) => {
                Err(UrlError::Scheme { shown: shown.clone(), scheme: scheme.to_owned() })
            }
            None => match url.split_once(':') {
                Some((authority, path)) if !authority.contains('/') => {
                    if path.is_empty() {
                        return Err(malformed("has no path"));
                    }
                    ssh(authority, path, &shown)
                }
                _ => {
                    let path = std::path::absolute(url)
                        .map_err(|_| malformed("is a path that has no absolute form"))?;
                    Ok(Self::Local(path))
                }
            },
        }
    }
}

impl ProxyAddress {
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let problem = |problem| UrlError::Proxy { shown: without_userinfo(url), problem };
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| problem("must start with http://; other proxies are not supported"))?;
        let (authority, path) = split_authority(rest);
        if path.len() > 1 {
            return Err(problem("has a path"));
        }
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(percent_decode(credentials)), host),
            None => (None, authority),
        };
        let (host, port) = host_and_port(host).map_err(|error| problem(error.problem()))?;
        Ok(Self { host, port: port.unwrap_or(80), credentials })
    }

    /// Host and port, without credentials.
    pub fn shown(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }
}

fn ssh(authority: &str, path: &str, shown: &str) -> Result<Address, UrlError> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("git", authority));
    if user.contains(':') {
        return Err(UrlError::Credentials { shown: shown.to_owned() });
    }
    let malformed = |problem| UrlError::Malformed { shown: shown.to_owned(), problem };
    let (host, port) = host_and_port(host).map_err(|error| malformed(error.problem()))?;
    Ok(Address::Ssh {
        user: percent_decode(user),
        host,
        port: port.unwrap_or(22),
        path: path.to_owned(),
    })
}

fn split_authority(text: &str) -> (&str, &str) {
    text.find('/').and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""))
}

/// What is wrong with a host and its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthorityError {
    /// `[` of an IPv6 address without `]`.
    OpenBracket,
    /// The host is empty or has an invalid character.
    Host,
    /// The port is no number below 65,536.
    Port,
}

impl AuthorityError {
    /// The problem, as it follows the URL in a message.
    fn problem(self) -> &'static str {
        match self {
            Self::OpenBracket => "has `[` without `]`",
            Self::Host => "has no valid host name",
            Self::Port => "has no valid port",
        }
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), AuthorityError> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(AuthorityError::OpenBracket)?;
        (host, after.strip_prefix(':'))
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if host.is_empty() || host.starts_with('-') || !host.chars().all(allowed) {
        return Err(AuthorityError::Host);
    }
    let port = match port {
        None | Some("") => None,
        Some(text) => Some(text.parse::<u16>().map_err(|_| AuthorityError::Port)?),
    };
    Ok((host.to_owned(), port))
}

/// The host as it appears before a port: an IPv6 address in brackets.
pub(crate) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The URL for messages, without the parts that may be secrets: user information and query.
pub(crate) fn without_userinfo(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let clean: String = format!("{scheme}{host}{path}")
        .chars()
        .filter(|c| !c.is_control())
        .take(limits::PATH_BYTES_MAX)
        .collect();
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_parse_as_in_git() {
        let http = |tls, host: &str, port, path: &str| {
            Address::Http(HttpAddress { tls, host: host.into(), port, path: path.into() })
        };
        let ssh = |user: &str, host: &str, port, path: &str| Address::Ssh {
            user: user.into(),
            host: host.into(),
            port,
            path: path.into(),
        };
        for (url, expected) in [
            ("https://example.com/a/b.git/", http(true, "example.com", 443, "/a/b.git")),
            ("http://127.0.0.1:8080/b", http(false, "127.0.0.1", 8080, "/b")),
            ("https://[::1]:8443/b", http(true, "::1", 8443, "/b")),
            ("ssh://git@example.com/a.git", ssh("git", "example.com", 22, "/a.git")),
            ("ssh://me@[::1]:2222/a", ssh("me", "::1", 2222, "/a")),
            ("ssh://example.com/~me/a", ssh("git", "example.com", 22, "~me/a")),
            ("git@example.com:org/a.git", ssh("git", "example.com", 22, "org/a.git")),
            ("file:///srv/a.git", Address::Local("/srv/a.git".into())),
            ("/srv/a:b.git", Address::Local("/srv/a:b.git".into())),
        ] {
            assert_eq!(Address::parse(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn invalid_urls_are_refused_without_showing_secrets() {
        for url in [
            "https://me:s3cret@example.com/a",
            "https://s3cret@example.com/a",
            "ssh://git:s3cret@example.com/a",
            "https://example.com/a?token=s3cret",
            "ftp://me:s3cret@example.com/a",
            "https://",
            "ssh://host",
            "git@host:",
            "file://host/a",
            "https://exa mple.com/a",
            "https://example.com:port/",
            "ssh://-oProxyCommand=x/a",
            "",
        ] {
            let error = Address::parse(url).expect_err(url);
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn proxy_credentials_are_never_shown() {
        let proxy = ProxyAddress::parse("http://me:p%40ss@proxy:3128").unwrap();
        assert_eq!(proxy.credentials.as_deref(), Some("me:p@ss"));
        assert_eq!(proxy.shown(), "proxy:3128");
        let error = ProxyAddress::parse("socks5://me:s3cret@proxy").err().unwrap();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
