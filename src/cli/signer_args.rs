//! The arguments that say whose signatures commits need.

use std::path::PathBuf;

use clap::Args;

use super::argument_error::ArgumentError;
use super::error::CommandError;
use gitwork_core::config::signers::{SignerKeys, SignerPolicy, VerifiedCommits};
use gitwork_source::verification::Verification;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Signed commits (key files are read again at every fetch)")]
pub struct SignerArgs {
    /// Require signatures of new commits, in addition to the rules in gitwork.yaml: commits, merges
    #[arg(long, value_name = "WHICH", value_parser = verify)]
    verify: Option<VerifiedCommits>,
    /// File with trusted SSH keys in OpenSSH's allowed_signers format (can be repeated)
    #[arg(long, value_name = "FILE")]
    allowed_signers: Vec<PathBuf>,
    /// File with trusted OpenPGP public keys, armoured (can be repeated)
    #[arg(long, value_name = "FILE")]
    openpgp_keys: Vec<PathBuf>,
}

fn verify(text: &str) -> Result<VerifiedCommits, ArgumentError> {
    match text {
        "commits" => Ok(VerifiedCommits::Commits),
        "merges" => Ok(VerifiedCommits::Merges),
        _ => Err(ArgumentError::one_of(["commits", "merges"])),
    }
}

impl SignerArgs {
    /// The key files; `None` if there are none.
    fn keys(&self) -> Option<SignerKeys> {
        let files = |all: &[PathBuf]| all.iter().map(|file| file.display().to_string()).collect();
        let keys = SignerKeys {
            allowed_signers: files(&self.allowed_signers),
            openpgp: files(&self.openpgp_keys),
        };
        (keys != SignerKeys::default()).then_some(keys)
    }

    /// The verification that the arguments configure; `None` without any.
    pub fn verification(&self) -> Result<Option<Verification>, CommandError> {
        let policy = SignerPolicy { verify: self.verify, ..SignerPolicy::default() };
        // Without path rules the policy is always valid.
        let problem = |_| CommandError::usage("--verify cannot be used");
        match self.keys() {
            Some(keys) => Verification::new(&policy, keys).map(Some).map_err(problem),
            None if self.verify.is_some() => Err(CommandError::usage(
                "--verify needs trusted keys: name files with --allowed-signers or --openpgp-keys",
            )),
            None => Ok(None),
        }
    }

    /// The keys that replace those of the daemon's file, whose paths are valid on the daemon's
    /// machine only.
    pub fn keys_over_file(&self) -> Result<Option<SignerKeys>, CommandError> {
        match self.verify {
            Some(_) => Err(CommandError::usage(
                "--verify cannot be combined with --config; set it in the file",
            )),
            None => Ok(self.keys()),
        }
    }
}
