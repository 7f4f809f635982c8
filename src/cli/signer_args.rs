//! The arguments that say whose signatures commits need.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use crate::core::signature::policy::{SignerKeys, SignerPolicy, Verify};
use crate::verification::Verification;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Signed commits (files, read anew at every fetch)")]
pub struct SignerArgs {
    /// Which new commits have to be signed, beside what gitwork.yaml asks for: commits, merges
    #[arg(long, value_name = "WHICH", value_parser = verify)]
    verify: Option<Verify>,
    /// File with keys that may sign, as OpenSSH's allowed_signers has them (can be repeated)
    #[arg(long, value_name = "FILE")]
    allowed_signers: Vec<PathBuf>,
    /// File with armoured OpenPGP public keys that may sign (can be repeated)
    #[arg(long, value_name = "FILE")]
    openpgp_keys: Vec<PathBuf>,
}

fn verify(text: &str) -> Result<Verify, String> {
    match text {
        "commits" => Ok(Verify::Commits),
        "merges" => Ok(Verify::Merges),
        _ => Err("name one of commits, merges".into()),
    }
}

impl SignerArgs {
    /// The files with keys; `None` where there is none.
    fn keys(&self) -> Option<SignerKeys> {
        let files = |all: &[PathBuf]| all.iter().map(|file| file.display().to_string()).collect();
        let keys = SignerKeys {
            allowed_signers: files(&self.allowed_signers),
            openpgp: files(&self.openpgp_keys),
        };
        (keys != SignerKeys::default()).then_some(keys)
    }

    /// What they ask for; `None` where they say nothing of signatures.
    pub fn verification(&self) -> Result<Option<Verification>, Failure> {
        let policy = SignerPolicy { verify: self.verify, ..SignerPolicy::default() };
        // There are no rules in it that could not be read.
        let problem = |_| Failure::usage("--verify cannot be used");
        match self.keys() {
            Some(keys) => Verification::new(&policy, keys).map(Some).map_err(problem),
            None if self.verify.is_some() => Err(Failure::usage(
                "--verify needs the keys that may sign: name files with --allowed-signers or --openpgp-keys",
            )),
            None => Ok(None),
        }
    }

    /// The keys to use in place of those of the daemon's file, whose paths are of the daemon's machine.
    pub fn keys_over_file(&self) -> Result<Option<SignerKeys>, Failure> {
        match self.verify {
            Some(_) => Err(Failure::usage("--verify is said by the file of --config")),
            None => Ok(self.keys()),
        }
    }
}
