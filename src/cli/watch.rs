//! `--watch`: follows the hub until Ctrl-C, SIGTERM or the end of whoever reads. On a terminal the view is drawn in
//! place; anywhere else each transition is one line (or one JSON or YAML document), as soon as the hub tells it.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval, sleep_until};

use super::view_args::{Show, View, ViewFormat};
use super::{Exit, Failure, output};
use crate::core::report::Style;
use crate::core::status::live::{Change, Live, Transition};
use crate::core::status::print;
use crate::core::status::tree::WorkTree;
use crate::core::table;
use crate::core::yaml;
use crate::hub::fleet::{self, FleetError, Selection};

/// Changes come in bursts: a terminal is drawn once for those of this time.
const PAUSE: Duration = Duration::from_millis(100);

/// Ages grow also where nothing happens.
const REDRAW: Duration = Duration::from_secs(5);

/// The screen that a program has to itself, and back; the cursor is hidden there.
const SCREEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
const SCREEN_BACK: &str = "\u{1b}[?25h\u{1b}[?1049l";

pub async fn follow(client: &Client, selection: &Selection, show: &Show) -> Result<Exit, Failure> {
    let text = matches!(show.format, ViewFormat::Table | ViewFormat::Wide);
    let changes = fleet::watch(client, selection);
    let live = Live::new(show.view == View::Objects);
    if text && is_screen() {
        draw(changes, live, show).await
    } else {
        append(changes, live, show).await
    }
}

fn is_screen() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

type Changes = BoxStream<'static, Result<Change, FleetError>>;

/// Ends when somebody asks for the end, or nobody reads any more.
async fn asked_to_end() -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::new)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::new)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = reader_gone() => {}
    }
    Ok(())
}

/// Ends when the other end of the pipe at stdout is closed; never where stdout is a file.
async fn reader_gone() {
    // Nothing is written through it, so that it need not be a pipe that does not block. A file cannot be waited for,
    // and has no reader to lose.
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
async fn append(mut changes: Changes, mut live: Live, show: &Show) -> Result<Exit, Failure> {
    let mut end = std::pin::pin!(asked_to_end());
    let mut trouble = Trouble::default();
    loop {
        let change = tokio::select! {
            ended = &mut end => return ended.map(|()| Exit::Done),
            change = changes.next() => change,
        };
        let Some(change) = trouble.take(change, output::note)? else { continue };
        let news = live.apply(change);
        let text: String = news
            .iter()
            .filter(|one| {
                let kept = [one.state, one.before];
                show.admits_name(&one.cluster, &one.work)
                    && kept.into_iter().any(|state| show.admits_state(state, one.unreachable))
            })
            .map(|one| line(one, show.format))
            .collect();
        if !output::write(&text)? {
            return Ok(Exit::Done);
        }
    }
}

fn line(one: &Transition, format: ViewFormat) -> String {
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
        ViewFormat::Table | ViewFormat::Wide => print::transition(one, at, Style::Coloured) + "\n",
    }
}

/// What the hub does not tell for now, told once.
#[derive(Default)]
struct Trouble {
    told: Option<FleetError>,
    /// The hub has told something before.
    known: bool,
}

impl Trouble {
    /// The change, where there is one. What lasts and comes at once is a failure: nothing will ever be shown.
    fn take(
        &mut self,
        change: Option<Result<Change, FleetError>>,
        tell: impl FnOnce(&str),
    ) -> Result<Option<Change>, Failure> {
        match change {
            Some(Ok(change)) => {
                match change {
                    Change::Set(_) | Change::Gone { .. } | Change::Listed => {
                        (self.told, self.known) = (None, true);
                    }
                    // A list that begins is an answer only once it goes on, and the rest is of other kinds than works.
                    Change::Restart | Change::Unreachable(_) | Change::Told(_) => {}
                }
                Ok(Some(change))
            }
            Some(Err(error)) if error.is_lasting() && !self.known => Err(Failure::new(error)),
            Some(Err(error)) => {
                if self.told.as_ref() != Some(&error) {
                    tell(&format!("what is shown may be out of date: {error}"));
                }
                self.told = Some(error);
                Ok(None)
            }
            None => Err(Failure::new("the watch of the hub has ended; this is a bug in gitwork")),
        }
    }
}

/// The terminal's screen, given back whatever happens.
struct Screen;

impl Screen {
    fn open() -> Result<Self, Failure> {
        raw(SCREEN)?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _lost = raw(SCREEN_BACK);
    }
}

/// Commands for the terminal go past what takes colours out.
fn raw(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::new(format!("cannot write to the terminal: {error}")))
}

/// The view in place. Its last state stays on the terminal.
async fn draw(mut changes: Changes, mut live: Live, show: &Show) -> Result<Exit, Failure> {
    let mut resized = signal(SignalKind::window_change()).map_err(Failure::new)?;
    let mut end = std::pin::pin!(asked_to_end());
    let mut redraw = interval(REDRAW);
    let mut trouble = Trouble::default();
    let mut note: Option<String> = None;
    let mut due = Some(Instant::now());
    let screen = Screen::open()?;
    let ended = loop {
        tokio::select! {
            ended = &mut end => break ended,
            change = changes.next() => {
                match trouble.take(change, |text| note = Some(text.to_owned())) {
                    Ok(Some(change)) => {
                        note = note.filter(|_| trouble.told.is_some());
                        live.apply(change);
                    }
                    Ok(None) => {}
                    Err(failure) => break Err(failure),
                }
                due.get_or_insert(Instant::now() + PAUSE);
            }
            _ = redraw.tick() => due = Some(Instant::now()),
            _ = resized.recv() => due = Some(Instant::now()),
            () = at(due) => {
                due = None;
                let frame = frame(&live, show, note.as_deref());
                if raw(&frame).is_err() {
                    break Ok(());
                }
            }
        }
    };
    drop(screen);
    ended?;
    if live.is_known() {
        let lines = show.text(&shown(&live, show), live.told(), output::width());
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

fn shown<'a>(live: &'a Live, show: &Show) -> Vec<&'a WorkTree> {
    live.works().filter(|tree| show.admits(tree)).collect()
}

/// One screen: as many lines as fit, each within the width, and what is left out counted.
fn frame(live: &Live, show: &Show, note: Option<&str>) -> String {
    let (width, height) = output::size();
    let works = shown(live, show);
    let mut lines = if live.is_known() {
        show.text(&works, live.told(), Some(width))
    } else {
        vec!["waiting for the hub …".to_owned()]
    };
    let summary = lines.pop().unwrap_or_default();
    let note = note.map(|note| table::cut(&table::one_line(note), width));
    // The summary, an empty line, and a note where there is one.
    let room = height.saturating_sub(3 + usize::from(note.is_some()));
    if lines.len() > room {
        let left_out = lines.len() - room.saturating_sub(1);
        lines.truncate(room.saturating_sub(1));
        lines
            .push(format!("… {left_out} more lines; --cluster, --work and --state narrow it down"));
    }
    lines.push(String::new());
    lines.push(table::cut(&summary, width));
    lines.extend(note);
    let text = lines.join("\u{1b}[K\r\n");
    let text = match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => {
            // Only colours are taken out: each line is text otherwise.
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
    fn only_what_is_told_of_works_shows_that_the_hub_knows_them() {
        let error = || FleetError::NoCrd { kind: "ManifestWork" };
        for (first, ends) in [
            (Change::Restart, true),
            (Change::Unreachable(BTreeSet::new()), true),
            (Change::Told(Vec::new()), true),
            (Change::Listed, false),
        ] {
            let mut trouble = Trouble::default();
            let told = format!("{first:?}");
            trouble.take(Some(Ok(first)), |_| {}).unwrap();
            let mut notes = 0;
            let ended = trouble.take(Some(Err(error())), |_| notes += 1).is_err();
            assert_eq!((ended, notes), (ends, usize::from(!ends)), "{told}");
        }
    }
}
