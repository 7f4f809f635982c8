//! Prints on a thread of its own, so that a reader that takes its time (`gitwork status | less`)
//! does not hold up the read of the hub, which the API server would end.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::error::CommandError;
use super::progress::HubReadProgress;

/// Texts on their way to stdout.
pub struct Printer {
    /// `None` once no text follows.
    texts: Option<UnboundedSender<String>>,
    /// Gives `false` if the reader has closed the pipe.
    thread: Option<JoinHandle<Result<bool, CommandError>>>,
}

impl Printer {
    /// Texts are printed by `write` above the line of `progress`. See [`super::output::write`].
    pub fn start(
        progress: Arc<HubReadProgress>,
        write: impl Fn(&str) -> Result<bool, CommandError> + Send + 'static,
    ) -> Self {
        let (texts, mut received) = unbounded_channel::<String>();
        let print_all = move || {
            while let Some(text) = received.blocking_recv() {
                if !progress.above(|| write(&text))? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        Self { texts: Some(texts), thread: Some(std::thread::spawn(print_all)) }
    }

    /// Prints a text after those before. Returns `false` if nothing can be printed any more.
    pub fn print(&self, text: String) -> bool {
        self.texts.as_ref().is_some_and(|texts| texts.send(text).is_ok())
    }

    /// Waits until all is printed. Returns `false` if the reader has closed the pipe.
    pub fn end(&mut self) -> Result<bool, CommandError> {
        self.texts = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(printed)) => printed,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(true),
        }
    }
}

impl Drop for Printer {
    /// What was printed before an error is not lost.
    fn drop(&mut self) {
        let _another_error_is_shown = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn slow_reader_holds_nothing_up_and_gets_everything() {
        let (take, taken) = mpsc::channel();
        let (pipe, reader) = mpsc::channel();
        let write = move |text: &str| {
            taken.recv().unwrap();
            Ok(pipe.send(text.to_owned()).is_ok())
        };
        let mut printer = Printer::start(Arc::new(HubReadProgress::start()), write);
        // Nobody takes them yet.
        assert!(["a", "b", "c"].iter().all(|text| printer.print((*text).to_owned())));
        for _ in 0..3 {
            take.send(()).unwrap();
        }
        assert!(printer.end().unwrap());
        assert_eq!(reader.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn nothing_is_printed_once_the_reader_is_gone() {
        let mut printer = Printer::start(Arc::new(HubReadProgress::start()), |_| Ok(false));
        while printer.print("a".to_owned()) {
            std::thread::yield_now();
        }
        assert!(!printer.end().unwrap());
    }
}
