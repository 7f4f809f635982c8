//! What no log may hold, whatever is asked of it: answers of API servers, and characters that hide
//! or reorder text.

use std::io::{self, Write};

use gitwork_api::escape::{escape_invisible, escape_untrusted_json};
use tracing_subscriber::EnvFilter;

/// kube's client tells at `debug` what API servers answer, and they quote what they refuse: the
/// content of Secrets. What there is to know of a refusal is in our own words.
const CLIENT: &str = "kube_client::client=info";

/// Leaves that out of a filter.
pub fn without_answers(filter: EnvFilter) -> EnvFilter {
    match CLIENT.parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

/// Writes lines of a log, with escapes in place of characters that hide or reorder text.
#[derive(Debug)]
pub struct EscapedLog<W> {
    to: W,
    is_json: bool,
}

impl EscapedLog<io::Stderr> {
    /// A log on stderr. `is_json`: each line is a JSON value.
    pub fn on_stderr(is_json: bool) -> Self {
        Self { to: io::stderr(), is_json }
    }
}

impl<W: Write> Write for EscapedLog<W> {
    /// Is called once for each line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let escaped =
            if self.is_json { escape_untrusted_json(&text) } else { escape_invisible(&text) };
        self.to.write_all(escaped.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_character_that_hides_or_reorders_text() {
        for (is_json, line, written) in [
            (false, "a\u{202e}b\u{200b} \u{1b}[0m\n", "a\\u{202e}b\\u{200b} \u{1b}[0m\n"),
            (true, "{\"a\": \"\u{202e}\u{e0041}\"}\n", "{\"a\": \"\\u202e\\udb40\\udc41\"}\n"),
        ] {
            let mut log = EscapedLog { to: Vec::new(), is_json };
            log.write_all(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(log.to).unwrap(), written);
        }
    }

    #[test]
    fn answers_are_left_out_whatever_is_asked_for() {
        for asked in ["trace", "kube_client=trace", "kube_client::client=debug,gitwork=debug"] {
            let filter = without_answers(EnvFilter::new(asked)).to_string();
            let client: Vec<&str> =
                filter.split(',').filter(|one| one.starts_with("kube_client::client")).collect();
            assert_eq!(client, [CLIENT], "{asked}: {filter}");
        }
    }
}
