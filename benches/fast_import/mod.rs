//! Commits of many files by `git fast-import`, which writes one pack, as a Git server has it.

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running import.
pub struct FastImport {
    git: Child,
    input: BufWriter<ChildStdin>,
}

impl FastImport {
    /// Begins an import into a bare repository.
    pub fn start(repository: &Path) -> Self {
        let mut git = Command::new("git");
        git.arg("-C").arg(repository).args(["fast-import", "--quiet"]).stdin(Stdio::piped());
        let mut git = git.spawn().unwrap();
        let input = BufWriter::new(git.stdin.take().unwrap());
        Self { git, input }
    }

    /// Begins a commit on `main`, on top of the last one. It is older than commits of the harness.
    pub fn commit(&mut self) {
        let head = "commit refs/heads/main\ncommitter a <a@example.com> 1600000000 +0000\ndata 0";
        writeln!(self.input, "{head}").unwrap();
    }

    /// Sets a file of the commit.
    pub fn file(&mut self, path: &str, text: &str) {
        writeln!(self.input, "M 100644 inline {path}\ndata {}\n{text}", text.len()).unwrap();
    }

    /// Waits until all commits are written.
    pub fn end(mut self) {
        drop(self.input);
        assert!(self.git.wait().unwrap().success());
    }
}
