//! The bounds of this crate, each with its reason. Input past a bound is reported, never silently
//! cut.

use std::time::Duration;

/// The time of one commit status, from name resolution to the end of the response.
pub const FORGE_CALL: Duration = Duration::from_secs(15);
/// Setting up a connection to a forge, or to the proxy before it. TLS is not included.
pub const FORGE_CONNECT: Duration = Duration::from_secs(5);
/// The size of a forge's response in bytes. A commit status has about 5 KiB, an error page slightly
/// more.
pub const FORGE_ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The size of a token file in bytes. JSON Web Tokens are the longest, with a few KiB.
pub const TOKEN_BYTES_MAX: u64 = 64 * 1024;
/// The size of a CA bundle in bytes. That of a whole system has about 250 KiB.
pub const CA_BUNDLE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Clusters and groups of one source with their own commit status. A forge shows each on every
/// commit's page.
pub const FORGE_CONTEXTS_MAX: usize = 50;
/// How long a pending status waits until the hub has noted it. A patch takes some milliseconds; a
/// hub that is down must not delay the statuses much.
pub const OPEN_STATUS_NOTED: Duration = Duration::from_secs(5);
