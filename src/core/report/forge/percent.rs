//! Percent-encoding of URL paths.

/// Percent-encodes one path segment (RFC 3986; unreserved characters stay).
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Percent-encodes a path, segment by segment.
pub(super) fn encoded_path(path: &str) -> String {
    path.split('/').map(encoded).collect::<Vec<_>>().join("/")
}
