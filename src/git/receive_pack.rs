//! The client of `git-receive-pack` (gitprotocol-pack, "Pushing Data To a Server") for one commit.
//!
//! libgit2's push reads each folder of the remote's tip before it sends a commit. Of a status
//! branch with 1,000 clusters, that is most of what a commit with one changed file costs.

use std::io::{Read, Write};
use std::sync::Arc;

use git2::transport::Service;
use git2::{Error, ObjectType, Oid};

use crate::address::Address;
use crate::error::FetchError;
use crate::push_outcome::PushOutcome;
use crate::transport::{RemoteAttempt, subtransport};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::truncate::truncate_chars;

/// Bytes of one line with its length (gitprotocol-common, pkt-line Format).
const LINE_BYTES_MAX: usize = 65_520;
/// The end of a list of lines.
const FLUSH: &[u8] = b"0000";
/// Characters of a message of the remote.
const MESSAGE_CHARS_MAX: usize = 200;

/// A commit for one branch of a remote.
pub(super) struct PushedCommit<'a> {
    /// The full name of the branch.
    pub(super) reference: &'a str,
    /// The remote's tip that the push builds on; `None` if the branch does not exist.
    pub(super) expected: Option<Oid>,
    pub(super) commit: Oid,
}

impl PushedCommit<'_> {
    /// Pushes it to a remote that is reached over a network.
    pub(super) fn push(
        &self,
        git: &git2::Repository,
        attempt: &Arc<RemoteAttempt>,
    ) -> Result<PushOutcome, FetchError> {
        self.talk(git, attempt).map_err(|error| attempt.explain(error))
    }

    fn talk(
        &self,
        git: &git2::Repository,
        attempt: &Arc<RemoteAttempt>,
    ) -> Result<PushOutcome, Error> {
        let transport = subtransport(attempt);
        let mut stream = transport.action("", Service::ReceivePackLs)?;
        let advertised = Advertisement::read(&mut Lines(&mut stream), self.reference)?;
        if advertised.tip != self.expected {
            return Ok(PushOutcome::TipMoved);
        }
        // Over HTTP, the list is a request of its own.
        if matches!(attempt.address, Address::Http(_)) {
            stream = transport.action("", Service::ReceivePack)?;
        }
        self.send(git, &mut stream, advertised.reports)?;
        if advertised.reports { self.report(&mut Lines(&mut stream)) } else { accepted() }
    }

    /// Sends the command and the objects.
    fn send(
        &self,
        git: &git2::Repository,
        stream: &mut dyn Write,
        reports: bool,
    ) -> Result<(), Error> {
        let old = self.expected.unwrap_or(Oid::ZERO_SHA1);
        let reports = if reports { " report-status" } else { "" };
        let command = format!("{old} {} {}\0{reports}\n", self.commit, self.reference);
        let command = format!("{:04x}{command}", command.len() + 4);
        stream.write_all(command.as_bytes()).map_err(broken)?;
        stream.write_all(FLUSH).map_err(broken)?;
        let mut pack = git.packbuilder()?;
        pack.insert_object(self.commit, None)?;
        let before = self.expected.map(|tip| git.find_commit(tip)).transpose()?;
        let before = before.map(|commit| commit.tree_id());
        add_new_objects(git, &mut pack, before, git.find_commit(self.commit)?.tree_id())?;
        let mut written = Ok(());
        pack.foreach(|part| {
            written = stream.write_all(part);
            written.is_ok()
        })?;
        written.map_err(broken)
    }

    /// Reads what the remote says of the push (gitprotocol-pack, "Report Status").
    fn report(&self, lines: &mut Lines<'_>) -> Result<PushOutcome, Error> {
        let mut unpacked = None;
        while let Some(line) = lines.next()? {
            let line = String::from_utf8_lossy(&line).into_owned();
            let line = line.trim_end_matches('\n');
            if let Some(result) = line.strip_prefix("unpack ") {
                unpacked = Some(result.to_owned());
            } else if line.strip_prefix("ok ") == Some(self.reference) {
                return accepted();
            } else if let Some(reason) = self.refusal(line) {
                return Ok(PushOutcome::of_report(Some(reason)));
            }
        }
        match unpacked.as_deref() {
            // Without a line for the reference, the remote has accepted the push.
            Some("ok") => accepted(),
            Some(problem) => Ok(PushOutcome::of_report(Some(problem))),
            None => Err(unexpected("it ended without a report on the push")),
        }
    }

    /// The reason in `ng REFERENCE REASON`.
    fn refusal<'b>(&self, line: &'b str) -> Option<&'b str> {
        let reason = line.strip_prefix("ng ")?.strip_prefix(self.reference)?;
        reason.is_empty().then_some("no reason is given").or_else(|| reason.strip_prefix(' '))
    }
}

fn accepted() -> Result<PushOutcome, Error> {
    Ok(PushOutcome::of_report(None))
}

/// Adds the objects of a tree that the tree before does not have at the same place. At most three
/// levels deep, because gitwork chooses the paths.
fn add_new_objects(
    git: &git2::Repository,
    pack: &mut git2::PackBuilder<'_>,
    before: Option<Oid>,
    now: Oid,
) -> Result<(), Error> {
    if before == Some(now) {
        return Ok(());
    }
    pack.insert_object(now, None)?;
    let before = before.map(|tree| git.find_tree(tree)).transpose()?;
    for entry in &git.find_tree(now)? {
        let old = before.as_ref().and_then(|tree| tree.get_name_bytes(entry.name_bytes()));
        if old.as_ref().is_some_and(|old| old.id() == entry.id()) {
            continue;
        }
        match entry.kind() {
            Some(ObjectType::Tree) => {
                let old = old.filter(|old| old.kind() == Some(ObjectType::Tree));
                add_new_objects(git, pack, old.map(|old| old.id()), entry.id())?;
            }
            _ => pack.insert_object(entry.id(), None)?,
        }
    }
    Ok(())
}

/// What a remote lists of its references.
#[derive(Debug, PartialEq, Eq)]
struct Advertisement {
    /// Of the branch to push to; `None` without such a branch.
    tip: Option<Oid>,
    /// It reports on a push.
    reports: bool,
}

impl Advertisement {
    fn read(lines: &mut Lines<'_>, reference: &str) -> Result<Self, Error> {
        let mut found = Self { tip: None, reports: false };
        let mut line = lines.next()?;
        if line.as_ref().is_some_and(|line| line.starts_with(b"# service=git-receive-pack")) {
            // Smart HTTP puts this, and the end of a list, before the references.
            line = match lines.next()? {
                None => lines.next()?,
                found => found,
            };
        }
        while let Some(text) = line {
            let mut parts = text.splitn(2, |byte| *byte == 0);
            let listed = parts.next().unwrap_or_default();
            let mut capabilities = parts.next().unwrap_or_default().split(u8::is_ascii_whitespace);
            found.reports |= capabilities.any(|one| one == b"report-status");
            found.read_reference(&String::from_utf8_lossy(listed), reference)?;
            line = lines.next()?;
        }
        Ok(found)
    }

    /// Reads `ID NAME`.
    fn read_reference(&mut self, listed: &str, reference: &str) -> Result<(), Error> {
        let listed = listed.trim_end_matches('\n');
        if let Some(message) = listed.strip_prefix("ERR ") {
            let message = truncate_chars(message, MESSAGE_CHARS_MAX);
            return Err(unexpected(&format!("it says: {}", escape_untrusted(&message))));
        }
        let (id, name) = listed.split_once(' ').unwrap_or((listed, ""));
        let is_id = id.len() == 40;
        let id = Oid::from_str(id).ok().filter(|_| is_id);
        let id = id.ok_or_else(|| unexpected("its list of references has no object's id"))?;
        if name == reference {
            self.tip = Some(id);
        }
        Ok(())
    }
}

/// The lines of a remote (gitprotocol-common, pkt-line Format). Their number is bounded by the
/// attempt, which counts all bytes.
struct Lines<'a>(&'a mut dyn Read);

impl Lines<'_> {
    /// The next line; `None` at the end of a list.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).map_err(broken)?;
        let text = std::str::from_utf8(&length).ok();
        let length = text.and_then(|text| usize::from_str_radix(text, 16).ok());
        match length {
            Some(0) => Ok(None),
            Some(length @ 4..=LINE_BYTES_MAX) => {
                let mut line = vec![0; length - 4];
                self.0.read_exact(&mut line).map_err(broken)?;
                Ok(Some(line))
            }
            _ => Err(unexpected("its answer is not Git's")),
        }
    }
}

/// The attempt knows why.
fn broken(_: std::io::Error) -> Error {
    unexpected("the connection ended too early")
}

/// git2 panics on a text with a NUL byte: what the remote says is escaped before.
fn unexpected(problem: &str) -> Error {
    Error::from_str(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRANCH: &str = "refs/heads/gitwork-status";

    fn lines(all: &[Option<&str>]) -> Vec<u8> {
        let line = |line: &Option<&str>| match line {
            None => "0000".to_owned(),
            Some(text) => format!("{:04x}{text}", text.len() + 4),
        };
        all.iter().map(line).collect::<String>().into_bytes()
    }

    fn advertised(bytes: &[u8]) -> Result<Advertisement, String> {
        let read = Advertisement::read(&mut Lines(&mut &*bytes), BRANCH);
        read.map_err(|error| error.message().to_owned())
    }

    fn reported(bytes: &[u8]) -> Result<PushOutcome, String> {
        let pushed = PushedCommit { reference: BRANCH, expected: None, commit: Oid::ZERO_SHA1 };
        let outcome = pushed.report(&mut Lines(&mut &*bytes));
        outcome.map_err(|error| error.message().to_owned())
    }

    #[test]
    fn the_tip_of_the_branch_is_found() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let service = "# service=git-receive-pack\n";
        let main = format!("{one} refs/heads/main\0 report-status delete-refs\n");
        let other = format!("{one} {BRANCH}-2\n");
        let status = format!("{two} {BRANCH}\n");
        let none = format!("{} capabilities^{{}}\0ofs-delta\n", "0".repeat(40));
        let tip = Oid::from_str(&two).ok();
        for (listed, tip, reports) in [
            // Over SSH, and over HTTP.
            (vec![Some(&*main), Some(&*other), Some(&*status), None], tip, true),
            (vec![Some(service), None, Some(&*main), Some(&*status), None], tip, true),
            (vec![Some(&*main), Some(&*other), None], None, true),
            (vec![Some(service), None, Some(&*none), None], None, false),
            (vec![None], None, false),
        ] {
            assert_eq!(advertised(&lines(&listed)), Ok(Advertisement { tip, reports }));
        }
        for (bytes, problem) in [
            (lines(&[Some("ERR no \u{1b}[1m access\n")]), "it says: no \\u{1b}[1m access"),
            (lines(&[Some("hello\n"), None]), "its list of references has no object's id"),
            (lines(&[Some(&*main)]), "the connection ended too early"),
            (b"<html></html>".to_vec(), "its answer is not Git's"),
        ] {
            assert_eq!(advertised(&bytes), Err(problem.to_owned()));
        }
    }

    #[test]
    fn a_report_is_about_the_branch() {
        let (ok, other) = (format!("ok {BRANCH}\n"), format!("ng {BRANCH}-2 no\n"));
        let refused = format!("ng {BRANCH} pre-receive hook declined\n");
        let moved = format!("ng {BRANCH} failed to update ref\n");
        let rejected = |why: &str| Ok(PushOutcome::Rejected(why.to_owned()));
        for (report, expected) in [
            (vec![Some("unpack ok\n"), Some(&*ok), None], Ok(PushOutcome::Accepted)),
            (vec![Some("unpack ok\n"), Some(&*other), None], Ok(PushOutcome::Accepted)),
            (vec![Some("unpack ok\n"), Some(&*refused), None], {
                rejected("pre-receive hook declined")
            }),
            (vec![Some("unpack ok\n"), Some(&*moved), None], Ok(PushOutcome::TipMoved)),
            (vec![Some("unpack index-pack failed\n"), None], rejected("index-pack failed")),
            (vec![None], Err("it ended without a report on the push".to_owned())),
        ] {
            assert_eq!(reported(&lines(&report)), expected, "{report:?}");
        }
    }

    #[test]
    fn only_new_objects_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let git = git2::Repository::init_bare(folder.path()).unwrap();
        let tree = |files: &[(&str, &str)], folders: &[(&str, Oid)]| {
            let mut builder = git.treebuilder(None).unwrap();
            for (name, content) in files {
                let id = git.blob(content.as_bytes()).unwrap();
                builder.insert(name, id, 0o100_644).unwrap();
            }
            for (name, id) in folders {
                builder.insert(name, *id, 0o040_000).unwrap();
            }
            builder.write().unwrap()
        };
        let same = tree(&[("a", "1"), ("b", "2")], &[]);
        let (old, new) =
            (tree(&[("a", "1"), ("b", "2")], &[]), tree(&[("a", "1"), ("b", "3")], &[]));
        let before = tree(&[("s", "x")], &[("c", same), ("d", old), ("gone", same)]);
        let now = tree(&[("s", "x")], &[("c", same), ("d", new), ("s2", same)]);
        let sent = |before, now| {
            let mut pack = git.packbuilder().unwrap();
            add_new_objects(&git, &mut pack, before, now).unwrap();
            pack.object_count()
        };
        // The root, the folder `d` with a file, and a folder with two that is new in its place.
        assert_eq!(sent(Some(before), now), 3 + 3);
        assert_eq!(sent(Some(now), now), 0);
        // One file stands in two of the folders.
        assert_eq!(sent(None, now), 3 + 4);
    }

    #[test]
    fn any_answer_is_read_to_its_end() {
        let main = format!("{} refs/heads/main\0 report-status\n", "1".repeat(40));
        for answer in [lines(&[Some(&*main), None]), lines(&[Some("unpack ok\n"), None])] {
            for at in 0..answer.len() {
                for byte in [0, b'0', b'f', b'\n', 0xff] {
                    let mut changed = answer.clone();
                    changed[at] = byte;
                    for bytes in [&changed, &changed[..at]] {
                        let _ = advertised(bytes);
                        let _ = reported(bytes);
                    }
                }
            }
        }
    }
}
