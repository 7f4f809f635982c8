//! Escapes of untrusted text: from a repository, a hub, a forge or a client.

pub use gitwork_api::escape::{
    escape_invisible, escape_untrusted, escape_untrusted_json, single_line,
};
