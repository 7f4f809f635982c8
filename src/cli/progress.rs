//! How far a long read has come, on the terminal at stderr.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How often the line is written.
const EVERY: Duration = Duration::from_millis(500);

/// One line that is written over, and removed at the end.
pub struct HubReadProgress {
    is_terminal: bool,
    /// When the line was written last.
    written: Cell<Option<Instant>>,
    is_shown: Cell<bool>,
}

impl HubReadProgress {
    /// Nothing is shown if stderr is no terminal, or one that cannot remove a line.
    pub fn start() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = io::stderr().is_terminal() && !is_dumb;
        Self { is_terminal, written: Cell::new(None), is_shown: Cell::new(false) }
    }

    /// So many works were read, and others follow.
    pub fn works(&self, count: usize) {
        let is_fresh = self.written.get().is_some_and(|written| written.elapsed() < EVERY);
        if !self.is_terminal || is_fresh {
            return;
        }
        self.written.set(Some(Instant::now()));
        self.is_shown.set(true);
        write(&format!("\rreading the hub: {count} works so far"));
    }

    /// Removes the line, until more works were read.
    pub fn clear(&self) {
        if self.is_shown.replace(false) {
            write("\r\u{1b}[K");
        }
    }
}

impl Drop for HubReadProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Failed writes are ignored.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _lost = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
