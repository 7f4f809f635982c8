//! OpenSSH's `known_hosts` files (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): strict checking against
//! the text of one file. `@cert-authority` lines are ignored: host certificates are not supported.
//!
//! The parsers of `ssh-key` and `russh` skip a line with a tab or two spaces as invalid, so also
//! one that revokes a key, and have no patterns.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY};

/// The result of checking a host key. Line numbers start at 1.
#[derive(Debug, PartialEq, Eq)]
pub enum HostKeyCheck {
    /// A line has this host and this key.
    Known,
    /// No line has this host.
    Unknown,
    /// Lines have this host, this one first, but none has this key.
    Changed { line: usize },
    /// The line revokes this key.
    Revoked { line: usize },
}

struct Line<'a> {
    number: usize,
    marker: Option<&'a str>,
    hosts: &'a str,
    kind: &'a str,
    key: Vec<u8>,
}

/// The host's name in the file.
pub fn name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

/// Checks the key that a host offers.
pub fn check(text: &str, name: &str, key: &[u8]) -> HostKeyCheck {
    let mut known = false;
    let mut other = None;
    for line in lines(text).filter(|line| hosts_match(line.hosts, name)) {
        match line.marker {
            Some("@revoked") if line.key == key => {
                return HostKeyCheck::Revoked { line: line.number };
            }
            Some(_) => {}
            None if line.key == key => known = true,
            None => other = other.or(Some(line.number)),
        }
    }
    match (known, other) {
        (true, _) => HostKeyCheck::Known,
        (false, Some(line)) => HostKeyCheck::Changed { line },
        (false, None) => HostKeyCheck::Unknown,
    }
}

/// The key types that the file has for a host, to request one of them.
pub fn kinds(text: &str, name: &str) -> Vec<String> {
    lines(text)
        .filter(|line| line.marker.is_none() && hosts_match(line.hosts, name))
        .map(|line| line.kind.to_owned())
        .collect()
}

/// The key type inside a public key (RFC 4253, section 6.6).
pub fn kind(key: &[u8]) -> String {
    let length = key.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes) as usize);
    let kind = key.get(4..).and_then(|rest| rest.get(..length)).unwrap_or_default();
    String::from_utf8_lossy(kind).chars().filter(char::is_ascii_graphic).take(64).collect()
}

/// The line to add to the file.
pub fn line(name: &str, key: &[u8]) -> String {
    format!("{name} {} {}", kind(key), STANDARD.encode(key))
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let mut words = line.split_whitespace().peekable();
        let marker = words.next_if(|word| word.starts_with('@'));
        let hosts = words.next().filter(|word| !word.starts_with('#'))?;
        let kind = words.next()?;
        let key = STANDARD.decode(words.next()?).ok()?;
        Some(Line { number: index + 1, marker, hosts, kind, key })
    })
}

fn hosts_match(hosts: &str, name: &str) -> bool {
    if hosts.starts_with('|') {
        return hash_matches(hosts, name);
    }
    let mut found = false;
    for pattern in hosts.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if matches(pattern, name) => return false,
            Some(_) => {}
            None => found |= matches(pattern, name),
        }
    }
    found
}

/// Whether a pattern matches: `*` is any characters, `?` is one. At worst linear in the product of
/// both lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_ascii_lowercase().chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, seen));
                at += 1;
            }
            Some(c) if *c == '?' || name.get(seen) == Some(c) => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, seen) = (after, from + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|c| *c == '*')
}

/// Whether a hashed name, `|1|salt|HMAC-SHA1(salt, name)`, is the host's.
fn hash_matches(hosts: &str, name: &str) -> bool {
    let compare = || {
        let (salt, hash) = hosts.strip_prefix("|1|")?.split_once('|')?;
        let key = hmac::Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &STANDARD.decode(salt).ok()?);
        hmac::verify(&key, name.as_bytes(), &STANDARD.decode(hash).ok()?).ok()
    };
    compare().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJ8Ye7DdpNFOp7/5cWDHSR3cbU7SwSW0bDjbcsyVXkQL";
    const OTHER: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn key() -> Vec<u8> {
        STANDARD.decode(KEY).unwrap()
    }

    #[test]
    fn lines_match_hosts_as_in_openssh() {
        for (hosts, place, expected) in [
            ("example.com", ("example.com", 22), true),
            ("example.com", ("Example.COM", 22), true),
            ("example.com", ("example.com", 2222), false),
            ("[example.com]:2222", ("example.com", 2222), true),
            ("a,example.com,b", ("example.com", 22), true),
            ("*.example.com", ("git.example.com", 22), true),
            ("*.example.com,!git.example.com", ("git.example.com", 22), false),
            ("g?t.*", ("git.example.com", 22), true),
            ("*", ("x", 22), true),
            ("*a*b", ("xaxbx", 22), false),
        ] {
            let text = format!("# comment\n\n{hosts} ssh-ed25519 {KEY} comment\n");
            let verdict = check(&text, &name(place.0, place.1), &key());
            let expected = if expected { HostKeyCheck::Known } else { HostKeyCheck::Unknown };
            assert_eq!(verdict, expected, "{hosts} {place:?}");
        }
    }

    #[test]
    fn changed_and_revoked_keys_are_distinguished() {
        let changed = format!("h ssh-ed25519 {OTHER}\n");
        assert_eq!(check(&changed, "h", &key()), HostKeyCheck::Changed { line: 1 });
        let both = format!("h ssh-ed25519 {OTHER}\nh ssh-ed25519 {KEY}\n");
        assert_eq!(check(&both, "h", &key()), HostKeyCheck::Known);
        let revoked = format!("{both}@revoked * ssh-ed25519 {KEY}\n");
        assert_eq!(check(&revoked, "h", &key()), HostKeyCheck::Revoked { line: 3 });
        let authority = format!("@cert-authority * ssh-ed25519 {KEY}\n");
        assert_eq!(check(&authority, "h", &key()), HostKeyCheck::Unknown);
        assert_eq!(kinds(&both, "h"), ["ssh-ed25519", "ssh-ed25519"]);
    }

    #[test]
    fn malformed_lines_are_ignored() {
        for text in
            ["h", "h ssh-ed25519", "h ssh-ed25519 ???", "|1|x|y ssh-ed25519 AAAA", "@revoked"]
        {
            assert_eq!(check(text, "h", &key()), HostKeyCheck::Unknown, "{text}");
        }
        assert_eq!(kind(b""), "");
        assert_eq!(kind(&[255, 255, 255, 255, 1]), "");
        assert_eq!(kind(&key()), "ssh-ed25519");
    }
}
