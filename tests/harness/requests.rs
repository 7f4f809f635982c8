//! The requests of clients to an API server, from its audit log: to count writes, or to show that
//! there are none.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

const POLICY: &str = "audit-policy.json";
const LOG: &str = "audit.log";

/// A request that an API server received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The verb of RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, ….
    pub verb: String,
    /// `manifestworks`, `manifestworks/status`, or the path if the request has no object:
    /// `/readyz`.
    pub resource: String,
    /// Empty if there is none.
    pub namespace: String,
    /// Empty if there is none.
    pub name: String,
    pub user: String,
    /// When the API server received it.
    pub at: Timestamp,
    pub user_agent: String,
}

/// A reader of an audit log. [`Cluster::requests`] returns it.
pub struct Requests {
    log: PathBuf,
    /// In bytes.
    position: u64,
}

impl Request {
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    fn parse(line: &str) -> Result<Request> {
        let event: Value = serde_json::from_str(line)?;
        let text =
            |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut resource = text("/objectRef/resource");
        let subresource = text("/objectRef/subresource");
        if resource.is_empty() {
            resource = text("/requestURI").split('?').next().unwrap_or_default().to_owned();
        }
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        Ok(Request {
            verb: text("/verb"),
            resource,
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            user: text("/user/username"),
            at: text("/requestReceivedTimestamp").parse()?,
            user_agent: text("/userAgent"),
        })
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { verb, resource, namespace, name, user_agent, .. } = self;
        write!(f, "{verb} {resource} {namespace}/{name} by {user_agent}")
    }
}

impl Requests {
    pub(super) fn from_now_on(folder: &Path) -> Result<Requests> {
        let log = folder.join(LOG);
        let position = fs::metadata(&log).with_context(|| format!("read {}", log.display()))?.len();
        Ok(Requests { log, position })
    }

    /// The requests since the last call, in order. A request is here before its client gets the
    /// response.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub fn take(&mut self) -> Vec<Request> {
        self.read().unwrap()
    }

    fn read(&mut self) -> Result<Vec<Request>> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.position))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // The text after the last line end is still being written.
        text.truncate(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
        self.position += text.len() as u64;
        String::from_utf8(text)?.lines().map(Request::parse).collect()
    }
}

/// The number of requests for each verb and resource: `{"patch manifestworks": 3}`.
pub fn tally<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(format!("{} {}", request.verb, request.resource)).or_default() += 1;
    }
    counts
}

/// Writes the audit policy to `folder`, and returns the flags of an API server that logs there.
pub(super) fn audit_flags(folder: &Path) -> Result<[String; 4]> {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        // Only the first stage: later stages are written after the response.
        "omitStages": ["ResponseStarted", "ResponseComplete"],
        "rules": [
            // The server's requests to itself.
            {"level": "None", "users": ["system:apiserver"]},
            {"level": "Metadata"},
        ],
    });
    fs::write(folder.join(POLICY), policy.to_string())?;
    Ok([
        format!("--audit-policy-file={}", folder.join(POLICY).display()),
        format!("--audit-log-path={}", folder.join(LOG).display()),
        // A response waits for the line.
        "--audit-log-mode=blocking".to_owned(),
        // In megabytes. A new file would be missed, so the size is never reached; the default is
        // 100.
        "--audit-log-maxsize=100000".to_owned(),
    ])
}
