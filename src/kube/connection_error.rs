//! Describes failures of a connection to an API server, in plain words and without secrets.

use std::error::Error;
use std::io::ErrorKind;

use kube::client::AuthError;

use crate::message::{MESSAGE_CHARS_MAX, one_line};

/// The limit on causes of one error that are followed: a cyclic chain must end.
const CAUSES_MAX: usize = 16;

/// Describes the root cause of a connection failure. The output of a credential plugin is left out:
/// it may contain tokens.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    for _ in 0..CAUSES_MAX {
        if let Some(text) = known(deepest) {
            return text;
        }
        match deepest.source() {
            Some(cause) => deepest = cause,
            None => break,
        }
    }
    one_line(&deepest.to_string(), MESSAGE_CHARS_MAX)
}

fn known(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<AuthError>() {
        return Some(credentials(error));
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(tls(error));
    }
    let io = error.downcast_ref::<std::io::Error>()?;
    // An IO error may wrap a TLS error that is not its `source`.
    if let Some(inner) = io.get_ref() {
        return known(inner);
    }
    match io.kind() {
        ErrorKind::ConnectionRefused => {
            Some("the connection is refused; is the API server running at that address?".into())
        }
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            Some("the connection broke".into())
        }
        ErrorKind::TimedOut => Some("the connection timed out".into()),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            Some("there is no route to it".into())
        }
        _ => None,
    }
}

fn credentials(error: &AuthError) -> String {
    match error {
        AuthError::ReadTokenFile(cause, path) => {
            format!("cannot read the token file {}: {cause}", path.display())
        }
        AuthError::AuthExecStart(cause) => {
            format!("cannot start the kubeconfig's credential plugin: {cause}")
        }
        AuthError::AuthExecRun { cmd, out } => {
            let program = cmd.split_whitespace().next().unwrap_or_default();
            format!("the kubeconfig's credential plugin {program} failed with {}", out.status)
        }
        AuthError::MissingCommand => "the kubeconfig's credential plugin has no command".into(),
        _ => "the kubeconfig's credentials cannot be used".into(),
    }
}

fn tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(cause) => format!(
            "the API server's certificate is not accepted ({cause}); \
             does the kubeconfig have the right CA and address?"
        ),
        rustls::Error::AlertReceived(alert) => format!(
            "the API server ended the TLS handshake ({alert:?}); \
             is the client certificate the right one and still valid?"
        ),
        other => format!("TLS failed: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Box<dyn Error + Send + Sync>);

    #[test]
    fn nested_causes_are_described_without_the_output_of_credential_plugins() {
        let run = AuthError::AuthExecRun {
            cmd: "aws eks get-token --secret t0ps3cret".into(),
            out: Box::new(std::process::Output {
                status: std::process::ExitStatus::default(),
                stdout: b"t0ps3cret".to_vec(),
                stderr: b"t0ps3cret".to_vec(),
            }),
        };
        let unknown_issuer =
            rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let cases: Vec<(Box<dyn Error + Send + Sync>, &str)> = vec![
            (io::Error::from(ErrorKind::ConnectionRefused).into(), "the connection is refused"),
            (io::Error::from(ErrorKind::ConnectionReset).into(), "the connection broke"),
            (
                io::Error::new(ErrorKind::InvalidData, unknown_issuer).into(),
                "is not accepted (UnknownIssuer)",
            ),
            (run.into(), "credential plugin aws failed with exit status: 0"),
            ("something else".into(), "something else"),
        ];
        for (cause, expected) in cases {
            let shown = describe(&Outer(Box::new(Outer(cause))));
            assert!(shown.contains(expected), "{shown}");
            assert!(!shown.contains("t0ps3cret"), "{shown}");
        }
    }
}
