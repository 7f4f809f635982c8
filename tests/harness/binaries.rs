//! Where the control plane's programs come from: a folder that the caller names, or the Go module
//! beside this one, built once and kept where `cargo clean` does not reach.

use std::env::consts;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// Symbols and paths are left out: the two binaries take 180 MB instead of 260. No version
/// stamp: it would need a Git checkout that belongs to the user who runs the tests.
const BUILD_FLAGS: &[&str] = &["build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"];

/// How the names of folders begin that are being built.
const UNFINISHED: &str = ".building-";

const INSTALL: &str = "the tests and the demo run on a real Kubernetes API server, built once from \
    tests/control-plane: install Go 1.24 or newer (https://go.dev/dl) and a network connection for \
    its first build, or set KUBEBUILDER_ASSETS to a folder that holds etcd and kube-apiserver";

/// Holds a program of `KUBEBUILDER_ASSETS` to the life of its parent: those do not know to stop
/// at the end of their input. The shell becomes the program, so its process id is the program's,
/// and leaves a child behind that waits for the end of the input in its place.
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
    /// Built from our module, so they stop at the end of their input, and four are in one file.
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
    /// The programs of `KUBEBUILDER_ASSETS`, else those of the module, built now if they are not
    /// in the cache yet, which takes minutes. `variable` reads the environment.
    pub fn find(variable: impl Fn(&str) -> Option<OsString>) -> Result<Binaries> {
        if let Some(folder) = variable("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()) {
            let binaries = Binaries { folder: folder.into(), ours: false };
            binaries.path(Program::Etcd)?;
            binaries.path(Program::ApiServer)?;
            return Ok(binaries);
        }
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane");
        let root = cache_root(variable)?;
        let build = |folder: &Path| build(&module, folder);
        let folder = cached(&root, &cache_key(&module)?, build, |folder| {
            progress(&format!("waiting for another process that builds {}", folder.display()));
        })?;
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

/// Where builds are kept: `GITWORK_TEST_CACHE`, else `gitwork` in the user's cache folder.
pub fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let folder = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    folder("GITWORK_TEST_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("gitwork")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/gitwork")))
        .context("none of GITWORK_TEST_CACHE, XDG_CACHE_HOME and HOME is set: no place for builds")
}

/// The folder `root/key`, made by `build` unless it is there already. Builders wait for each
/// other, in this process or others, after a call of `on_wait`; the folder shows up complete or
/// not at all.
pub fn cached(
    root: &Path,
    key: &str,
    build: impl FnOnce(&Path) -> Result<()>,
    on_wait: impl FnOnce(&Path),
) -> Result<PathBuf> {
    let folder = root.join(key);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(root).with_context(|| format!("create {}", root.display()))?;
    let path = root.join("lock");
    let lock = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    if lock.try_lock().is_err() {
        on_wait(&folder);
        lock.lock().with_context(|| format!("lock {}", path.display()))?;
    }
    if folder.is_dir() {
        return Ok(folder);
    }
    remove_unfinished(root)?;
    let scratch = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(root)?;
    build(scratch.path())?;
    let scratch = scratch.keep();
    fs::rename(&scratch, &folder).with_context(|| format!("move into {}", folder.display()))?;
    Ok(folder)
}

/// Removes what builders left that were killed. Nobody else builds while the caller has the lock.
fn remove_unfinished(root: &Path) -> Result<()> {
    for entry in fs::read_dir(root).with_context(|| format!("read {}", root.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            let path = entry.path();
            fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// A name that changes with anything that the build depends on.
pub fn cache_key(module: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for flag in BUILD_FLAGS {
        hash.update(flag);
    }
    for path in module_files(module)? {
        let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(module)?.to_string_lossy().into_owned();
        hash.update(format!("\n{name} {}\n", content.len()));
        hash.update(content);
    }
    let digest: String = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
    Ok(format!("control-plane-{}-{}-{digest}", consts::OS, consts::ARCH))
}

/// The files of a Go module that its build reads, sorted.
fn module_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(module_files(&path)?);
        } else if name == "go.mod" || name == "go.sum" || name.ends_with(".go") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn build(module: &Path, folder: &Path) -> Result<()> {
    progress(
        "building etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok from \
         tests/control-plane: this takes several minutes, once",
    );
    // `-o` takes a folder for several programs only when it ends with a slash.
    let mut target = folder.as_os_str().to_owned();
    target.push("/");
    let output = Command::new("go")
        .args(BUILD_FLAGS)
        .arg("-o")
        .arg(target)
        .arg("./cmd/...")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("there is no `go`: {INSTALL}"),
        output => output.context("run `go build`")?,
    };
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let skipped = text.lines().count().saturating_sub(30);
        let tail: Vec<&str> = text.lines().skip(skipped).collect();
        bail!("`go build` in {} failed:\n{}\n{INSTALL}", module.display(), tail.join("\n"));
    }
    Ok(())
}

/// Past the test runner's capture, which would show this only once the minutes are over.
fn progress(line: &str) {
    let _ = writeln!(stderr(), "gitwork: {line}");
}
