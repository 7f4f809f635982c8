//! Git's smart HTTP protocol (gitprotocol-http): HTTP/1.1, one connection for each request, because
//! a fetch is two or three requests.

use std::io::{self, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};

use super::attempt::RemoteAttempt;
use super::http_connection::{HttpConnection, broken};
use super::http_response::HttpResponse;
use super::tcp::{TcpConnection, proxy_authorization};
use super::tls::start_tls;
use crate::address::{HttpAddress, ProxyAddress};
use crate::credential_file::read_secret;
use crate::error::FetchError;
use crate::limits;
use crate::remote::Auth;

/// The service on the server: `git-upload-pack` to fetch, `git-receive-pack` to push.
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

/// libgit2's HTTP transport for one attempt.
pub struct HttpTransport {
    attempt: Arc<RemoteAttempt>,
    /// The repository's address, after redirects.
    address: Mutex<HttpAddress>,
}

/// One request with its response.
struct Exchange {
    attempt: Arc<RemoteAttempt>,
    address: HttpAddress,
    program: Program,
    body: Vec<u8>,
    response: Option<HttpResponse>,
}

impl HttpTransport {
    pub fn new(attempt: Arc<RemoteAttempt>, address: HttpAddress) -> Self {
        Self { attempt, address: Mutex::new(address) }
    }

    /// Requests the list of references, following redirects.
    fn list(&self, program: Program) -> Result<Exchange, FetchError> {
        let mut address = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..=limits::HTTP_REDIRECTS_MAX {
            let response = send(&self.attempt, &address, program, None)?;
            if !(300..400).contains(&response.status) {
                accept(&self.attempt, &address, &response, program, "advertisement")?;
                let attempt = Arc::clone(&self.attempt);
                let address = address.clone();
                let (body, response) = (Vec::new(), Some(response));
                return Ok(Exchange { attempt, address, program, body, response });
            }
            *address = redirected(&self.attempt, &address, program, &response)?;
        }
        Err(FetchError::Redirect {
            url: self.attempt.url(),
            target: address.to_string(),
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
        let address = self.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let attempt = Arc::clone(&self.attempt);
        Ok(Box::new(Exchange { attempt, address, program, body: Vec::new(), response: None }))
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
        let response = match &mut self.response {
            Some(response) => response,
            None => {
                let Self { attempt, address, program, body, .. } = &*self;
                let response = send(attempt, address, *program, Some(body))
                    .and_then(|a| accept(attempt, address, &a, *program, "result").map(|()| a))
                    .map_err(|e| self.attempt.fail(e))?;
                self.response.insert(response)
            }
        };
        response.read(buffer).map_err(|e| {
            let error = broken(&self.address, e);
            self.attempt.fail(error)
        })
    }
}

/// Sends one request and reads the head of its response. Without a body the request lists the
/// references.
fn send(
    attempt: &Arc<RemoteAttempt>,
    address: &HttpAddress,
    program: Program,
    body: Option<&[u8]>,
) -> Result<HttpResponse, FetchError> {
    let (method, what) =
        if body.is_some() { ("POST", program.pack) } else { ("GET", program.list) };
    let failed = |e| broken(address, e);
    let (mut connection, target, proxy) = match &attempt.proxy {
        // A proxy makes plain requests itself (RFC 9112, section 3.2.2).
        Some(proxy) if !address.tls => {
            let tcp = TcpConnection::to_proxy(attempt, proxy)?;
            let target = format!("{address}{what}");
            (HttpConnection::Plain(tcp), target, proxy_authorization(proxy))
        }
        _ => {
            let tcp = TcpConnection::open(attempt, &address.host, address.port)?;
            let connection = if address.tls {
                HttpConnection::Tls(Box::new(start_tls(attempt, tcp, &address.host)?))
            } else {
                HttpConnection::Plain(tcp)
            };
            (connection, format!("{}{what}", address.path), String::new())
        }
    };
    let mut head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         User-Agent: git/2.0 (gitwork {})\r\n{proxy}{}",
        address.authority(),
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
    HttpResponse::receive(BufReader::with_capacity(64 * 1024, connection), address)
}

/// The `Authorization` header line; empty without credentials.
fn authorization(attempt: &RemoteAttempt) -> Result<String, FetchError> {
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

/// Checks that the response is Git's.
fn accept(
    attempt: &RemoteAttempt,
    address: &HttpAddress,
    response: &HttpResponse,
    program: Program,
    kind: &str,
) -> Result<(), FetchError> {
    let url = attempt.url();
    match response.status {
        200 => {}
        401 | 403 => return Err(refused(attempt)),
        404 | 410 => return Err(FetchError::RepositoryMissing { url }),
        407 => {
            let proxy = attempt.proxy.as_ref().map(ProxyAddress::shown).unwrap_or_default();
            return Err(FetchError::Proxy { proxy, host: address.authority(), status: 407 });
        }
        status => return Err(FetchError::Status { host: address.authority(), status }),
    }
    let content = response.header("content-type").unwrap_or("no content type");
    let content = content.split(';').next().unwrap_or_default().trim();
    if content != format!("application/x-{}-{kind}", program.name) {
        let content: String = content.chars().take(100).collect();
        return Err(FetchError::NotARepository { url, content });
    }
    Ok(())
}

fn refused(attempt: &RemoteAttempt) -> FetchError {
    let (credentials, hint) = match &attempt.remote.auth {
        Auth::None | Auth::Ssh { .. } if attempt.remote.client_certificate.is_some() => {
            ("the client certificate", "the server may require a password or a token as well")
        }
        Auth::None | Auth::Ssh { .. } => {
            ("access without credentials", "configure a user and password or a token")
        }
        Auth::Basic { .. } => {
            ("the user and password", "check that they are current and may read the repository")
        }
        Auth::Token { .. } => (
            "the bearer token",
            "check that it is current and may read the repository. GitHub and GitLab want a token \
             as the password of basic authentication",
        ),
    };
    FetchError::AuthRefused { url: attempt.url(), credentials, hint }
}

/// The address after a redirect. Credentials never go to another host, nor from TLS to plain HTTP.
fn redirected(
    attempt: &RemoteAttempt,
    address: &HttpAddress,
    program: Program,
    response: &HttpResponse,
) -> Result<HttpAddress, FetchError> {
    let location = response.header("location").unwrap_or_default();
    let shown = crate::address::without_userinfo(location);
    let refuse = |why| FetchError::Redirect { url: attempt.url(), target: shown.clone(), why };
    let base = location
        .strip_suffix(program.list)
        .ok_or_else(|| refuse("that is not a repository's address; a sign-in page, perhaps"))?;
    let target = if base.starts_with('/') && !base.starts_with("//") {
        HttpAddress { path: base.to_owned(), ..address.clone() }
    } else {
        HttpAddress::parse_url(base).map_err(|_| refuse("that address cannot be used"))?
    };
    if address.tls && !target.tls {
        return Err(refuse("that would be plain HTTP after TLS"));
    }
    let anonymous = matches!(attempt.remote.auth, Auth::None | Auth::Ssh { .. })
        && attempt.remote.client_certificate.is_none();
    if !anonymous && !address.same_origin(&target) {
        return Err(refuse(
            "credentials are not sent to another host: if it is the right one, make it the \
             repository's URL",
        ));
    }
    Ok(target)
}
