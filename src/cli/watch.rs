//! `--watch`: follows the hub until Ctrl-C, SIGTERM, or until the reader closes the pipe. On a
//! terminal the view is drawn in place; otherwise each transition is one line (or one JSON or YAML
//! document), as soon as the hub reports it.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval, sleep_until};

use super::error::CommandError;
use super::exit::Exit;
use super::output;
use super::output::OutputError;
use super::signals::SignalError;
use super::view_args::{View, ViewFormat, ViewOptions};
use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
use gitwork_core::text::escape::single_line;
use gitwork_core::text::style::ColorMode;
use gitwork_core::text::truncate::truncate_columns;
use gitwork_core::text::yaml;
use gitwork_hub::fleet;
use gitwork_hub::fleet::{FleetError, Selection, ViewEvents};
use gitwork_report::status::live::{LiveWorks, ViewEvent, ViewTransition};
use gitwork_report::status::print;
use gitwork_report::status::tree::WorkTree;

/// Changes come in bursts: the terminal is redrawn once for all changes in this time.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause before the terminal is redrawn is at least so many times as long as drawing it takes.
const PAUSE_FOR_DRAWING: u32 = 4;

/// The ages in the view grow without any change on the hub.
const REDRAW: Duration = Duration::from_secs(5);

/// Switches to the terminal's alternate screen and hides the cursor.
const SCREEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
/// Switches back, and shows the cursor.
const SCREEN_BACK: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Shows the selected works until the end of the watch.
pub async fn follow(
    client: &Client,
    selection: &Selection,
    options: &ViewOptions,
) -> Result<Exit, CommandError> {
    let changes = fleet::watch(client, selection);
    let live = LiveWorks::new(options.view == View::Objects);
    if options.is_text() && is_screen() {
        draw(changes, live, options).await
    } else {
        append(changes, live, options).await
    }
}

fn is_screen() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The watch of the hub ended, although it reconnects by itself.
#[derive(Debug, thiserror::Error)]
#[error("the watch of the hub has ended; this is a bug in gitwork")]
struct WatchEndedError;

impl OperationError for WatchEndedError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Bug
    }

    fn reason(&self) -> &'static str {
        "WatchEnded"
    }
}

/// Ends with a signal, or when the reader is gone.
async fn end_of_watch() -> Result<(), CommandError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(SignalError)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(SignalError)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = reader_gone() => {}
    }
    Ok(())
}

/// Ends when the reader of the pipe at stdout closes it; never if stdout is a file.
async fn reader_gone() {
    // Nothing is written through this handle, so the pipe may be a blocking one. A file cannot be
    // polled, and has no reader.
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    if let Ok(stdout) = stdout.and_then(pipe::Sender::from_owned_fd_unchecked) {
        while let Ok(ready) = stdout.ready(Interest::ERROR).await {
            if ready.is_error() {
                return;
            }
        }
    }
    std::future::pending::<()>().await;
}

/// One line or document for each transition.
async fn append(
    mut changes: ViewEvents,
    mut live: LiveWorks,
    options: &ViewOptions,
) -> Result<Exit, CommandError> {
    let mut end = std::pin::pin!(end_of_watch());
    let mut errors = WatchErrors::default();
    loop {
        let change = tokio::select! {
            ended = &mut end => return ended.map(|()| Exit::Done),
            change = changes.next() => change,
        };
        let Some(change) = errors.filter(change, output::note)? else { continue };
        let news = live.apply(change);
        let text: String = news
            .iter()
            .filter(|one| {
                let kept = [one.state, one.before];
                options.matches_name(&one.cluster, &one.work)
                    && kept.into_iter().any(|state| options.matches_state(state, one.unreachable))
            })
            .map(|one| line(one, options.format))
            .collect();
        if !output::write(&text)? {
            return Ok(Exit::Done);
        }
    }
}

fn line(one: &ViewTransition, format: ViewFormat) -> String {
    let at = Timestamp::now();
    let value = || {
        let mut value = json!({ "time": at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string() });
        if let (Some(value), Ok(serde_json::Value::Object(fields))) =
            (value.as_object_mut(), serde_json::to_value(one))
        {
            value.extend(fields);
        }
        value
    };
    match format {
        ViewFormat::Json => output::json_line(&value()),
        ViewFormat::Yaml => format!("---\n{}", yaml::write(&value())),
        ViewFormat::Table | ViewFormat::Wide => {
            print::transition(one, at, ColorMode::Colored) + "\n"
        }
    }
}

/// The errors of the watch, each noted once.
#[derive(Default)]
struct WatchErrors {
    noted: Option<FleetError>,
    /// The hub has reported works before.
    has_worked: bool,
}

impl WatchErrors {
    /// Passes a change on, and notes an error. An error that needs action and comes first is fatal:
    /// nothing would ever be shown.
    fn filter(
        &mut self,
        change: Option<Result<ViewEvent, FleetError>>,
        note: impl FnOnce(&str),
    ) -> Result<Option<ViewEvent>, CommandError> {
        match change {
            Some(Ok(change)) => {
                match change {
                    ViewEvent::Updated(_)
                    | ViewEvent::Removed { .. }
                    | ViewEvent::ListCompleted => {
                        (self.noted, self.has_worked) = (None, true);
                    }
                    // The start of a list is no result yet; the others are not about works.
                    ViewEvent::ListStarted | ViewEvent::Unreachable(_) | ViewEvent::Reported(_) => {
                    }
                }
                Ok(Some(change))
            }
            Some(Err(error)) if error.needs_action() && !self.has_worked => Err(error.into()),
            Some(Err(error)) => {
                if self.noted.as_ref() != Some(&error) {
                    note(&format!("the view may be out of date: {}", describe(&error)));
                }
                self.noted = Some(error);
                Ok(None)
            }
            None => Err(WatchEndedError.into()),
        }
    }
}

/// The terminal's alternate screen; left when dropped.
struct Screen;

impl Screen {
    fn open() -> Result<Self, CommandError> {
        write_raw(SCREEN)?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The error cannot be shown any more.
        let _lost = write_raw(SCREEN_BACK);
    }
}

/// Writes terminal commands, past the stream that removes colours.
fn write_raw(text: &str) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    Ok(written.map_err(OutputError::Terminal)?)
}

/// Draws the view in place. Its last state stays on the terminal.
async fn draw(
    mut changes: ViewEvents,
    mut live: LiveWorks,
    options: &ViewOptions,
) -> Result<Exit, CommandError> {
    let mut resized = signal(SignalKind::window_change()).map_err(SignalError)?;
    let mut end = std::pin::pin!(end_of_watch());
    let mut redraw = interval(REDRAW);
    let mut errors = WatchErrors::default();
    let mut note: Option<String> = None;
    let (mut due, mut pause) = (Some(Instant::now()), PAUSE);
    let screen = Screen::open()?;
    let ended = loop {
        tokio::select! {
            ended = &mut end => break ended,
            change = changes.next() => {
                match errors.filter(change, |text| note = Some(text.to_owned())) {
                    Ok(Some(change)) => {
                        note = note.filter(|_| errors.noted.is_some());
                        live.apply(change);
                    }
                    Ok(None) => {}
                    Err(failure) => break Err(failure),
                }
                due.get_or_insert(Instant::now() + pause);
            }
            _ = redraw.tick() => due = Some(Instant::now()),
            _ = resized.recv() => due = Some(Instant::now()),
            () = at(due) => {
                due = None;
                let begun = Instant::now();
                let frame = frame(&live, options, note.as_deref());
                pause = PAUSE.max(begun.elapsed() * PAUSE_FOR_DRAWING);
                if write_raw(&frame).is_err() {
                    break Ok(());
                }
            }
        }
    };
    drop(screen);
    ended?;
    if live.is_known() {
        let lines = options.text(&shown(&live, options), live.reports(), output::width());
        output::print(&(lines.join("\n") + "\n"))?;
    }
    Ok(Exit::Done)
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn shown<'a>(live: &'a LiveWorks, options: &ViewOptions) -> Vec<&'a WorkTree> {
    live.works().filter(|tree| options.matches(tree)).collect()
}

/// One screen: as many lines as fit, each cut to the width, and the number of lines left out.
fn frame(live: &LiveWorks, options: &ViewOptions, note: Option<&str>) -> String {
    let (width, height) = output::size();
    let works = shown(live, options);
    let mut lines = if live.is_known() || !works.is_empty() {
        options.text(&works, live.reports(), Some(width))
    } else {
        vec!["waiting for the hub …".to_owned()]
    };
    let summary = lines.pop().unwrap_or_default();
    let is_reading = !live.is_known() && !works.is_empty();
    let note = note.or(is_reading.then_some("reading the hub; these are the works so far"));
    let note = note.map(|note| truncate_columns(&single_line(note), width).into_owned());
    // The summary, an empty line, and the note if there is one.
    let room = height.saturating_sub(3 + usize::from(note.is_some()));
    if lines.len() > room {
        let left_out = lines.len() - room.saturating_sub(1);
        lines.truncate(room.saturating_sub(1));
        let hint = "use --cluster, --work and --state to select";
        lines.push(format!("… {left_out} more lines; {hint}"));
    }
    lines.push(String::new());
    lines.push(truncate_columns(&summary, width).into_owned());
    lines.extend(note);
    let text = lines.join("\u{1b}[K\r\n");
    let text = match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => {
            // Remove colours only.
            let plain = lines.iter().map(|line| anstream::adapter::strip_str(line).to_string());
            plain.collect::<Vec<_>>().join("\u{1b}[K\r\n")
        }
        _ => text,
    };
    format!("\u{1b}[H{text}\u{1b}[K\u{1b}[J")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn works_are_drawn_before_the_first_list_is_complete() {
        let options = ViewOptions::table_of_all();
        let work = json!({"metadata": {"namespace": "edge-7", "name": "web"}});
        let mut live = LiveWorks::new(false);
        live.apply(ViewEvent::ListStarted);
        assert!(frame(&live, &options, None).contains("waiting for the hub"));
        live.apply(ViewEvent::Updated(Box::new(WorkTree::of(&work, |_| false))));
        let early = frame(&live, &options, None);
        assert!(early.contains("edge-7") && early.contains("the works so far"), "{early}");
        live.apply(ViewEvent::ListCompleted);
        let complete = frame(&live, &options, None);
        assert!(complete.contains("edge-7") && !complete.contains("so far"), "{complete}");
    }

    #[test]
    fn only_reports_about_works_prove_that_the_watch_works() {
        let error = || FleetError::CrdMissing { kind: "ManifestWork" };
        for (first, ends) in [
            (ViewEvent::ListStarted, true),
            (ViewEvent::Unreachable(BTreeSet::new()), true),
            (ViewEvent::Reported(Vec::new()), true),
            (ViewEvent::ListCompleted, false),
        ] {
            let mut errors = WatchErrors::default();
            let first_change = format!("{first:?}");
            errors.filter(Some(Ok(first)), |_| {}).unwrap();
            let mut notes = 0;
            let ended = errors.filter(Some(Err(error())), |_| notes += 1).is_err();
            assert_eq!((ended, notes), (ends, usize::from(!ends)), "{first_change}");
        }
    }
}
