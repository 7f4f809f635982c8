//! Programs built from a Go module next to this one. Each is built once and cached where `cargo
//! clean` does not reach.

use std::env::consts;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The name prefix of folders with unfinished builds.
const UNFINISHED: &str = ".building-";

/// A Go module in a folder of that name in `tests`.
pub struct GoModule {
    pub name: &'static str,
    /// Its content, for people.
    pub programs: &'static str,
    pub flags: &'static [&'static str],
    pub packages: &'static str,
    /// Whether the build needs a C compiler.
    pub cgo: bool,
    /// The text that lists what to install if the build fails.
    pub install: &'static str,
}

impl GoModule {
    /// The folder with the programs. Builds them if they are not in the cache, which takes minutes.
    /// `finish` adds other files. `variable` reads the environment.
    pub fn built(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        finish: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let root = cache_root(variable)?;
        let build = |folder: &Path| {
            self.build(folder)?;
            finish(folder)
        };
        cached(&root, &cache_key(self.name, self.flags, &self.folder())?, build, |folder| {
            progress(&format!("waiting for another process that builds {}", folder.display()));
        })
    }

    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(self.name)
    }

    fn build(&self, folder: &Path) -> Result<()> {
        let (programs, name) = (self.programs, self.name);
        progress(&format!(
            "building {programs} from tests/{name}: this takes several minutes, once"
        ));
        // `-o` takes a folder for several programs only when it ends with a slash.
        let mut target = folder.as_os_str().to_owned();
        target.push("/");
        // With the lowest priority on the machine.
        let mut command = Command::new("nice");
        command.args(["-n", "10", "go"]).args(self.flags).arg("-o").arg(target).arg(self.packages);
        self.run(command).map(drop)
    }

    /// The folder of a dependency's source, as the build used it.
    pub fn source_of(&self, dependency: &str) -> Result<PathBuf> {
        let mut command = Command::new("go");
        command.args(["list", "-m", "-f", "{{.Dir}}", dependency]);
        Ok(PathBuf::from(self.run(command)?.trim()))
    }

    /// The standard output of a Go command.
    fn run(&self, mut command: Command) -> Result<String> {
        let install = self.install;
        // `nice` would only report that it finds no such command.
        match Command::new("go").arg("version").stdin(Stdio::null()).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("there is no `go`: {install}")
            }
            output => output.context("run `go version`")?,
        };
        let module = self.folder();
        let output = command
            .current_dir(&module)
            .env("CGO_ENABLED", if self.cgo { "1" } else { "0" })
            .env("GOWORK", "off")
            .env_remove("GOOS")
            .env_remove("GOARCH")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("run {command:?}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let skipped = text.lines().count().saturating_sub(30);
            let tail: Vec<&str> = text.lines().skip(skipped).collect();
            bail!("{command:?} in {} failed:\n{}\n{install}", module.display(), tail.join("\n"));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The cache folder: `GITWORK_TEST_CACHE`, else `gitwork` in the user's cache folder.
pub fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let folder = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    folder("GITWORK_TEST_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("gitwork")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/gitwork")))
        .context("none of GITWORK_TEST_CACHE, XDG_CACHE_HOME and HOME is set: no place for builds")
}

/// The folder `root/key`. If it does not exist, `build` creates it. Builders wait for each other,
/// in this process or others, after a call of `on_wait`. The folder appears complete or not at all.
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

/// Removes the folders of killed builders. The caller has the lock, so no other build runs.
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

/// A name that changes with every input of the module's build.
pub fn cache_key(name: &str, flags: &[&str], module: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for flag in flags {
        hash.update(flag);
    }
    for path in module_files(module)? {
        let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(module)?.to_string_lossy().into_owned();
        hash.update(format!("\n{name} {}\n", content.len()));
        hash.update(content);
    }
    let digest: String = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
    Ok(format!("{name}-{}-{}-{digest}", consts::OS, consts::ARCH))
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

/// Prints past the test runner's capture, which would show this only after the build.
fn progress(line: &str) {
    let _ = writeln!(stderr(), "gitwork: {line}");
}
