//! The `gitwork-agent` command: parses its arguments and runs the library.

use std::process::ExitCode;

use clap::Parser;
use gitwork_agent::flags::{Cli, Command, without_program_path};
use gitwork_agent::run::{ExitReason, RunError, run};
use gitwork_retry::log_error;
use gitwork_runtime::logs::EscapedLog;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // All but expressions and the names of hosts runs on one thread.
    gitwork_runtime::heap::share(1);
    let Command::Agent(flags) = Cli::parse_from(without_program_path(std::env::args_os())).command;
    let default = match flags.v {
        0..=2 => "info",
        3..=5 => "gitwork=debug,info",
        _ => "gitwork=trace,debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let filter = gitwork_runtime::logs::without_answers(filter);
    let is_json = flags.log_json;
    let writer = move || EscapedLog::on_stderr(is_json);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    if is_json {
        logs.json().init();
    } else {
        logs.init();
    }
    for note in flags.without_effect.notes() {
        tracing::warn!("{note}");
    }
    gitwork_kube::install_crypto();
    // One thread: an agent waits for API servers, and each thread would cost memory of its own.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            log_error!(error, &RunError::Runtime(error), "cannot start");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(*flags));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match ended {
        Ok(ExitReason::Signal) => ExitCode::SUCCESS,
        Ok(ExitReason::Restart | ExitReason::LostLease) => ExitCode::FAILURE,
        Err(error) => {
            log_error!(error, &error, "cannot start");
            ExitCode::FAILURE
        }
    }
}
