//! The source of the control plane's programs: a folder that the caller names, or the Go module
//! next to this one, built once and cached where `cargo clean` does not reach.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::go_module::GoModule;

/// Without symbols and paths: the two binaries take 180 MB instead of 260. Without a version stamp,
/// which would need a Git checkout owned by the current user.
const MODULE: GoModule = GoModule {
    name: "control-plane",
    programs: "etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok",
    flags: &["build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"],
    packages: "./cmd/...",
    cgo: false,
    install: "the tests and the demo run on a real Kubernetes API server, built once from \
        tests/control-plane: install Go 1.24 or newer (https://go.dev/dl) and a network \
        connection for \
        its first build, or set KUBEBUILDER_ASSETS to a folder that holds etcd and kube-apiserver",
};

/// Ties a program of `KUBEBUILDER_ASSETS` to the life of its parent: these programs do not stop at
/// the end of their input. The shell becomes the program, so that its process id is the program's.
/// It leaves a child behind that waits for the end of the input instead.
const STOP_AT_END_OF_INPUT: &str =
    r#"exec 3<&0; (trap '' INT TERM HUP; cat <&3 >/dev/null; kill -KILL $$) & exec 3<&- "$@""#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Kwok,
}

/// A folder with the programs.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
    /// Built from our module: they stop at the end of their input, and four are in one file.
    ours: bool,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Program::Etcd => "etcd",
            Program::ApiServer => "kube-apiserver",
            Program::ControllerManager => "kube-controller-manager",
            Program::Scheduler => "kube-scheduler",
            Program::Kwok => "kwok",
        }
    }
}

impl Binaries {
    /// The programs of `KUBEBUILDER_ASSETS`, else those of the module. Builds these if they are not
    /// in the cache, which takes minutes. `variable` reads the environment.
    pub fn find(variable: impl Fn(&str) -> Option<OsString>) -> Result<Binaries> {
        if let Some(folder) = variable("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()) {
            let binaries = Binaries { folder: folder.into(), ours: false };
            binaries.path(Program::Etcd)?;
            binaries.path(Program::ApiServer)?;
            return Ok(binaries);
        }
        let folder = MODULE.built(variable, |_| Ok(()))?;
        Ok(Binaries { folder, ours: true })
    }

    /// A command that runs `program` until it is killed or its standard input, a pipe, ends.
    pub fn command(&self, program: Program) -> Result<Command> {
        let path = self.path(program)?;
        if !self.ours {
            let mut command = Command::new("sh");
            command.args(["-c", STOP_AT_END_OF_INPUT, "sh"]).arg(path);
            return Ok(command);
        }
        let mut command = Command::new(path);
        if program != Program::Kwok {
            command.arg(program.name());
        }
        Ok(command)
    }

    fn path(&self, program: Program) -> Result<PathBuf> {
        let name = match program {
            Program::Kwok => "kwok",
            _ if self.ours => "control-plane",
            program => program.name(),
        };
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        let folder = self.folder.display();
        ensure!(!self.ours, "{folder} lost its {name}: delete that folder to have it built again");
        bail!(
            "KUBEBUILDER_ASSETS is {folder}, which has no {name}: put it there, or unset the \
             variable to have the control plane built with Go"
        )
    }
}
