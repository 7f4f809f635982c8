//! Webhooks of forges: `POST /hook` makes every source fetch now, `POST /hook/<source id>` one
//! source. A webhook is only a hint: its body is not read.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt as _;
use ring::hmac;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::metrics::Metrics;
use crate::limits;
use gitwork_core::model::name::SourceId;
use gitwork_forge::file::{FileError, read_secret};
use gitwork_report::forge::webhook::{WebhookSignature, proof};
use gitwork_retry::log_error;
use gitwork_runtime::connection::{Bounded, ConnectionTimeout};

/// Accepts signed webhooks and makes sources fetch.
pub struct Webhooks {
    secret_file: PathBuf,
    hints: BTreeMap<SourceId, mpsc::Sender<()>>,
    metrics: Arc<Metrics>,
}

/// Why a webhook was rejected.
#[derive(Debug, thiserror::Error)]
enum WebhookRejected {
    #[error("no header with a signature or token that gitwork knows")]
    SignatureMissing,
    #[error("the signature or token is not that of the secret file")]
    SignatureInvalid,
    #[error("the body is longer than {} bytes, or broke off", limits::WEBHOOK_BODY_BYTES_MAX)]
    Body,
    #[error(transparent)]
    Secret(#[from] FileError),
    #[error("there is no source of this id")]
    UnknownSource,
}

impl Webhooks {
    /// `hints` makes a source fetch now. The secret file is read again for each webhook.
    pub fn new(
        secret_file: PathBuf,
        hints: BTreeMap<SourceId, mpsc::Sender<()>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { secret_file, hints, metrics }
    }

    /// Serves until `stop` is true.
    pub async fn serve(
        self,
        listener: TcpListener,
        mut stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let router = Router::new()
            .route("/hook", post(of_all))
            .route("/hook/{source}", post(of_one))
            .with_state(Arc::new(self));
        let stopped = async move {
            // An error means that the sender is gone, which is a stop too.
            let _stopped = stop.wait_for(|stop| *stop).await;
        };
        // The port may be public: limit the whole call.
        let timeout = ConnectionTimeout::Whole(limits::WEBHOOK_CALL);
        let listener = Bounded::new(listener, limits::WEBHOOK_CONNECTIONS_MAX, timeout);
        axum::serve(listener, router).with_graceful_shutdown(stopped).await
    }

    async fn take(&self, source: Option<&str>, request: Request) -> Response {
        let taken = self.check(source, request).await;
        self.metrics.webhook(taken.is_ok());
        let (status, text) = match taken {
            Ok(()) => (StatusCode::ACCEPTED, "fetching\n".to_owned()),
            Err(rejection) => {
                if let WebhookRejected::Secret(error) = &rejection {
                    log_error!(warn, error, "cannot check webhooks; rejecting them");
                } else {
                    tracing::debug!(%rejection, "rejected a webhook");
                }
                (rejection.status(), rejection.public_message())
            }
        };
        ([(header::CONNECTION, "close")], (status, text)).into_response()
    }

    async fn check(&self, source: Option<&str>, request: Request) -> Result<(), WebhookRejected> {
        let (head, body) = request.into_parts();
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let proof = proof(header).ok_or(WebhookRejected::SignatureMissing)?;
        let secret = read_secret(&self.secret_file, "webhook secret")?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = sign(&key, body).await?;
        let is_ours = match &proof {
            WebhookSignature::Hmac(claimed) => is_same(&key, claimed, signature.as_ref()),
            WebhookSignature::Token(claimed) => {
                is_same(&key, claimed.as_bytes(), secret.as_bytes())
            }
        };
        if !is_ours {
            return Err(WebhookRejected::SignatureInvalid);
        }
        // A full channel means that a hint is waiting already.
        match source {
            None => {
                for hint in self.hints.values() {
                    let _sent = hint.try_send(());
                }
            }
            Some(name) => {
                let hint = self.hints.iter().find(|(id, _)| id.as_str() == name);
                let _sent = hint.ok_or(WebhookRejected::UnknownSource)?.1.try_send(());
            }
        }
        Ok(())
    }
}

impl WebhookRejected {
    fn status(&self) -> StatusCode {
        match self {
            Self::SignatureMissing | Self::SignatureInvalid => StatusCode::UNAUTHORIZED,
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Secret(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::UnknownSource => StatusCode::NOT_FOUND,
        }
    }

    /// The message for the sender.
    fn public_message(&self) -> String {
        match self {
            Self::Secret(_) => "the secret file cannot be used; see the daemon's log\n".into(),
            other => format!("{other}\n"),
        }
    }
}

async fn of_all(State(webhooks): State<Arc<Webhooks>>, request: Request) -> Response {
    webhooks.take(None, request).await
}

async fn of_one(
    State(webhooks): State<Arc<Webhooks>>,
    Path(source): Path<String>,
    request: Request,
) -> Response {
    webhooks.take(Some(&source), request).await
}

/// The HMAC of a body, computed while it arrives.
async fn sign(key: &hmac::Key, body: Body) -> Result<hmac::Tag, WebhookRejected> {
    let mut signed = hmac::Context::with_key(key);
    let (mut frames, mut length) = (body.into_data_stream(), 0_usize);
    while let Some(frame) = frames.next().await {
        let frame = frame.map_err(|_| WebhookRejected::Body)?;
        length = length.saturating_add(frame.len());
        if length > limits::WEBHOOK_BODY_BYTES_MAX {
            return Err(WebhookRejected::Body);
        }
        signed.update(&frame);
    }
    Ok(signed.sign())
}

/// Compares two texts by their HMACs, so that the time does not reveal where they differ.
fn is_same(key: &hmac::Key, claimed: &[u8], real: &[u8]) -> bool {
    hmac::verify(key, claimed, hmac::sign(key, real).as_ref()).is_ok()
}
