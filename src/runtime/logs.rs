//! What no log may hold, whatever is asked of it: answers of API servers, what SSH servers make a
//! library say, and characters that hide or reorder text.

use std::io::{self, Write};

use gitwork_api::escape::{escape_invisible, escape_untrusted_json};
use tracing_subscriber::EnvFilter;

/// kube's client tells at `debug` what API servers answer, and they quote what they refuse: the
/// content of Secrets. The SSH library warns of each odd message, as many as a server sends. What
/// there is to know of a failure is in our own words.
const CLIENTS: [&str; 2] = ["kube_client::client=info", "russh=off"];

/// Leaves that out of a filter.
pub fn without_answers(filter: EnvFilter) -> EnvFilter {
    let directives = CLIENTS.iter().filter_map(|text| text.parse().ok());
    directives.fold(filter, EnvFilter::add_directive)
}

/// Writes lines of a log, with escapes in place of characters that hide or reorder text. It also
/// escapes line breaks in a line: what a client has written must not look like another line.
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
        let escaped = if self.is_json { escape_untrusted_json(&text) } else { one_line(&text) };
        self.to.write_all(escaped.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A line of text, which may have colours.
fn one_line(text: &str) -> String {
    let (line, end) = text.strip_suffix('\n').map_or((text, ""), |line| (line, "\n"));
    escape_invisible(line).replace('\n', "\\n").replace('\r', "\\r") + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_character_that_hides_or_reorders_text() {
        for (is_json, line, written) in [
            (false, "a\u{202e}b\u{200b} \u{1b}[0m\n", "a\\u{202e}b\\u{200b} \u{1b}[0m\n"),
            (false, "a\nb\r c", "a\\nb\\r c"),
            (true, "{\"a\": \"\u{202e}\u{e0041}\"}\n", "{\"a\": \"\\u202e\\udb40\\udc41\"}\n"),
        ] {
            let mut log = EscapedLog { to: Vec::new(), is_json };
            log.write_all(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(log.to).unwrap(), written);
        }
    }

    #[test]
    fn answers_are_left_out_whatever_is_asked_for() {
        for asked in
            ["trace", "kube_client=trace", "kube_client::client=debug,gitwork=debug", "russh=debug"]
        {
            let filter = without_answers(EnvFilter::new(asked)).to_string();
            let of = |target: &str| -> Vec<String> {
                let all = filter.split(',').filter(|one| one.starts_with(target));
                all.map(str::to_owned).collect()
            };
            assert_eq!(
                of("kube_client::client"),
                ["kube_client::client=info"],
                "{asked}: {filter}"
            );
            assert_eq!(of("russh"), ["russh=off"], "{asked}: {filter}");
        }
    }
}
