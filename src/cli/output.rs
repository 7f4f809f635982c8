//! Output to stdout and stderr. A reader that closes its pipe early (`gitwork render | head`) is no
//! error. The streams remove colour if the target is no terminal or `NO_COLOR` is set.

use std::io;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anstyle::AnsiColor;
use serde_json::Value;
use terminal_size::{Height, Width, terminal_size_of};

use super::error::CommandError;
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
use gitwork_core::text::diagnostics::text;
use gitwork_core::text::escape::{
    escape_invisible, escape_lines, escape_untrusted_json, json_text,
};
use gitwork_core::text::style::ColorMode;

/// Why the output of a command was not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A write to stdout failed.
    #[error("cannot write to stdout")]
    Stdout(#[source] io::Error),
    /// A control sequence was not written.
    #[error("cannot write to the terminal")]
    Terminal(#[source] io::Error),
    /// A file or its folder was not written.
    #[error("cannot write {}", .path.display())]
    File { path: PathBuf, source: io::Error },
}

impl OperationError for OutputError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Output"
    }
}

/// Writes data to stdout.
pub fn print(text: &str) -> Result<(), CommandError> {
    write(text).map(drop)
}

/// Writes data to stdout. Returns `false` if the reader has closed the pipe.
pub fn write(text: &str) -> Result<bool, CommandError> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(OutputError::Stdout(error).into()),
    }
}

/// Writes JSON to stdout. Control sequences for terminals are escaped.
pub fn json(value: &Value) -> Result<(), CommandError> {
    print(&json_text(value))
}

/// As [`json`], on one line.
pub fn json_line(value: &Value) -> String {
    escape_untrusted_json(&value.to_string()) + "\n"
}

/// The terminal's width in columns; `None` if stdout is not a terminal.
pub fn width() -> Option<usize> {
    terminal_size_of(io::stdout()).map(|(Width(width), _)| width.into())
}

/// The terminal's size in columns and lines; 80 x 24 if unknown.
pub fn size() -> (usize, usize) {
    let known = terminal_size_of(io::stdout());
    known.map_or((80, 24), |(Width(width), Height(height))| (width.into(), height.into()))
}

/// Writes a note about a failure that the command goes on after: `what` failed for this reason.
pub fn note_failure(what: &str, why: &dyn OperationError) {
    note(&format!("{what}: {}", describe(why)));
}

/// Writes a note to stderr. Control characters but line breaks are escaped: the text may quote a
/// repository or a hub. Failed writes are ignored.
pub fn note(text: &str) {
    write_note(&escape_lines(text));
}

/// Writes why the command failed.
pub fn error(message: &str) {
    let red = AnsiColor::Red.on_default().bold();
    write_note(&format!("{red}error{red:#}: {}", escape_lines(message)));
}

/// Writes a text that has the program's own colours.
fn write_note(colored: &str) {
    let mut stderr = anstream::stderr().lock();
    let _lost = writeln!(stderr, "{}", escape_invisible(colored));
}

/// Writes the problems of a repository to stderr.
pub fn diagnostics(diagnostics: &[Diagnostic]) {
    if !diagnostics.is_empty() {
        write_note(text(diagnostics, ColorMode::Colored).trim_end());
    }
}
