//! The program as it is started: `cargo test` builds it for this, and the integration tests of the
//! whole product use the same file.

use std::process::Command;

#[test]
fn unknown_and_unsupported_arguments_are_refused() {
    for (arguments, problem) in [
        (&["agent", "--spoke-cluster-name=a", "--no-such-flag"][..], "--no-such-flag"),
        (
            &["agent", "--spoke-cluster-name=a", "--workload-source-driver=grpc"],
            "the driver \"grpc\" is not supported: only --workload-source-driver=kube is",
        ),
        (
            &["agent", "--spoke-cluster-name=a", "--workload-source-config=/nonexistent"],
            "cannot read the kubeconfig /nonexistent",
        ),
        (
            &["agent", "--spoke-cluster-name=a", "--config=/nonexistent"],
            "cannot read the file /nonexistent of --config",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_gitwork-agent"))
            .args(arguments)
            .env_remove("RUST_LOG")
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let shown = String::from_utf8_lossy(&output.stderr).replace('\\', "");
        assert!(shown.contains(problem), "{shown}");
    }
}
