//! `explain GW403`: what docs/diagnostics.md says of a code.

use gitwork_core::model::diagnostic::Code;
use gitwork_core::text::{closest, yaml};
use serde_json::{Value, json};

use super::error::{CommandError, did_you_mean};
use super::output;
use super::view_args::ViewFormat;

/// Generated from the codes, so it has a section for each.
const PAGE: &str = include_str!("../../docs/diagnostics.md");

/// The code that an argument names, in any case; `None` if it names a work.
///
/// # Errors
/// If it looks like a code and is none.
pub fn code_named(what: &str) -> Result<Option<Code>, CommandError> {
    let what = what.to_ascii_uppercase();
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !what.strip_prefix("GW").is_some_and(is_number) {
        return Ok(None);
    }
    let mut all = Code::ALL.iter();
    let found = all.find(|code| code.id() == what);
    found.copied().map(Some).ok_or_else(|| {
        let hint = did_you_mean(closest(&what, Code::ALL.iter().map(|code| code.id())));
        CommandError::usage(format!("there is no diagnostic {what}{hint}"))
    })
}

/// Prints the section of a code.
pub fn explain_code(code: Code, format: ViewFormat) -> Result<(), CommandError> {
    match format {
        ViewFormat::Table | ViewFormat::Wide => output::print(&section(code)),
        ViewFormat::Json => output::json(&value(code)),
        ViewFormat::Yaml => output::print(&yaml::write(&value(code))),
    }
}

fn value(code: Code) -> Value {
    json!({
        "code": code.id(), "title": code.title(), "severity": code.severity(),
        "help": code.help(), "page": section(code),
    })
}

/// Its title and text, with an example and the message.
fn section(code: Code) -> String {
    let heading = format!("### {}: ", code.id());
    let from = PAGE.find(&heading).map_or(PAGE.len(), |at| at + "### ".len());
    let text = &PAGE[from..];
    // No line of an example begins like a heading: the test below looks at each section.
    let end = ["\n## ", "\n### "].iter().filter_map(|next| text.find(next)).min();
    format!("{}\n", text[..end.unwrap_or(text.len())].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_section_and_no_other() {
        for code in Code::ALL {
            let text = section(*code);
            assert!(text.starts_with(&format!("{}: {}\n", code.id(), code.title())), "{text}");
            assert!(text.contains("```text\n") && !text.contains("\n### "), "{text}");
            assert_eq!(code_named(&code.id().to_lowercase()).unwrap(), Some(*code));
        }
    }

    #[test]
    fn unknown_code_is_an_error_and_a_work_no_code() {
        for work in ["edge-1/GW101", "gwen", "GW", "gw104x"] {
            assert_eq!(code_named(work).unwrap(), None, "{work}");
        }
        let error = code_named("GW1010").unwrap_err();
        assert_eq!(error.message(), "there is no diagnostic GW1010; did you mean GW101?");
    }
}
