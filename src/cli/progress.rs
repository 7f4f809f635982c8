//! How far a long read has come, on the terminal at stderr.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(500);

/// One line that is written over, and removed at the end.
pub struct HubReadProgress {
    is_terminal: bool,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// When it was written last.
    written: Option<Instant>,
    is_shown: bool,
}

impl HubReadProgress {
    /// Nothing is shown if stderr is no terminal, or one that cannot remove a line.
    pub fn start() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = io::stderr().is_terminal() && !is_dumb;
        Self { is_terminal, line: Mutex::default() }
    }

    /// So many works were read, and others follow. Does not wait for [`Self::above`].
    pub fn works(&self, count: usize) {
        let Ok(mut line) = self.line.try_lock() else { return };
        let is_fresh = line.written.is_some_and(|written| written.elapsed() < EVERY);
        if self.is_terminal && !is_fresh {
            *line = Line { written: Some(Instant::now()), is_shown: true };
            write(&format!("\rreading the hub: {count} works so far"));
        }
    }

    /// Removes the line, and calls what writes to the same terminal.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.remove();
        print()
    }

    /// Removes the line.
    pub fn remove(&self) {
        self.above(|| ());
    }
}

impl Line {
    fn remove(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            write("\r\u{1b}[K");
        }
    }
}

/// Failed writes are ignored.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _lost = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
