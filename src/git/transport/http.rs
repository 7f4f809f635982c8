//! Git's smart HTTP protocol (gitprotocol-http): HTTP/1.1, one connection for each request, since a fetch is
//! two or three of them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};

use super::attempt::Attempt;
use super::tcp::{Wire, proxy_authorization};
use super::tls::{Secure, secure, tls_error};
use crate::git::error::FetchError;
use crate::git::remote::{Auth, HttpAddress, ProxyAddress, read_secret};
use crate::limits;

/// The service at the other end: what fetches is `git-upload-pack`, what pushes `git-receive-pack`.
#[derive(Debug, Clone, Copy)]
struct Program {
    list: &'static str,
    pack: &'static str,
    name: &'static str,
}

const UPLOAD: Program = Program {
    list: "/info/refs?service=git-upload-pack",
    pack: "/git-upload-pack",
    name: "git-upload-pack",
};
const RECEIVE: Program = Program {
    list: "/info/refs?service=git-receive-pack",
    pack: "/git-receive-pack",
    name: "git-receive-pack",
};

pub struct HttpTransport {
    attempt: Arc<Attempt>,
    /// Where the repository is, after redirects.
    place: Mutex<HttpAddress>,
}

/// One request with its answer.
struct Exchange {
    attempt: Arc<Attempt>,
    place: HttpAddress,
    program: Program,
    body: Vec<u8>,
    answer: Option<Answer>,
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    connection: BufReader<Connection>,
    framing: Framing,
}

enum Connection {
    Plain(Wire),
    Tls(Box<Secure>),
}

/// How the end of a body is known (RFC 9112, section 6.3).
enum Framing {
    Length(u64),
    Chunked { left: u64, first: bool },
    ToTheEnd,
    Ended,
}

impl HttpTransport {
    pub fn new(attempt: Arc<Attempt>, place: HttpAddress) -> Self {
        Self { attempt, place: Mutex::new(place) }
    }

    /// Asks for the references, following redirects.
    fn list(&self, program: Program) -> Result<Exchange, FetchError> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..=limits::HTTP_REDIRECTS_MAX {
            let answer = send(&self.attempt, &place, program, None)?;
            if !(300..400).contains(&answer.status) {
                accept(&self.attempt, &place, &answer, program, "advertisement")?;
                let attempt = Arc::clone(&self.attempt);
                let place = place.clone();
                let (body, answer) = (Vec::new(), Some(answer));
                return Ok(Exchange { attempt, place, program, body, answer });
            }
            *place = redirected(&self.attempt, &place, program, &answer)?;
        }
        Err(FetchError::Redirect {
            url: self.attempt.url(),
            target: place.to_string(),
            why: "there are too many redirects",
        })
    }
}

impl SmartSubtransport for HttpTransport {
    fn action(
        &self,
        _: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let program = match service {
            Service::UploadPackLs | Service::UploadPack => UPLOAD,
            Service::ReceivePackLs | Service::ReceivePack => RECEIVE,
        };
        if matches!(service, Service::UploadPackLs | Service::ReceivePackLs) {
            return match self.list(program) {
                Ok(exchange) => Ok(Box::new(exchange)),
                Err(error) => Err(git2::Error::from_str(&self.attempt.fail(error).to_string())),
            };
        }
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let attempt = Arc::clone(&self.attempt);
        Ok(Box::new(Exchange { attempt, place, program, body: Vec::new(), answer: None }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            None => {
                let Self { attempt, place, program, body, .. } = &*self;
                let answer = send(attempt, place, *program, Some(body))
                    .and_then(|a| accept(attempt, place, &a, *program, "result").map(|()| a))
                    .map_err(|e| self.attempt.fail(e))?;
                self.answer.insert(answer)
            }
        };
        answer.read(buffer).map_err(|e| {
            let error = broken(&self.place, e);
            self.attempt.fail(error)
        })
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(wire) => wire.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(wire) => wire.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(wire) => wire.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

fn broken(place: &HttpAddress, error: io::Error) -> FetchError {
    let host = place.authority();
    match tls_error(&error) {
        Some(source) => FetchError::Tls { host, source: Box::new(source) },
        None => FetchError::Connection { host, source: error },
    }
}

/// Sends one request, which lists references unless it has a body, and reads the head of its answer.
fn send(
    attempt: &Arc<Attempt>,
    place: &HttpAddress,
    program: Program,
    body: Option<&[u8]>,
) -> Result<Answer, FetchError> {
    let (method, what) =
        if body.is_some() { ("POST", program.pack) } else { ("GET", program.list) };
    let failed = |e| broken(place, e);
    let (mut connection, target, proxy) = match &attempt.proxy {
        // A proxy makes plain requests itself (RFC 9112, section 3.2.2).
        Some(proxy) if !place.tls => {
            let wire = Wire::to_proxy(attempt, proxy)?;
            let target = format!("{place}{what}");
            (Connection::Plain(wire), target, proxy_authorization(proxy))
        }
        _ => {
            let wire = Wire::open(attempt, &place.host, place.port)?;
            let connection = if place.tls {
                Connection::Tls(Box::new(secure(attempt, wire, &place.host)?))
            } else {
                Connection::Plain(wire)
            };
            (connection, format!("{}{what}", place.path), String::new())
        }
    };
    let mut head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         User-Agent: git/2.0 (gitwork {})\r\n{proxy}{}",
        place.authority(),
        env!("CARGO_PKG_VERSION"),
        authorization(attempt)?,
    );
    if let Some(body) = body {
        head.push_str(&format!("Content-Type: application/x-{}-request\r\n", program.name));
        head.push_str(&format!("Accept: application/x-{}-result\r\n", program.name));
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    connection.write_all(head.as_bytes()).map_err(failed)?;
    connection.write_all(body.unwrap_or_default()).map_err(failed)?;
    connection.flush().map_err(failed)?;
    let mut connection = BufReader::with_capacity(64 * 1024, connection);
    let (status, headers) = read_head(&mut connection, place)?;
    let framing = framing(&headers, place)?;
    Ok(Answer { status, headers, connection, framing })
}

/// The header line that logs in.
fn authorization(attempt: &Attempt) -> Result<String, FetchError> {
    let value = match &attempt.remote.auth {
        Auth::Basic { username, password_file } => {
            let password = read_secret(password_file, "password")?;
            format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
        }
        Auth::Token { file } => format!("Bearer {}", read_secret(file, "token")?),
        Auth::None | Auth::Ssh { .. } => return Ok(String::new()),
    };
    Ok(format!("Authorization: {value}\r\n"))
}

fn read_head(
    connection: &mut BufReader<Connection>,
    place: &HttpAddress,
) -> Result<(u16, Vec<(String, String)>), FetchError> {
    let bad = |problem| FetchError::Http { host: place.authority(), problem };
    let mut left = limits::HTTP_HEAD_BYTES_MAX;
    loop {
        let first = read_line(connection, &mut left, place)?;
        let mut words = first.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        let status = words.next().and_then(|code| code.parse::<u16>().ok());
        let (true, Some(status)) = (version.starts_with("HTTP/1."), status) else {
            return Err(bad("its answer does not start with a status line"));
        };
        let mut headers = Vec::new();
        loop {
            let line = read_line(connection, &mut left, place)?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| bad("a header line has no colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        // Interim answers (1xx) come before the real one.
        if status >= 200 {
            return Ok((status, headers));
        }
    }
}

fn read_line(
    connection: &mut BufReader<Connection>,
    left: &mut usize,
    place: &HttpAddress,
) -> Result<String, FetchError> {
    let mut line = Vec::new();
    let bounded = &mut connection.by_ref().take(*left as u64);
    bounded.read_until(b'\n', &mut line).map_err(|e| broken(place, e))?;
    *left -= line.len().min(*left);
    if line.last() != Some(&b'\n') {
        let host = place.authority();
        return Err(if *left == 0 {
            FetchError::Http { host, problem: "the head of its answer is too long" }
        } else {
            FetchError::Connection { host, source: io::ErrorKind::UnexpectedEof.into() }
        });
    }
    let text = String::from_utf8_lossy(&line);
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn framing(headers: &[(String, String)], place: &HttpAddress) -> Result<Framing, FetchError> {
    let bad = |problem| FetchError::Http { host: place.authority(), problem };
    if let Some(coding) = header(headers, "transfer-encoding") {
        return if coding.eq_ignore_ascii_case("chunked") {
            Ok(Framing::Chunked { left: 0, first: true })
        } else {
            Err(bad("it uses a transfer encoding that was not asked for"))
        };
    }
    match header(headers, "content-length") {
        Some(length) => {
            length.parse().map(Framing::Length).map_err(|_| bad("its content length is no number"))
        }
        None => Ok(Framing::ToTheEnd),
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Checks that the answer is Git's, and says what is wrong if it is not.
fn accept(
    attempt: &Attempt,
    place: &HttpAddress,
    answer: &Answer,
    program: Program,
    kind: &str,
) -> Result<(), FetchError> {
    let url = attempt.url();
    match answer.status {
        200 => {}
        401 | 403 => return Err(refused(attempt)),
        404 | 410 => return Err(FetchError::RepositoryMissing { url }),
        407 => {
            let proxy = attempt.proxy.as_ref().map(ProxyAddress::shown).unwrap_or_default();
            return Err(FetchError::Proxy { proxy, host: place.authority(), status: 407 });
        }
        status => return Err(FetchError::Status { host: place.authority(), status }),
    }
    let content = header(&answer.headers, "content-type").unwrap_or("no content type");
    let content = content.split(';').next().unwrap_or_default().trim();
    if content != format!("application/x-{}-{kind}", program.name) {
        let content: String = content.chars().take(100).collect();
        return Err(FetchError::NotARepository { url, content });
    }
    Ok(())
}

fn refused(attempt: &Attempt) -> FetchError {
    let (credentials, hint) = match &attempt.remote.auth {
        Auth::None | Auth::Ssh { .. } if attempt.remote.client_certificate.is_some() => {
            ("the client certificate", "; it may want a password or a token as well")
        }
        Auth::None | Auth::Ssh { .. } => {
            ("access without credentials", "; configure a user and password or a token")
        }
        Auth::Basic { .. } => {
            ("the user and password", "; check that they are current and may read the repository")
        }
        Auth::Token { .. } => (
            "the bearer token",
            "; check that it is current and may read the repository. GitHub and GitLab want a token as the \
             password of basic authentication",
        ),
    };
    FetchError::AuthRefused { url: attempt.url(), credentials, hint }
}

/// Where to go on after a redirect. Credentials never go to another host, nor from TLS into the clear.
fn redirected(
    attempt: &Attempt,
    place: &HttpAddress,
    program: Program,
    answer: &Answer,
) -> Result<HttpAddress, FetchError> {
    let location = header(&answer.headers, "location").unwrap_or_default();
    let shown = crate::git::remote::without_userinfo(location);
    let refuse = |why| FetchError::Redirect { url: attempt.url(), target: shown.clone(), why };
    let base = location
        .strip_suffix(program.list)
        .ok_or_else(|| refuse("that is not a repository's address; a sign-in page, perhaps"))?;
    let target = if base.starts_with('/') && !base.starts_with("//") {
        HttpAddress { path: base.to_owned(), ..place.clone() }
    } else {
        HttpAddress::parse_url(base).map_err(|_| refuse("that is not an address to go on with"))?
    };
    if place.tls && !target.tls {
        return Err(refuse("that would leave TLS"));
    }
    let anonymous = matches!(attempt.remote.auth, Auth::None | Auth::Ssh { .. })
        && attempt.remote.client_certificate.is_none();
    if !anonymous && !place.same_origin(&target) {
        return Err(refuse(
            "credentials are not sent on to another host: if it is right, make it the repository's URL",
        ));
    }
    Ok(target)
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match &mut self.framing {
            Framing::Ended => Ok(0),
            Framing::ToTheEnd => self.connection.read(buffer),
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
                        // Trailers do not matter: the connection is not used again.
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

/// Reads at most `left` bytes; an end before them is an error.
fn read_part(
    connection: &mut BufReader<Connection>,
    buffer: &mut [u8],
    left: u64,
) -> io::Result<usize> {
    if left == 0 {
        return Ok(0);
    }
    let count = connection.by_ref().take(left).read(buffer)?;
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
}

fn chunk_line(connection: &mut BufReader<Connection>) -> io::Result<Vec<u8>> {
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
    fn chunk_sizes_are_hexadecimal_and_nothing_else() {
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
    fn bodies_are_framed_as_the_head_says() {
        let place = HttpAddress { tls: true, host: "h".into(), port: 443, path: String::new() };
        let headers = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let length = framing(&headers("content-length", "7"), &place);
        assert!(matches!(length, Ok(Framing::Length(7))));
        assert!(framing(&headers("content-length", "-7"), &place).is_err());
        let chunked = framing(&headers("transfer-encoding", "Chunked"), &place);
        assert!(matches!(chunked, Ok(Framing::Chunked { .. })));
        assert!(framing(&headers("transfer-encoding", "gzip, chunked"), &place).is_err());
        assert!(matches!(framing(&[], &place), Ok(Framing::ToTheEnd)));
    }
}
