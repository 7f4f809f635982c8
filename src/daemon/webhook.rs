//! Webhooks of forges: `POST /hook` has every source fetched at once, `POST /hook/<source id>` that one. A webhook is a
//! hint and no more: nothing in its body is read.

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
use crate::connection::{Bounded, Patience};
use crate::core::forge::webhook::{Proof, proof};
use crate::core::name::SourceId;
use crate::forge::file::{FileError, read_secret};
use crate::limits;

/// Who is told, and how a forge proves itself.
pub struct Webhooks {
    secret_file: PathBuf,
    hints: BTreeMap<SourceId, mpsc::Sender<()>>,
    metrics: Arc<Metrics>,
}

/// Why a webhook is not heeded.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("no header with a signature or token that gitwork knows")]
    NoProof,
    #[error("the signature or token is not that of the secret file")]
    WrongProof,
    #[error("the body is longer than {} bytes, or broke off", limits::WEBHOOK_BODY_BYTES_MAX)]
    Body,
    #[error(transparent)]
    Secret(#[from] FileError),
    #[error("there is no source of this id")]
    NoSource,
}

impl Webhooks {
    /// `hints` has a source fetched now; the secret is read anew for each webhook.
    pub fn new(
        secret_file: PathBuf,
        hints: BTreeMap<SourceId, mpsc::Sender<()>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { secret_file, hints, metrics }
    }

    /// Answers until `stop` is true.
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
        // A port that forges reach is one that others reach.
        let patience = Patience::Whole(limits::WEBHOOK_CALL);
        let listener = Bounded::new(listener, limits::WEBHOOK_CONNECTIONS_MAX, patience);
        axum::serve(listener, router).with_graceful_shutdown(stopped).await
    }

    async fn take(&self, source: Option<&str>, request: Request) -> Response {
        let taken = self.check(source, request).await;
        self.metrics.webhook(taken.is_ok());
        let (status, text) = match taken {
            Ok(()) => (StatusCode::ACCEPTED, "fetching\n".to_owned()),
            Err(refusal) => {
                if let Refusal::Secret(error) = &refusal {
                    tracing::warn!(%error, "webhooks cannot be checked and are refused");
                } else {
                    tracing::debug!(error = %refusal, "a webhook was refused");
                }
                (refusal.status(), refusal.told())
            }
        };
        ([(header::CONNECTION, "close")], (status, text)).into_response()
    }

    async fn check(&self, source: Option<&str>, request: Request) -> Result<(), Refusal> {
        let (head, body) = request.into_parts();
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let proof = proof(header).ok_or(Refusal::NoProof)?;
        let secret = read_secret(&self.secret_file, "webhook secret")?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = sign(&key, body).await?;
        let is_ours = match &proof {
            Proof::Hmac(claimed) => is_same(&key, claimed, signature.as_ref()),
            Proof::Token(claimed) => is_same(&key, claimed.as_bytes(), secret.as_bytes()),
        };
        if !is_ours {
            return Err(Refusal::WrongProof);
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
                let _sent = hint.ok_or(Refusal::NoSource)?.1.try_send(());
            }
        }
        Ok(())
    }
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoProof | Self::WrongProof => StatusCode::UNAUTHORIZED,
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Secret(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoSource => StatusCode::NOT_FOUND,
        }
    }

    /// What the sender may know.
    fn told(&self) -> String {
        match self {
            Self::Secret(_) => "the secret file cannot be used; the daemon's log says why\n".into(),
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

/// The HMAC of a body, which is hashed as it comes.
async fn sign(key: &hmac::Key, body: Body) -> Result<hmac::Tag, Refusal> {
    let mut signed = hmac::Context::with_key(key);
    let (mut frames, mut length) = (body.into_data_stream(), 0_usize);
    while let Some(frame) = frames.next().await {
        let frame = frame.map_err(|_| Refusal::Body)?;
        length = length.saturating_add(frame.len());
        if length > limits::WEBHOOK_BODY_BYTES_MAX {
            return Err(Refusal::Body);
        }
        signed.update(&frame);
    }
    Ok(signed.sign())
}

/// Whether two texts are the same, in a time that does not tell where they differ: what is compared are their HMACs.
fn is_same(key: &hmac::Key, claimed: &[u8], real: &[u8]) -> bool {
    hmac::verify(key, claimed, hmac::sign(key, real).as_ref()).is_ok()
}
