//! How far a long read has come, on the terminal at stderr.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// A read that takes no longer says nothing, and a longer one says so every so often.
const EVERY: Duration = Duration::from_millis(500);

/// One line that is written over, and removed at the end.
pub struct HubReadProgress {
    is_terminal: bool,
    last: Cell<Instant>,
    is_shown: Cell<bool>,
}

impl HubReadProgress {
    /// Nothing is shown if stderr is no terminal, or one that cannot remove a line.
    pub fn start() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = io::stderr().is_terminal() && !is_dumb;
        Self { is_terminal, last: Cell::new(Instant::now()), is_shown: Cell::new(false) }
    }

    /// So many works were read.
    pub fn works(&self, count: usize) {
        if !self.is_terminal || self.last.get().elapsed() < EVERY {
            return;
        }
        self.last.set(Instant::now());
        self.is_shown.set(true);
        write(&format!("\rreading the hub: {count} works so far"));
    }
}

impl Drop for HubReadProgress {
    fn drop(&mut self) {
        if self.is_shown.get() {
            write("\r\u{1b}[K");
        }
    }
}

/// Failed writes are ignored.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _lost = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
