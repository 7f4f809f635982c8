//! Kubernetes' URLs library. It accepts what Go accepts in a request: an absolute URL or a path.

use std::collections::HashMap;

use cel::common::types::{CelBool, CelMap, CelMapKey, CelString};
use cel::common::value::Val;
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::values::{failed, texts, value_type};

/// What Go escapes in a path.
const ESCAPED_IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The parts of a URL as written, except the scheme, which is in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

value_type!(Url, "kubernetes.URL");

/// Declares the functions.
///
/// # Errors
/// Fails if the environment already has one of them.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn url: (CelString) -> Result<Url>)?;
    add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    add_member_overload!(env, fn get_scheme: (Url) -> CelString)?;
    add_member_overload!(env, fn get_host: (Url) -> CelString)?;
    add_member_overload!(env, fn get_hostname: (Url) -> CelString)?;
    add_member_overload!(env, fn get_port: (Url) -> CelString)?;
    add_member_overload!(env, fn get_escaped_path: (Url) -> CelString)?;
    add_member_overload!(env, fn get_query: (Url) -> CelMap)
}

fn url(text: &CelString<'_>) -> Result<Url, ExecutionError> {
    parse(text.inner()).ok_or_else(|| failed("url", "the text is no URL"))
}

fn is_url(text: &CelString<'_>) -> CelBool {
    parse(text.inner()).is_some().into()
}

fn get_scheme(this: &Url) -> CelString<'static> {
    this.scheme.clone().into()
}

fn get_host(this: &Url) -> CelString<'static> {
    this.host.clone().into()
}

fn get_hostname(this: &Url) -> CelString<'static> {
    let (name, _) = split_port(&this.host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).to_owned().into()
}

fn get_port(this: &Url) -> CelString<'static> {
    split_port(&this.host).1.to_owned().into()
}

/// A colon within brackets belongs to an IPv6 address.
fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    }
}

fn get_escaped_path(this: &Url) -> CelString<'static> {
    let is_plain = |byte: u8| is_unreserved(byte) || b"!$&'()*+,;=:@[]%/".contains(&byte);
    if this.path.bytes().all(is_plain) {
        return this.path.clone().into();
    }
    let path = unescape(&this.path, false).unwrap_or_default();
    percent_encode(&path, ESCAPED_IN_PATHS).to_string().into()
}

fn get_query(this: &Url) -> CelMap<'static> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for pair in this.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = |part| unescape(part, true).and_then(|bytes| String::from_utf8(bytes).ok());
        if let (Some(key), Some(value)) = (text(key), text(value)) {
            found.entry(key).or_default().push(value);
        }
    }
    let entry = |(key, values): (String, Vec<String>)| {
        let list = texts(values.iter().map(String::as_str));
        (CelMapKey::from(key), Box::new(list) as Box<dyn Val>)
    };
    found.into_iter().map(entry).collect::<HashMap<_, _>>().into()
}

/// Parses a URL. Returns `None` for a relative path, a bad port, a bad escape, or an invalid host.
pub fn parse(text: &str) -> Option<Url> {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return None;
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let new = |host: &str, path: &str| Url {
        scheme: scheme.to_ascii_lowercase(),
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
    };
    if !rest.starts_with('/') {
        // With a scheme it is opaque, as in mailto:, and has neither host nor path.
        let is_fine = !scheme.is_empty() || rest == "*";
        return is_fine.then(|| new("", if rest == "*" { rest } else { "" }));
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (host_of(authority)?, path)
        }
        _ => ("", rest),
    };
    unescape(path, false)?;
    Some(new(host, path))
}

/// Splits off the scheme. Returns `None` if it is empty, as in `:a`.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    match end {
        Some(0) if text.starts_with(':') => None,
        Some(at) => {
            let (scheme, rest) = text.split_at(at);
            let Some(rest) = rest.strip_prefix(':') else { return Some(("", text)) };
            let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
            Some(if is_scheme { (scheme, rest) } else { ("", text) })
        }
        None => Some(("", text)),
    }
}

/// Returns the host and port after the user, if they are well-formed.
fn host_of(authority: &str) -> Option<&str> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let is_user = |byte: u8| is_unreserved(byte) || b"!$&'()*+,;=:%@".contains(&byte);
            if !user.bytes().all(is_user) {
                return None;
            }
            unescape(user, false)?;
            host
        }
        None => authority,
    };
    let port = if host.starts_with('[') {
        host.get(host.rfind(']')? + 1..)?
    } else {
        host.get(host.rfind(':').unwrap_or(host.len())..)?
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let is_host =
        |byte: u8| byte >= 0x80 || is_unreserved(byte) || b"!$&'()*+,;=:[]<>\"%".contains(&byte);
    (is_port && host.bytes().all(is_host) && unescape(host, false).is_some()).then_some(host)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

/// Returns `None` for a percent sign that two hexadecimal digits do not follow.
fn unescape(text: &str, plus_is_space: bool) -> Option<Vec<u8>> {
    let mut found = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        found.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    Some(found)
}
