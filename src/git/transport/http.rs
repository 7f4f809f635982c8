//! Git's smart HTTP protocol (gitprotocol-http): HTTP/1.1, one connection for each request, because
//! a fetch is two or three requests.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes};
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION, PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT,
};
use http::request::Builder;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::attempt::RemoteAttempt;
use super::connection::{connect, proxy_authorization, secured, shown, to_proxy};
use super::http_error::violated;
use super::tcp::HangUp;
use super::tls;
use crate::address::{HttpAddress, ProxyAddress};
use crate::credential_file::read_secret;
use crate::error::{FetchError, MirrorError, UrlError};
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
    response: Option<Response>,
}

/// A response whose body is still to be read.
struct Response {
    status: u16,
    headers: HeaderMap,
    /// `None` after its end.
    body: Option<Incoming>,
    /// The part of the body that has arrived, and that libgit2 has not read.
    part: Bytes,
    _hang_up: HangUp,
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
        let Self { attempt, address, program, body, response } = self;
        let response = match response {
            Some(response) => response,
            None => {
                let body = Bytes::from(std::mem::take(body));
                let received = send(attempt, address, *program, Some(body))
                    .and_then(|it| accept(attempt, address, &it, *program, "result").map(|()| it))
                    .map_err(|error| attempt.fail(error))?;
                response.insert(received)
            }
        };
        response.read(attempt, address, buffer).map_err(|error| attempt.fail(error))
    }
}

impl Response {
    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn read(
        &mut self,
        attempt: &RemoteAttempt,
        address: &HttpAddress,
        buffer: &mut [u8],
    ) -> Result<usize, FetchError> {
        attempt.check()?;
        while self.part.is_empty() && !buffer.is_empty() {
            let Some(mut body) = self.body.take() else { return Ok(0) };
            let host = shown(&address.host, address.port);
            let of = address.authority();
            let (part, body) = attempt.wait(&host, async move {
                match body.frame().await {
                    None => Ok((Bytes::new(), None)),
                    Some(Err(error)) => Err(violated(&of, &error)),
                    // Trailers have no meaning here.
                    Some(Ok(frame)) => Ok((frame.into_data().unwrap_or_default(), Some(body))),
                }
            })?;
            (self.part, self.body) = (part, body);
        }
        let count = self.part.len().min(buffer.len());
        self.part.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Sends one request and reads the head of its response. Without a body the request lists the
/// references.
fn send(
    attempt: &Arc<RemoteAttempt>,
    address: &HttpAddress,
    program: Program,
    body: Option<Bytes>,
) -> Result<Response, FetchError> {
    let request = request(attempt, address, program, body)?;
    let config = if address.tls { Some(tls::config(attempt, &address.host)?) } else { None };
    let (task_attempt, to) = (Arc::clone(attempt), address.clone());
    attempt.wait(&shown(&address.host, address.port), async move {
        let (stream, hang_up) = match (&task_attempt.proxy, config) {
            (Some(proxy), None) => to_proxy(Arc::clone(&task_attempt), proxy).await?,
            (_, None) => connect(task_attempt, &to.host, to.port).await?,
            (_, Some(config)) => {
                let connection = connect(task_attempt, &to.host, to.port).await?;
                secured(connection, config, &to.host).await?
            }
        };
        let failed = |error: hyper::Error| violated(&to.authority(), &error);
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // It ends with the response, or when the exchange hangs up.
        tokio::spawn(connection);
        let (head, body) = sender.send_request(request).await.map_err(failed)?.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(Response { status, headers, body: Some(body), part: Bytes::new(), _hang_up: hang_up })
    })
}

fn request(
    attempt: &RemoteAttempt,
    address: &HttpAddress,
    program: Program,
    body: Option<Bytes>,
) -> Result<Request<Full<Bytes>>, FetchError> {
    let (method, what) = match body {
        None => (Method::GET, program.list),
        Some(_) => (Method::POST, program.pack),
    };
    let mut request = match &attempt.proxy {
        // A proxy makes plain requests itself (RFC 9112, section 3.2.2).
        Some(proxy) if !address.tls => {
            let request = Request::builder().uri(format!("{address}{what}"));
            with(request, PROXY_AUTHORIZATION, proxy_authorization(proxy))
        }
        _ => Request::builder().uri(format!("{}{what}", address.path)),
    };
    request = request
        .method(method)
        .header(HOST, address.authority())
        .header(CONNECTION, "close")
        .header(USER_AGENT, concat!("git/2.0 (gitwork ", env!("CARGO_PKG_VERSION"), ")"));
    request = with(request, AUTHORIZATION, authorization(attempt)?);
    if body.is_some() {
        request = request
            .header(CONTENT_TYPE, format!("application/x-{}-request", program.name))
            .header(ACCEPT, format!("application/x-{}-result", program.name));
    }
    request.body(Full::new(body.unwrap_or_default())).map_err(|_| {
        let problem = "has a character that an HTTP request must not have";
        MirrorError::from(UrlError::Malformed { shown: attempt.url(), problem }).into()
    })
}

fn with(request: Builder, name: HeaderName, value: Option<HeaderValue>) -> Builder {
    match value {
        Some(value) => request.header(name, value),
        None => request,
    }
}

/// The `Authorization` header; `None` without credentials.
fn authorization(attempt: &RemoteAttempt) -> Result<Option<HeaderValue>, FetchError> {
    let (file, purpose, text) = match &attempt.remote.auth {
        Auth::Basic { username, password_file } => {
            let password = read_secret(password_file, "password")?;
            let text = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
            (password_file, "password", text)
        }
        Auth::Token { file } => (file, "token", format!("Bearer {}", read_secret(file, "token")?)),
        Auth::None | Auth::Ssh { .. } => return Ok(None),
    };
    let mut value =
        HeaderValue::from_bytes(text.as_bytes()).map_err(|_| FetchError::CredentialFile {
            file: file.clone(),
            purpose,
            problem: "it has characters that a header must not have".to_owned(),
        })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Checks that the response is Git's.
fn accept(
    attempt: &RemoteAttempt,
    address: &HttpAddress,
    response: &Response,
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
    let coding = response.header(&TRANSFER_ENCODING);
    if coding.is_some_and(|coding| !coding.eq_ignore_ascii_case("chunked")) {
        let problem = "it uses a transfer encoding that was not requested";
        return Err(FetchError::Http { host: address.authority(), problem });
    }
    let content = response.header(&CONTENT_TYPE).unwrap_or("no content type");
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
    response: &Response,
) -> Result<HttpAddress, FetchError> {
    let location = response.header(&LOCATION).unwrap_or_default();
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
