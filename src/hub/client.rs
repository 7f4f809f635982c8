//! The client of a hub: from a kubeconfig or from inside a pod, with time limits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service};

use crate::limits;
use crate::request_metrics::{RequestMetricsLayer, RequestObserver};
use gitwork_kube::client::{BaseService, ClientOptions, client_builder};
use gitwork_kube::connection_error;

/// The `User-Agent` of gitwork: for audit logs, and the default field manager.
pub const USER_AGENT: &str = concat!("gitwork/", env!("CARGO_PKG_VERSION"));

const OPTIONS: ClientOptions = ClientOptions {
    user_agent: USER_AGENT,
    connect_timeout: limits::HUB_CONNECT,
    write_timeout: Some(limits::HUB_CALL),
    read_timeout: Some(limits::HUB_WATCH_OPEN),
    idle_connections_max: limits::HUB_IN_FLIGHT,
};

/// Makes a client from the current credentials.
pub type Connect = Arc<dyn Fn() -> BoxFuture<'static, Result<Client, ClientError>> + Send + Sync>;

/// Why there is no client. The messages contain no secret of a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file is missing, is no kubeconfig, or does not have the context.
    #[error("cannot read the kubeconfig {path}: {problem}")]
    Kubeconfig {
        /// The file, or "of this user" for the default one.
        path: String,
        /// What is wrong with it, without a quote from it.
        problem: String,
    },
    /// There is neither a kubeconfig nor the service account of a pod.
    #[error("no hub is configured: {kubeconfig}, and this is not a pod ({in_cluster})")]
    NoHub {
        /// Why the default kubeconfig cannot be used.
        kubeconfig: String,
        /// Why the service account of a pod cannot be used.
        in_cluster: String,
    },
    /// A certificate or the credential plugin of the kubeconfig cannot be used.
    #[error("cannot set up the connection to the hub: {0}")]
    Setup(String),
}

/// Reads the configuration of the hub from `kubeconfig`, or from `KUBECONFIG` or `~/.kube/config`.
/// If there is none and no `context` is given, uses the service account of the pod.
pub async fn config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Config, ClientError> {
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let failed = |path: Option<&Path>, error: &KubeconfigError| ClientError::Kubeconfig {
        path: path.map_or_else(|| "of this user".into(), |path| path.display().to_string()),
        problem: describe(error),
    };
    if let Some(path) = kubeconfig {
        let read = Kubeconfig::read_from(path).map_err(|error| failed(Some(path), &error))?;
        return Config::from_custom_kubeconfig(read, &options)
            .await
            .map_err(|error| failed(Some(path), &error));
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        Err(error) if context.is_some() => Err(failed(None, &error)),
        Err(error) => Config::incluster().map_err(|in_cluster| ClientError::NoHub {
            kubeconfig: describe(&error),
            in_cluster: in_cluster.to_string(),
        }),
    }
}

/// Makes clients of [`config`] with these arguments, and reads all files again each time.
pub fn connector(kubeconfig: Option<PathBuf>, context: Option<String>) -> Connect {
    Arc::new(move || {
        let (kubeconfig, context) = (kubeconfig.clone(), context.clone());
        Box::pin(async move {
            let config = config(kubeconfig.as_deref(), context.as_deref()).await?;
            // kube runs a credential plugin while it makes the client.
            let made = tokio::task::spawn_blocking(move || client(config)).await;
            made.unwrap_or_else(|error| Err(ClientError::Setup(error.to_string())))
        })
    })
}

/// The same, with a report of each request to `observer`.
pub fn observed_connector(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    observer: &RequestObserver,
) -> Connect {
    let observer = Arc::clone(observer);
    Arc::new(move || {
        let (kubeconfig, context) = (kubeconfig.clone(), context.clone());
        let count = RequestMetricsLayer(Arc::clone(&observer));
        Box::pin(async move {
            let config = config(kubeconfig.as_deref(), context.as_deref()).await?;
            let made = tokio::task::spawn_blocking(move || client_with(config, &count)).await;
            made.unwrap_or_else(|error| Err(ClientError::Setup(error.to_string())))
        })
    })
}

/// A client for `config`. See [`client_with`].
pub fn client(config: Config) -> Result<Client, ClientError> {
    Ok(builder(config)?.build())
}

/// A client with `layer` around its requests.
///
/// The read time-out of the connection bounds watches; callers bound shorter calls.
pub fn client_with<L>(config: Config, layer: &L) -> Result<Client, ClientError>
where
    L: Layer<BaseService>,
    L::Service: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>
        + Send
        + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
{
    Ok(builder(config)?.with_layer(layer).build())
}

fn builder(config: Config) -> Result<ClientBuilder<BaseService>, ClientError> {
    let builder = client_builder(config, &OPTIONS);
    builder.map_err(|error| ClientError::Setup(connection_error::describe(&error)))
}

/// Describes what is wrong with a kubeconfig. A YAML error of the parser may quote the file, tokens
/// included, so it is left out.
fn describe(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(_) => {
            "it is not a kubeconfig; `kubectl config view` shows the error".into()
        }
        KubeconfigError::ParseProxyUrl(_) => "its proxy-url is not a URL".into(),
        KubeconfigError::LoadContext(name) => {
            format!("it has no context {name:?}; `kubectl config get-contexts` lists them")
        }
        KubeconfigError::CurrentContextNotSet => {
            "it has no current context; name one with --context".into()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn kubeconfig(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    const TWO_HUBS: &str = r#"
apiVersion: v1
kind: Config
current-context: east
contexts:
- {name: east, context: {cluster: east, user: me}}
- {name: west, context: {cluster: west, user: me}}
clusters:
- {name: east, cluster: {server: "http://127.0.0.1:1"}}
- {name: west, cluster: {server: "http://127.0.0.1:2"}}
users:
- {name: me, user: {token: t0ps3cret}}
"#;

    #[tokio::test]
    async fn a_kubeconfig_and_its_context_are_used() {
        let file = kubeconfig(TWO_HUBS);
        for (context, server) in [(None, "127.0.0.1:1"), (Some("west"), "127.0.0.1:2")] {
            let config = config(Some(file.path()), context).await.unwrap();
            assert_eq!(
                config.cluster_url.authority().map(http::uri::Authority::as_str),
                Some(server)
            );
            client(config).unwrap();
        }
    }

    #[tokio::test]
    async fn errors_name_the_fix_and_contain_no_secret() {
        let cases = [
            (
                TWO_HUBS,
                Some("north"),
                "it has no context \"north\"; `kubectl config get-contexts` lists them",
            ),
            (
                "users:\n- name: me\n  user: {token: t0ps3cret\nclusters: t0ps3cret",
                None,
                "it is not a kubeconfig; `kubectl config view` shows the error",
            ),
            ("contexts: t0ps3cret", None, "it is not a kubeconfig"),
            ("apiVersion: v1", None, "it has no current context; name one with --context"),
        ];
        for (text, context, expected) in cases {
            let file = kubeconfig(text);
            let error = config(Some(file.path()), context).await.unwrap_err();
            let (shown, debugged) = (error.to_string(), format!("{error:?}"));
            assert!(shown.contains(expected), "{shown}");
            assert!(shown.contains(&file.path().display().to_string()), "{shown}");
            assert!(!shown.contains("t0ps3cret") && !debugged.contains("t0ps3cret"), "{shown}");
        }
    }

    #[test]
    fn the_crypto_provider_can_be_installed_twice() {
        gitwork_kube::install_crypto();
        gitwork_kube::install_crypto();
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
    }
}
