//! Runs a test in a process of its own that may use little memory and processor time.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

/// A test of this binary that another test starts, with an input by its name.
pub struct BoundedTest {
    /// Its full name. It is ignored by itself.
    pub test: &'static str,
    /// The variable of the environment that has the name of the input.
    pub variable: &'static str,
    pub memory_kib: usize,
    pub processor_seconds: usize,
}

impl BoundedTest {
    /// What went wrong, if the test fails or exceeds a bound.
    pub fn run(&self, input: &str) -> Option<String> {
        let Self { test, variable, memory_kib, processor_seconds } = self;
        let command = format!(
            "ulimit -d {memory_kib} && ulimit -t {processor_seconds} && exec \"$0\" --ignored \
             --exact {test}"
        );
        let output = Command::new("sh")
            .args(["-c", &command])
            .arg(std::env::current_exe().unwrap())
            .env(variable, input)
            .env("MALLOC_ARENA_MAX", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && printed.contains("1 passed") {
            return None;
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let signal = output.status.signal();
        Some(format!("{input}: signal {signal:?}\n{printed}{errors}"))
    }
}
