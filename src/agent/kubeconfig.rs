//! Kubeconfigs of hub and cluster: clients, the server address, and digests to detect rotation.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use gitwork_agent_core::identity::{FIELD_MANAGER, hub_host};
use gitwork_kube::client::{ClientOptions, client_builder};
use gitwork_retry::operation_error::{ErrorClass, OperationError};

/// The agent names itself as OCM's agent does: the API server derives the default field manager
/// from the name. The write time-out is that of kube. Reads have no time-out of their own: each
/// request and each watch has one.
const OPTIONS: ClientOptions = ClientOptions {
    user_agent: FIELD_MANAGER,
    connect_timeout: Duration::from_secs(10),
    write_timeout: None,
    read_timeout: None,
    idle_connections_max: 8,
};
/// A kubeconfig names a handful of files.
const FILES_MAX: usize = 64;
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Why there is no connection. The messages hold nothing that a kubeconfig keeps secret.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file is missing, or is no kubeconfig.
    #[error("cannot read the kubeconfig {path}")]
    Read { path: PathBuf },
    /// It names no server.
    #[error("the kubeconfig {path} has no current context with a cluster")]
    NoCluster { path: PathBuf },
    /// A file that it names is missing or invalid.
    #[error("the kubeconfig {path} cannot be used")]
    Unusable { path: PathBuf },
    /// There is neither a kubeconfig nor the service account of a pod.
    #[error("no kubeconfig is given and this is no pod")]
    NoPod,
    /// The client certificate or the CA cannot be used.
    #[error("cannot set up TLS for the connection to {server}")]
    Setup { server: String },
}

impl OperationError for KubeconfigError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::NoCluster { .. } | Self::Unusable { .. } => "Kubeconfig",
            Self::NoPod => "NoKubeconfig",
            Self::Setup { .. } => "Tls",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Read { .. } => {
                "check that the file is there and that `kubectl config view` accepts it"
            }
            Self::Unusable { .. } => "check the certificates and keys that it names",
            Self::NoPod => "give --kubeconfig or --spoke-kubeconfig",
            Self::NoCluster { .. } => "select a context with `kubectl config use-context`",
            Self::Setup { .. } => "check the client certificate and the CA",
        };
        vec![hint.to_owned()]
    }
}

/// A client for a cluster, and the address that OCM hashes.
pub struct ClusterConnection {
    /// Requests to the cluster.
    pub client: Client,
    /// The server address as the kubeconfig has it, byte for byte.
    pub host: String,
}

/// Connects as a kubeconfig says.
pub async fn connect(file: &Path) -> Result<ClusterConnection, KubeconfigError> {
    let path = || file.to_path_buf();
    let kubeconfig =
        Kubeconfig::read_from(file).map_err(|_| KubeconfigError::Read { path: path() })?;
    let host = server(&kubeconfig).ok_or_else(|| KubeconfigError::NoCluster { path: path() })?;
    let host = hub_host(&host).to_owned();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|_| KubeconfigError::Unusable { path: path() })?;
    Ok(ClusterConnection { client: client(config)?, host })
}

/// Connects to the cluster that this pod runs on.
pub fn connect_in_cluster() -> Result<ClusterConnection, KubeconfigError> {
    let config = Config::incluster().map_err(|_| KubeconfigError::NoPod)?;
    let host = config.cluster_url.to_string();
    Ok(ClusterConnection { client: client(config)?, host })
}

fn client(config: Config) -> Result<Client, KubeconfigError> {
    let server = config.cluster_url.to_string();
    let builder = client_builder(config, &OPTIONS);
    Ok(builder.map_err(|_| KubeconfigError::Setup { server })?.build())
}

/// The server of the current context, byte for byte.
fn server(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == *current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?;
    cluster.cluster.as_ref()?.server.clone()
}

/// A digest of a kubeconfig and of the files that it names: a rotation changes either.
pub fn digest_with_credentials(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    digest(file).hash(&mut hasher);
    let Ok(kubeconfig) = Kubeconfig::read_from(file) else { return hasher.finish() };
    let users = kubeconfig.auth_infos.iter().filter_map(|one| one.auth_info.as_ref());
    let named =
        users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]);
    let clusters = kubeconfig.clusters.iter().filter_map(|one| one.cluster.as_ref());
    let authorities = clusters.map(|cluster| &cluster.certificate_authority);
    for name in named.chain(authorities).flatten().take(FILES_MAX) {
        digest(Path::new(name)).hash(&mut hasher);
    }
    hasher.finish()
}

/// A digest of a file's content; of one that cannot be read, a fixed one.
pub fn digest(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_small_file =
        fs::metadata(file).is_ok_and(|data| data.is_file() && data.len() <= FILE_BYTES_MAX);
    if is_small_file && let Ok(content) = fs::read(file) {
        content.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_taken_as_it_stands() {
        let text = "{apiVersion: v1, kind: Config, current-context: b, users: [], \
            contexts: [{name: a, context: {cluster: a, user: u}}, \
            {name: b, context: {cluster: b, user: u}}], \
            clusters: [{name: a, cluster: {server: 'https://a'}}, \
            {name: b, cluster: {server: 'https://B:6443/'}}]}";
        assert_eq!(server(&Kubeconfig::from_yaml(text).unwrap()).unwrap(), "https://B:6443/");
        assert_eq!(server(&Kubeconfig::default()), None);
    }

    #[test]
    fn a_rotated_certificate_is_noticed_and_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        fs::write(&file, "{users: [{name: u, user: {client-certificate: tls.crt}}]}").unwrap();
        fs::write(folder.path().join("tls.crt"), "a").unwrap();
        let before = digest_with_credentials(&file);
        fs::write(folder.path().join("log"), "b").unwrap();
        assert_eq!(digest_with_credentials(&file), before);
        fs::write(folder.path().join("tls.crt"), "b").unwrap();
        assert_ne!(digest_with_credentials(&file), before);
    }
}
