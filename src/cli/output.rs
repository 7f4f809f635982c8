//! Where text goes. A reader that closes its pipe early (`gitwork render | head`) is no error. Colour is left out
//! by the streams themselves where the target is no terminal or `NO_COLOR` is set.

use std::io::{ErrorKind, Write};

use anstyle::AnsiColor;
use serde_json::Value;
use terminal_size::{Height, Width, terminal_size_of};

use super::Failure;
use crate::core::diagnostic::Diagnostic;
use crate::core::report::{self, Style};

/// Writes data to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// Writes data to stdout, and answers whether somebody still reads it.
pub fn write(text: &str) -> Result<bool, Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot write to stdout: {error}"))),
    }
}

/// Writes JSON to stdout. What a terminal would take for a command is escaped.
pub fn json(value: &Value) -> Result<(), Failure> {
    print(&format!("{}\n", report::harmless_json(&format!("{value:#}"))))
}

/// JSON on one line, as [`json`].
pub fn json_line(value: &Value) -> String {
    report::harmless_json(&value.to_string()) + "\n"
}

/// The terminal's columns; `None` where stdout is none.
pub fn width() -> Option<usize> {
    terminal_size_of(std::io::stdout()).map(|(Width(width), _)| width.into())
}

/// The terminal's columns and lines; those of a VT100 where it does not tell.
pub fn size() -> (usize, usize) {
    let known = terminal_size_of(std::io::stdout());
    known.map_or((80, 24), |(Width(width), Height(height))| (width.into(), height.into()))
}

/// Tells something that is not data. What stderr does not take is lost, and nothing else.
pub fn note(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _lost = writeln!(stderr, "{text}");
}

/// Tells why the command failed.
pub fn error(message: &str) {
    let red = AnsiColor::Red.on_default().bold();
    note(&format!("{red}error{red:#}: {message}"));
}

/// Tells what is wrong with a repository.
pub fn diagnostics(diagnostics: &[Diagnostic]) {
    if !diagnostics.is_empty() {
        note(report::text(diagnostics, Style::Coloured).trim_end());
    }
}
