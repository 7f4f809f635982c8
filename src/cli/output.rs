//! Where text goes. A reader that closes its pipe early (`gitwork render | head`) is no error. Colour is left out
//! by the streams themselves where the target is no terminal or `NO_COLOR` is set.

use std::io::{ErrorKind, Write};

use anstyle::AnsiColor;

use super::Failure;
use crate::core::diagnostic::Diagnostic;
use crate::core::report::{self, Style};

/// Writes data to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
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
