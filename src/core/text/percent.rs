//! Percent-encoding of URL paths.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes one path segment.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Percent-encodes a path, segment by segment.
pub fn encoded_path(path: &str) -> String {
    path.split('/').map(encoded).collect::<Vec<_>>().join("/")
}
