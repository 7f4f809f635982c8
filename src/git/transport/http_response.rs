//! The head and the body of an HTTP/1.1 response.

use std::io::{self, BufRead, BufReader, Read};

use super::http_connection::{HttpConnection, broken};
use crate::address::HttpAddress;
use crate::error::FetchError;
use crate::limits;

/// A response whose body is still to be read.
pub(super) struct HttpResponse {
    pub status: u16,
    /// Names in lower case, in the order of the response.
    pub headers: Vec<(String, String)>,
    connection: BufReader<HttpConnection>,
    framing: Framing,
}

/// How the end of a body is recognized (RFC 9112, section 6.3).
enum Framing {
    Length(u64),
    Chunked { left: u64, first: bool },
    ToEnd,
    Ended,
}

impl HttpResponse {
    /// Reads the head of a response; the body follows through [`Read`].
    pub fn receive(
        mut connection: BufReader<HttpConnection>,
        address: &HttpAddress,
    ) -> Result<Self, FetchError> {
        let (status, headers) = read_head(&mut connection, address)?;
        let framing = framing(&headers, address)?;
        Ok(Self { status, headers, connection, framing })
    }

    /// The first header of a name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

fn read_head(
    connection: &mut BufReader<HttpConnection>,
    address: &HttpAddress,
) -> Result<(u16, Vec<(String, String)>), FetchError> {
    let bad = |problem| FetchError::Http { host: address.authority(), problem };
    let mut left = limits::HTTP_HEAD_BYTES_MAX;
    loop {
        let first = read_line(connection, &mut left, address)?;
        let mut words = first.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        let status = words.next().and_then(|code| code.parse::<u16>().ok());
        let (true, Some(status)) = (version.starts_with("HTTP/1."), status) else {
            return Err(bad("its response does not start with a status line"));
        };
        let mut headers = Vec::new();
        loop {
            let line = read_line(connection, &mut left, address)?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| bad("a header line has no colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        // Interim responses (1xx) come before the final one.
        if status >= 200 {
            return Ok((status, headers));
        }
    }
}

fn read_line(
    connection: &mut BufReader<HttpConnection>,
    left: &mut usize,
    address: &HttpAddress,
) -> Result<String, FetchError> {
    let mut line = Vec::new();
    let bounded = &mut connection.by_ref().take(*left as u64);
    bounded.read_until(b'\n', &mut line).map_err(|e| broken(address, e))?;
    *left -= line.len().min(*left);
    if line.last() != Some(&b'\n') {
        let host = address.authority();
        return Err(if *left == 0 {
            FetchError::Http { host, problem: "the head of its response is too long" }
        } else {
            FetchError::Connection { host, source: io::ErrorKind::UnexpectedEof.into() }
        });
    }
    let text = String::from_utf8_lossy(&line);
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn framing(headers: &[(String, String)], address: &HttpAddress) -> Result<Framing, FetchError> {
    let bad = |problem| FetchError::Http { host: address.authority(), problem };
    if let Some(coding) = header(headers, "transfer-encoding") {
        return if coding.eq_ignore_ascii_case("chunked") {
            Ok(Framing::Chunked { left: 0, first: true })
        } else {
            Err(bad("it uses a transfer encoding that was not requested"))
        };
    }
    match header(headers, "content-length") {
        Some(length) => length
            .parse()
            .map(Framing::Length)
            .map_err(|_| bad("its content length is not a number")),
        None => Ok(Framing::ToEnd),
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

impl Read for HttpResponse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match &mut self.framing {
            Framing::Ended => Ok(0),
            Framing::ToEnd => self.connection.read(buffer),
            Framing::Length(left) => {
                let count = read_part(&mut self.connection, buffer, *left)?;
                *left -= count as u64;
                Ok(count)
            }
            Framing::Chunked { left, first } => {
                if *left == 0 {
                    if !*first {
                        chunk_line(&mut self.connection)?;
                    }
                    *first = false;
                    *left = chunk_size(&chunk_line(&mut self.connection)?)?;
                    if *left == 0 {
                        // Trailers are ignored: the connection is not reused.
                        self.framing = Framing::Ended;
                        return Ok(0);
                    }
                }
                let count = read_part(&mut self.connection, buffer, *left)?;
                *left -= count as u64;
                Ok(count)
            }
        }
    }
}

/// Reads at most `left` bytes; an earlier end is an error.
fn read_part(
    connection: &mut BufReader<HttpConnection>,
    buffer: &mut [u8],
    left: u64,
) -> io::Result<usize> {
    if left == 0 {
        return Ok(0);
    }
    let count = connection.by_ref().take(left).read(buffer)?;
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
}

fn chunk_line(connection: &mut BufReader<HttpConnection>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    connection.by_ref().take(1024).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line)
}

fn chunk_size(line: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(line);
    let digits = text.split(';').next().unwrap_or_default().trim();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    u64::from_str_radix(digits, 16).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_are_hexadecimal() {
        for (line, expected) in [
            (&b"1a\r"[..], Some(26)),
            (b"0;name=value\r", Some(0)),
            (b"\r", None),
            (b"+5\r", None),
            (b"fffffffffffffffff\r", None),
        ] {
            assert_eq!(chunk_size(line).ok(), expected);
        }
    }

    #[test]
    fn framing_follows_the_headers() {
        let address = HttpAddress { tls: true, host: "h".into(), port: 443, path: String::new() };
        let headers = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let length = framing(&headers("content-length", "7"), &address);
        assert!(matches!(length, Ok(Framing::Length(7))));
        assert!(framing(&headers("content-length", "-7"), &address).is_err());
        let chunked = framing(&headers("transfer-encoding", "Chunked"), &address);
        assert!(matches!(chunked, Ok(Framing::Chunked { .. })));
        assert!(framing(&headers("transfer-encoding", "gzip, chunked"), &address).is_err());
        assert!(matches!(framing(&[], &address), Ok(Framing::ToEnd)));
    }
}
