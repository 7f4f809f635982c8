//! One text for the URLs of one repository.

use std::path::{Path, PathBuf};

use super::address::{Address, bracketed, without_userinfo};

/// The repository that a URL names, as `host/path` or as its absolute path on disk. https, http,
/// ssh and the short form `git@host:path` give one text, with and without `.git`. There are no
/// credentials in it. A relative path on disk starts from `base`.
pub fn canonical_repository(url: &str, base: &Path) -> String {
    // The URL of a clone's remote may have credentials.
    match Address::parse(url).or_else(|_| Address::parse(&without_userinfo(url))) {
        Ok(Address::Http(http)) => on_host(&http.authority(), &http.path),
        Ok(Address::Ssh { user, host, port, path }) => {
            let host = bracketed(&host);
            let authority = if port == 22 { host } else { format!("{host}:{port}") };
            on_host(&authority, &ssh_path(&user, &path))
        }
        Ok(Address::Local(path)) if url.starts_with("file://") => canonical_path(&path),
        Ok(Address::Local(_)) => canonical_path(&base.join(url)),
        Err(_) => without_userinfo(url),
    }
}

fn on_host(authority: &str, path: &str) -> String {
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    format!("{}/{path}", authority.to_ascii_lowercase())
}

/// The path as all users name it. Git hosts have one user, `git`, for all repositories; on other
/// hosts a relative path starts from the user's home folder.
fn ssh_path(user: &str, path: &str) -> String {
    let in_home = match path.strip_prefix("~/") {
        Some(path) => path,
        None if path.starts_with(['/', '~']) => return path.to_owned(),
        None => path,
    };
    if user == "git" { in_home.to_owned() } else { format!("~{user}/{in_home}") }
}

/// The absolute path without symbolic links, as text. Different paths give different texts. A path
/// that does not exist is taken as it is.
pub fn canonical_path(path: &Path) -> String {
    let mut with_suffix = path.as_os_str().to_owned();
    with_suffix.push(".git");
    let found = path.canonicalize().or_else(|_| PathBuf::from(with_suffix).canonicalize());
    let mut found = found.unwrap_or_else(|_| path.to_owned());
    if found.file_name().is_some_and(|name| name == ".git") {
        found.pop();
    }
    match found.to_str() {
        Some(text) => text.to_owned(),
        None => format!("bytes {}", found.as_os_str().as_encoded_bytes().escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_urls_of_a_repository_give_one_text_without_credentials() {
        for url in [
            "https://git.example/team/fleet.git",
            "https://Git.Example:443/team/fleet/",
            "https://me:s3cret@git.example/team/fleet",
            "http://git.example/team/fleet.git",
            "git@git.example:team/fleet.git",
            "git.example:/team/fleet",
            "ssh://git@git.example/team/fleet",
            "ssh://ann@git.example:22/team/fleet.git",
        ] {
            let text = canonical_repository(url, Path::new("/"));
            assert_eq!(text, "git.example/team/fleet", "{url}");
        }
        for (url, expected) in [
            ("https://git.example:8443/fleet", "git.example:8443/fleet"),
            ("ssh://git@[::1]:2222/fleet", "[::1]:2222/fleet"),
            ("ann@git.example:fleet", "git.example/~ann/fleet"),
            ("ssh://bob@git.example/~/fleet", "git.example/~bob/fleet"),
            ("ssh://git.example/~ann/fleet", "git.example/~ann/fleet"),
            ("git://me:s3cret@git.example/fleet", "git://git.example/fleet"),
        ] {
            assert_eq!(canonical_repository(url, Path::new("/")), expected, "{url}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_that_are_no_text_stay_different() {
        use std::os::unix::ffi::OsStrExt as _;
        let text = |bytes: &[u8]| canonical_path(Path::new(std::ffi::OsStr::from_bytes(bytes)));
        assert_ne!(text(b"/none/\xff"), text(b"/none/\xfe"));
    }
}
