//! The file of `--config`: what OCM's agent takes from it, a `GenericOperatorConfig` of
//! `operator.openshift.io/v1alpha1`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use gitwork_retry::operation_error::{ErrorClass, OperationError};

use super::flag_values::{FlagValueError, listen};

/// Such a file has a few lines.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OperatorConfigError {
    #[error("cannot read the file {path} of --config: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("the file {path} of --config is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge { path: PathBuf },
    #[error("the file {path} of --config is no GenericOperatorConfig: {problem}")]
    Unfit { path: PathBuf, problem: OperatorConfigProblem },
}

impl OperationError for OperatorConfigError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "OperatorConfig"
    }
}

/// What is wrong with the content of the file.
#[derive(Debug, thiserror::Error)]
pub enum OperatorConfigProblem {
    #[error(transparent)]
    Form(#[from] serde_yaml::Error),
    #[error("servingInfo.bindAddress: {0}")]
    BindAddress(FlagValueError),
    #[error("servingInfo needs both certFile and keyFile, or neither")]
    HalfCertificate,
}

/// What the file may say. Flags that are given go before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorConfig {
    serving_info: ServingInfo,
    leader_election: LeaderElection,
    authentication: Disabled,
    authorization: Disabled,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServingInfo {
    bind_address: String,
    cert_file: PathBuf,
    key_file: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct LeaderElection {
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Disabled {
    disabled: bool,
}

impl OperatorConfig {
    /// Reads a file. An empty one says nothing.
    ///
    /// # Errors
    /// A file that is not there, is too large, or does not have the form.
    pub fn read(path: &Path) -> Result<Self, OperatorConfigError> {
        let own = || path.to_path_buf();
        let failed = |error| OperatorConfigError::Read { path: own(), error };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.len() > FILE_BYTES_MAX {
            return Err(OperatorConfigError::TooLarge { path: own() });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(&text).map_err(|problem| OperatorConfigError::Unfit { path: own(), problem })
    }

    fn parse(text: &str) -> Result<Self, OperatorConfigProblem> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let config: Self = serde_yaml::from_str(text)?;
        if !config.serving_info.bind_address.is_empty() {
            listen(&config.serving_info.bind_address)
                .map_err(OperatorConfigProblem::BindAddress)?;
        }
        let serving = &config.serving_info;
        if serving.cert_file.as_os_str().is_empty() != serving.key_file.as_os_str().is_empty() {
            return Err(OperatorConfigProblem::HalfCertificate);
        }
        Ok(config)
    }

    /// Where health is served, if the file says it.
    pub fn listen(&self) -> Option<SocketAddr> {
        listen(&self.serving_info.bind_address).ok()
    }

    /// Certificate and key to serve health with.
    pub fn certificate(&self) -> Option<(&Path, &Path)> {
        let serving = &self.serving_info;
        let is_given = !serving.cert_file.as_os_str().is_empty();
        is_given.then_some((&serving.cert_file, &serving.key_file))
    }

    /// The namespace of the Lease.
    pub fn lease_namespace(&self) -> Option<&str> {
        Some(self.leader_election.namespace.as_str()).filter(|name| !name.is_empty())
    }

    /// The name of the Lease.
    pub fn lease_name(&self) -> Option<&str> {
        Some(self.leader_election.name.as_str()).filter(|name| !name.is_empty())
    }

    /// What it says to no effect, and why.
    pub fn notes(&self) -> Vec<String> {
        [
            ("authentication", self.authentication != Disabled::default()),
            ("authorization", self.authorization != Disabled::default()),
        ]
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(field, _)| {
            format!(
                "{field} in the file of --config is without effect: \
                 health and metrics are served to everybody"
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_file_sets_listen_address_certificate_and_lease() {
        let text = "
apiVersion: operator.openshift.io/v1alpha1
kind: GenericOperatorConfig
servingInfo:
  bindAddress: 127.0.0.1:9443
  certFile: tls.crt
  keyFile: tls.key
leaderElection:
  disable: true
  leaseDuration: 60s
  name: other-lock
  namespace: agents
authorization:
  disabled: true
";
        let config = OperatorConfig::parse(text).unwrap();
        assert_eq!(config.listen(), Some("127.0.0.1:9443".parse().unwrap()));
        assert_eq!(config.certificate(), Some((Path::new("tls.crt"), Path::new("tls.key"))));
        assert_eq!(config.lease_name(), Some("other-lock"));
        assert_eq!(config.lease_namespace(), Some("agents"));
        assert_eq!(config.notes().len(), 1);
        for text in ["", "  \n", "kind: GenericOperatorConfig", "{}"] {
            let config = OperatorConfig::parse(text).unwrap();
            assert_eq!(config, OperatorConfig::default(), "{text:?}");
        }
    }

    #[test]
    fn invalid_files_are_errors_that_name_the_field() {
        for (text, problem) in [
            ("[1]", "invalid type"),
            ("servingInfo: {bindAddress: here}", "servingInfo.bindAddress"),
            ("servingInfo: {certFile: a}", "both certFile and keyFile"),
            ("leaderElection: {name: [1]}", "leaderElection"),
        ] {
            let found = OperatorConfig::parse(text).unwrap_err().to_string();
            assert!(found.contains(problem), "{text}: {found}");
        }
        assert!(matches!(
            OperatorConfig::read(Path::new("/nonexistent")),
            Err(OperatorConfigError::Read { .. })
        ));
    }
}
