//! Authentication of a GitHub App: signs a JSON Web Token with the App's key, and exchanges it for
//! an installation token. That token may write checks of one repository for one hour.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::file::{FileError, read_bounded};
use super::http::{ForgeError, Http, authorization_header};
use crate::limits;
use gitwork_core::config::commit_status::GithubAppConfig;
use gitwork_report::forge::response;
use gitwork_report::forge::response::Rejection;
use gitwork_report::forge::{ForgeTarget, jwt};

const PURPOSE: &str = "key of the App";
/// A token is not used in the last seconds before its expiry.
const SPARE_SECONDS: i64 = 300;

/// One installation of an App.
#[derive(Debug)]
pub struct App {
    id: String,
    installation: u64,
    key_file: PathBuf,
    token: Mutex<Option<Token>>,
}

struct Token {
    text: String,
    ends: Timestamp,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a token until {}", self.ends)
    }
}

impl App {
    /// An installation that has not logged in yet.
    pub fn new(config: &GithubAppConfig) -> Self {
        Self {
            id: config.id.clone(),
            installation: config.installation_id,
            key_file: PathBuf::from(&config.key_file),
            token: Mutex::new(None),
        }
    }

    /// The installation token at the time `now`. Requests a new one shortly before the last one
    /// expires.
    pub async fn token(
        &self,
        http: &Http,
        target: &ForgeTarget,
        now: Timestamp,
    ) -> Result<String, Rejection> {
        if let Some(text) = self.kept(now) {
            return Ok(text);
        }
        let signed =
            sign(&self.key_file, &jwt::to_sign(&self.id, now)).map_err(ForgeError::from)?;
        let login = authorization_header(target, &signed).ok_or_else(|| {
            ForgeError::from(FileError::new(&self.key_file, PURPOSE, "its signature is not text"))
        })?;
        let request = jwt::token_request(target, self.installation);
        let received = http.exchange(&request, login).await?;
        response::read_login(target, &received.response(&signed), now)?;
        let (text, ends) = jwt::token(&received.body).ok_or_else(|| Rejection::Later {
            after: None,
            message: "GitHub's response has no installation token".into(),
        })?;
        let token = Token { text: text.clone(), ends };
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(text)
    }

    fn kept(&self, now: Timestamp) -> Option<String> {
        let kept = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let good = kept.as_ref()?;
        (good.ends.as_second() - now.as_second() > SPARE_SECONDS).then(|| good.text.clone())
    }

    /// Discards the token, so that the next write logs in again.
    pub fn forget(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The complete JSON Web Token: the text and its RS256 signature.
fn sign(key_file: &Path, text: &str) -> Result<String, FileError> {
    let unusable = |problem: String| FileError::new(key_file, PURPOSE, problem);
    let pem = read_bounded(key_file, PURPOSE, limits::TOKEN_BYTES_MAX)?;
    let der = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| unusable("it is not a private key in PEM".into()))?;
    let pair = match &der {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(unusable("it is not an RSA key".into())),
    };
    let pair =
        pair.map_err(|why| unusable(format!("it is not an RSA key of 2,048 bits or more: {why}")))?;
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| unusable("it cannot sign".into()))?;
    Ok(jwt::signed(text, &signature))
}
