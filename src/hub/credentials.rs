//! The credentials of a connection, which are read again when they rotate.

use std::time::Duration;

use gitwork_kube::connection::ApiConnection;
use kube::Client;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::client::{ClientError, Connect};
use crate::limits;

/// Why the credentials could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HubCredentialsError {
    /// It took too long.
    #[error("no credentials in time")]
    Late,
    /// There is no client with them.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<HubCredentialsError> for ClientError {
    fn from(error: HubCredentialsError) -> Self {
        match error {
            HubCredentialsError::Late => Self::Setup(error.to_string()),
            HubCredentialsError::Client(error) => error,
        }
    }
}

/// Reads the credentials of a connection.
pub struct HubCredentials {
    connect: Connect,
    /// How long one reading may take.
    within: Duration,
    /// When they were last read again.
    renewed: Mutex<Option<Instant>>,
}

impl HubCredentials {
    /// `connect` makes a client from the current credentials, and may take `within`.
    pub fn new(connect: Connect, within: Duration) -> Self {
        Self { connect, within, renewed: Mutex::new(None) }
    }

    /// A client with the current credentials.
    ///
    /// # Errors
    /// They cannot be read, or not in time.
    pub async fn read(&self) -> Result<Client, HubCredentialsError> {
        let client = timeout(self.within, (self.connect)()).await;
        Ok(client.map_err(|_| HubCredentialsError::Late)??)
    }

    /// Reads them again for a connection whose API server rejected them, unless that just happened:
    /// another call has read them meanwhile, or the new ones are rejected too.
    ///
    /// # Errors
    /// They cannot be read, or not in time.
    pub async fn renew(&self, connection: &ApiConnection) -> Result<(), HubCredentialsError> {
        let mut renewed = self.renewed.lock().await;
        if renewed.is_some_and(|at| at.elapsed() < limits::HUB_RECONNECT) {
            return Ok(());
        }
        *renewed = Some(Instant::now());
        connection.set_client(self.read().await?);
        tracing::info!("the hub did not accept the credentials; read them again");
        Ok(())
    }
}
