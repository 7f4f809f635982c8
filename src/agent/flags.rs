//! The command line: that of `work agent` of OCM's klusterlet, so that the binary can take its
//! place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};

use super::flag_values::{FlagValueError, go_bool, go_duration, listen};

/// The arguments without the path of OCM's program, which comes first in the `args` of a
/// klusterlet's Deployment: `/work agent ...`. Our image has an entrypoint, so the path is an
/// argument there.
pub fn without_program_path(
    arguments: impl IntoIterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    let is_program = |argument: &OsString| {
        let path = Path::new(argument);
        path.is_absolute()
            && path.file_name().is_some_and(|name| name == "work" || name == "gitwork-agent")
    };
    let all = arguments.into_iter().enumerate();
    all.filter(move |(index, argument)| *index != 1 || !is_program(argument))
        .map(|(_, argument)| argument)
}

/// `gitwork-agent`
#[derive(Debug, Parser)]
#[command(
    name = "gitwork-agent",
    version,
    about = "The work agent of a managed cluster (Open Cluster Management)"
)]
pub struct Cli {
    /// The only command, as in OCM's binary.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `gitwork-agent`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Apply the ManifestWorks of a cluster and report their status
    #[command(after_help = EXAMPLE)]
    Agent(Box<AgentFlags>),
}

/// The value of a boolean flag that is given without one, as in Go.
macro_rules! go_flag {
    () => {
        "true"
    };
}

const EXAMPLE: &str = "\
Example:
  gitwork-agent agent --spoke-cluster-name=edge-7 \\
    --workload-source-driver=kube --workload-source-config=/spoke/hub-kubeconfig/kubeconfig";

/// The flags of `gitwork-agent agent`.
#[derive(Debug, Clone, Args)]
pub struct AgentFlags {
    /// Name of the managed cluster: its namespace on the hub
    #[arg(long, visible_alias = "cluster-name")]
    pub spoke_cluster_name: String,
    /// How works come from the hub; only kube
    #[arg(long, default_value = "kube")]
    pub workload_source_driver: String,
    /// Kubeconfig of the hub
    #[arg(long, default_value = "/spoke/hub-kubeconfig/kubeconfig")]
    pub workload_source_config: PathBuf,
    /// Kubeconfig of the managed cluster; without it, that of --kubeconfig or of the pod
    #[arg(long)]
    pub spoke_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the cluster that this runs on
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Lease; without it, that of the pod
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: Option<String>,
    /// Identity of this agent; without it, the hash of the hub's address
    #[arg(long, default_value = "")]
    pub agent_id: String,
    /// How often objects are read whose kind cannot be watched
    #[arg(long, value_parser = go_duration, default_value = "10s")]
    pub status_sync_interval: Duration,
    /// How long an AppliedManifestWork stays after its ManifestWork is gone; 100 years and more:
    /// for ever
    #[arg(long, value_parser = go_duration, default_value = "60m")]
    pub appliedmanifestwork_eviction_grace_period: Duration,
    /// Bytes of one raw JSON feedback value (gate RawFeedbackJsonString)
    #[arg(long, default_value_t = 1024)]
    pub max_json_raw_length: usize,
    /// Works that are applied at a time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub workload_agent_workers: u16,
    /// Name=true,…: RawFeedbackJsonString, ExecutorValidatingCaches, or AllAlpha for both
    #[arg(long, value_delimiter = ',', value_parser = gate)]
    pub feature_gates: Vec<(String, bool)>,
    /// Let feedback and condition rules use the values of Secrets, as with OCM's agent: they leave
    /// the cluster
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = go_flag!(),
        value_parser = go_bool,
        action = ArgAction::Set
    )]
    pub report_secret_values: bool,
    /// Report on objects that the executor of a work may not get, as OCM's agent does
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = go_flag!(),
        value_parser = go_bool,
        action = ArgAction::Set
    )]
    pub report_without_executor: bool,
    /// Work without a Lease
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = go_flag!(),
        value_parser = go_bool,
        action = ArgAction::Set
    )]
    pub disable_leader_election: bool,
    /// How long other candidates wait for a leader that does not renew the Lease
    #[arg(long, value_parser = go_duration, default_value = "137s")]
    pub leader_election_lease_duration: Duration,
    /// How long this process stays the leader without renewing the Lease
    #[arg(long, value_parser = go_duration, default_value = "107s")]
    pub leader_election_renew_deadline: Duration,
    /// Time between two attempts to acquire or renew the Lease
    #[arg(long, value_parser = go_duration, default_value = "26s")]
    pub leader_election_retry_period: Duration,
    /// Requests a second to the managed cluster; without it there is no limit but the number of
    /// workers
    #[arg(long)]
    pub kube_api_qps: Option<f64>,
    /// Requests to the managed cluster at once after a pause; without it, two seconds' worth
    #[arg(long)]
    pub kube_api_burst: Option<f64>,
    /// Requests a second to the hub; without it there is no limit but the number of workers
    #[arg(long)]
    pub hub_kube_api_qps: Option<f64>,
    /// Requests to the hub at once after a pause; without it, two seconds' worth
    #[arg(long)]
    pub hub_kube_api_burst: Option<f64>,
    /// Where /healthz, /readyz and /metrics are served over TLS; without it, what --config says, or
    /// :8443
    #[arg(long, value_parser = listen)]
    pub listen: Option<std::net::SocketAddr>,
    /// The port of /healthz, /readyz and /metrics, as newer klusterlets give it; --listen wins
    #[arg(long)]
    pub health_port: Option<u16>,
    /// A GenericOperatorConfig: servingInfo, and name and namespace of the Lease
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// End when one of these files changes (the hub's kubeconfig is reloaded instead)
    #[arg(long)]
    pub terminate_on_files: Vec<PathBuf>,
    /// Verbosity: 0 to 2 info, 3 to 5 debug, more trace
    #[arg(long, short = 'v', default_value_t = 0)]
    pub v: u8,
    /// Logs as JSON
    #[arg(long)]
    pub log_json: bool,
    /// Flags of OCM's agent that have no effect here
    #[command(flatten)]
    pub without_effect: WithoutEffect,
}

/// Flags of OCM's agent that have no effect here. They are accepted and reported.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Accepted, without effect")]
pub struct WithoutEffect {
    #[arg(long)]
    max_feedback_watch: Option<String>,
    #[arg(long)]
    cloudevents_client_id: Option<String>,
    #[arg(long)]
    cloudevents_client_codecs: Vec<String>,
    #[arg(long)]
    hub_kubeconfig_dir: Option<String>,
    #[arg(long)]
    hub_kubeconfig: Option<String>,
    #[arg(long)]
    tls_min_version: Option<String>,
    #[arg(long)]
    tls_cipher_suites: Vec<String>,
    #[arg(long)]
    vmodule: Option<String>,
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = go_flag!())]
    logtostderr: Option<String>,
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = go_flag!())]
    alsologtostderr: Option<String>,
    #[arg(long)]
    log_flush_frequency: Option<String>,
}

impl WithoutEffect {
    /// A warning for each given flag: its name and why it has no effect.
    pub fn notes(&self) -> Vec<String> {
        let watched = "every tracked kind is watched";
        let kube = "only the kube driver is there";
        let unread = "the file of --workload-source-config is used";
        let tls = "TLS 1.2 and later with safe cipher suites is what there is";
        let logs = "logs go to stderr";
        [
            ("--max-feedback-watch", self.max_feedback_watch.is_some(), watched),
            ("--cloudevents-client-id", self.cloudevents_client_id.is_some(), kube),
            ("--cloudevents-client-codecs", !self.cloudevents_client_codecs.is_empty(), kube),
            ("--hub-kubeconfig-dir", self.hub_kubeconfig_dir.is_some(), unread),
            ("--hub-kubeconfig", self.hub_kubeconfig.is_some(), unread),
            ("--tls-min-version", self.tls_min_version.is_some(), tls),
            ("--tls-cipher-suites", !self.tls_cipher_suites.is_empty(), tls),
            ("--vmodule", self.vmodule.is_some(), "set RUST_LOG instead"),
            ("--logtostderr", self.logtostderr.is_some(), logs),
            ("--alsologtostderr", self.alsologtostderr.is_some(), logs),
            ("--log-flush-frequency", self.log_flush_frequency.is_some(), "logs are not held back"),
        ]
        .into_iter()
        .filter(|(_, given, _)| *given)
        .map(|(flag, _, why)| format!("{flag} is without effect: {why}"))
        .collect()
    }
}

/// Feature gates of OCM's agent that do something here.
pub const GATES: &[&str] = &["RawFeedbackJsonString", "ExecutorValidatingCaches"];
/// Turns on every gate that is in alpha and not set by itself: all of [`GATES`].
const ALL_ALPHA: &str = "AllAlpha";
/// The same for gates in beta; the agent has none.
const ALL_BETA: &str = "AllBeta";
/// Gates of other OCM components, which a klusterlet may pass on.
const GATES_OF_OTHERS: &[&str] = &[
    "AddonManagement",
    "ClusterClaim",
    "ClusterProperty",
    "ManifestWorkReplicaSet",
    "CloudEventsDrivers",
    "CleanUpCompletedManifestWork",
    "NilExecutorValidating",
    "V1beta1CSRAPICompatibility",
    "MultipleHubs",
];

/// Why a value of `--feature-gates` is invalid.
#[derive(Debug, thiserror::Error)]
enum GateError {
    #[error("it must be Name=true or Name=false")]
    Form,
    #[error("there is no feature gate {name}; there are {}", GATES.join(", "))]
    Unknown { name: String },
    #[error(transparent)]
    Value(#[from] FlagValueError),
}

fn gate(text: &str) -> Result<(String, bool), GateError> {
    let (name, value) = text.split_once('=').ok_or(GateError::Form)?;
    let is_known = [GATES, GATES_OF_OTHERS, &[ALL_ALPHA, ALL_BETA]].concat().contains(&name);
    if !is_known {
        return Err(GateError::Unknown { name: name.to_owned() });
    }
    Ok((name.to_owned(), go_bool(value)?))
}

impl AgentFlags {
    /// Whether a feature gate is on. The last value of a gate counts, then that of `AllAlpha`; the
    /// default is off.
    pub fn is_enabled(&self, gate: &str) -> bool {
        let last = |wanted: &str| {
            let mut given = self.feature_gates.iter().rev();
            given.find(|(name, _)| name == wanted).map(|(_, on)| *on)
        };
        last(gate).or_else(|| last(ALL_ALPHA)).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<AgentFlags, String> {
        let all = ["gitwork-agent", "agent"].iter().chain(arguments);
        match Cli::try_parse_from(all) {
            Ok(Cli { command: Command::Agent(flags) }) => Ok(*flags),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn arguments_of_a_klusterlet_are_parsed() {
        let flags = parse(&[
            "--spoke-cluster-name=edge-7",
            "--workload-source-driver=kube",
            "--workload-source-config=/spoke/hub-kubeconfig/kubeconfig",
            "--agent-id=abc",
            "--terminate-on-files=/spoke/hub-kubeconfig/kubeconfig",
            "--feature-gates=RawFeedbackJsonString=true,ExecutorValidatingCaches=false",
            "--disable-leader-election",
            "--status-sync-interval=60s",
            "--max-feedback-watch=50",
            "-v=4",
        ])
        .unwrap();
        assert!(flags.disable_leader_election && flags.is_enabled("RawFeedbackJsonString"));
        assert!(!flags.is_enabled("ExecutorValidatingCaches"));
        assert_eq!(flags.status_sync_interval, Duration::from_secs(60));
        assert_eq!(flags.appliedmanifestwork_eviction_grace_period, Duration::from_secs(3600));
        assert_eq!(flags.without_effect.notes().len(), 1);
        assert_eq!(flags.v, 4);
        let flags =
            parse(&["--cluster-name=a", "--disable-leader-election=false", "--listen=:0"]).unwrap();
        assert!(!flags.disable_leader_election && flags.spoke_cluster_name == "a");
    }

    /// Every flag of OCM's agent, with a value, and whether it is said to be without effect.
    const FLAGS: &[(&str, bool)] = &[
        ("--max-json-raw-length=2048", false),
        ("--status-sync-interval=30s", false),
        ("--appliedmanifestwork-eviction-grace-period=876000h", false),
        ("--workload-source-driver=kube", false),
        ("--workload-source-config=/spoke/hub-kubeconfig/kubeconfig", false),
        ("--cloudevents-client-id=a", true),
        ("--cloudevents-client-codecs=manifest", true),
        ("--workload-agent-workers=5", false),
        ("--max-feedback-watch=50", true),
        ("--spoke-kubeconfig=/spoke/kubeconfig", false),
        ("--hub-kubeconfig-dir=/spoke/hub-kubeconfig", true),
        ("--hub-kubeconfig=/spoke/hub-kubeconfig/kubeconfig", true),
        ("--agent-id=a", false),
        ("--hub-kube-api-qps=50", false),
        ("--hub-kube-api-burst=100", false),
        ("--kube-api-qps=50", false),
        ("--kube-api-burst=100", false),
        ("--tls-min-version=VersionTLS12", true),
        ("--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384", true),
        ("--disable-leader-election", false),
        ("--disable-leader-election=t", false),
        ("--leader-election-lease-duration=137s", false),
        ("--leader-election-renew-deadline=107s", false),
        ("--leader-election-retry-period=26s", false),
        ("--config=/etc/agent/config.yaml", false),
        ("--kubeconfig=/etc/agent/kubeconfig", false),
        ("--namespace=open-cluster-management-agent", false),
        ("--listen=:8443", false),
        ("--health-port=9443", false),
        ("--terminate-on-files=/a", false),
        ("--feature-gates=RawFeedbackJsonString=true,ExecutorValidatingCaches=True", false),
        ("--feature-gates=NilExecutorValidating=1", false),
        ("--feature-gates=ManifestWorkReplicaSet=false", false),
        ("--feature-gates=CloudEventsDrivers=true", false),
        ("--feature-gates=CleanUpCompletedManifestWork=true", false),
        ("-v=2", false),
        ("--vmodule=a=2", true),
        ("--logtostderr", true),
        ("--alsologtostderr=true", true),
        ("--log-flush-frequency=5s", true),
    ];

    #[test]
    fn every_flag_of_ocms_agent_is_accepted_and_ignored_flags_are_reported_once() {
        for (flag, is_without_effect) in FLAGS {
            let flags = parse(&["--spoke-cluster-name=a", flag]);
            let notes = flags.unwrap_or_else(|e| panic!("{flag}: {e}")).without_effect.notes();
            assert_eq!(notes.len(), usize::from(*is_without_effect), "{flag}: {notes:?}");
            let name = flag.split('=').next().unwrap();
            assert!(notes.iter().all(|note| note.starts_with(name)), "{notes:?}");
        }
        // All of them at once, each name but one time.
        let mut seen = std::collections::HashSet::new();
        let once = FLAGS.iter().map(|(flag, _)| *flag);
        let mut all: Vec<&str> =
            once.filter(|flag| seen.insert(flag.split('=').next().unwrap())).collect();
        all.push("--spoke-cluster-name=a");
        let expected = FLAGS.iter().filter(|(_, is_without_effect)| *is_without_effect).count();
        assert_eq!(parse(&all).unwrap().without_effect.notes().len(), expected);
    }

    #[test]
    fn help_says_what_the_command_and_each_flag_do() {
        use clap::CommandFactory as _;
        let cli = Cli::command();
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        assert!(about(&cli).unwrap().starts_with("The work agent of a managed cluster"));
        let agent = cli.find_subcommand("agent").unwrap();
        let expected = "Apply the ManifestWorks of a cluster and report their status";
        assert_eq!(about(agent).unwrap(), expected);
        let heading = Some("Accepted, without effect");
        for flag in agent.get_arguments().filter(|flag| flag.get_help_heading() != heading) {
            assert!(flag.get_help().is_some(), "{}", flag.get_id());
        }
    }

    #[test]
    fn defaults_are_those_of_ocms_agent() {
        let flags = parse(&["--spoke-cluster-name=a"]).unwrap();
        let seconds = |flag: Duration| flag.as_secs();
        assert_eq!(flags.workload_source_driver, "kube");
        assert_eq!(flags.workload_source_config.to_str(), Some("/spoke/hub-kubeconfig/kubeconfig"));
        assert_eq!((flags.max_json_raw_length, flags.workload_agent_workers), (1024, 10));
        assert_eq!(seconds(flags.status_sync_interval), 10);
        assert_eq!(seconds(flags.appliedmanifestwork_eviction_grace_period), 3600);
        assert_eq!(seconds(flags.leader_election_lease_duration), 137);
        assert_eq!(seconds(flags.leader_election_renew_deadline), 107);
        assert_eq!(seconds(flags.leader_election_retry_period), 26);
        assert!(!flags.disable_leader_election && flags.without_effect.notes().is_empty());
        for gate in GATES {
            assert!(!flags.is_enabled(gate), "{gate}");
        }
    }

    /// Unlike OCM's: a limit by the client would cost the speed.
    #[test]
    fn requests_have_a_rate_limit_only_if_a_flag_sets_one() {
        let rates = |arguments: &[&str]| {
            let flags = parse(&[&["--spoke-cluster-name=a"], arguments].concat()).unwrap();
            [flags.kube_api_qps, flags.kube_api_burst]
                .into_iter()
                .chain([flags.hub_kube_api_qps, flags.hub_kube_api_burst])
                .collect::<Vec<_>>()
        };
        assert_eq!(rates(&[]), [None; 4]);
        let of_cluster = ["--kube-api-qps=50", "--kube-api-burst=100"];
        assert_eq!(rates(&of_cluster), [Some(50.0), Some(100.0), None, None]);
        let of_hub = ["--hub-kube-api-qps=2.5", "--hub-kube-api-burst=9"];
        assert_eq!(rates(&of_hub), [None, None, Some(2.5), Some(9.0)]);
    }

    #[test]
    fn all_alpha_turns_on_the_gates_that_are_not_set_by_themselves() {
        for (given, expected) in [
            ("AllAlpha=true", [true, true]),
            ("AllAlpha=false", [false, false]),
            ("AllAlpha=true,ExecutorValidatingCaches=false", [true, false]),
            ("ExecutorValidatingCaches=false,AllAlpha=true", [true, false]),
            ("RawFeedbackJsonString=true,AllAlpha=false", [true, false]),
            ("AllBeta=true", [false, false]),
        ] {
            let gates = format!("--feature-gates={given}");
            let flags = parse(&["--spoke-cluster-name=a", &gates]).unwrap();
            assert_eq!(
                GATES.iter().map(|gate| flags.is_enabled(gate)).collect::<Vec<_>>(),
                expected
            );
        }
        let error =
            parse(&["--spoke-cluster-name=a", "--feature-gates=AllGamma=true"]).unwrap_err();
        assert!(error.contains("there is no feature gate AllGamma"), "{error}");
    }

    #[test]
    fn path_of_the_program_in_the_arguments_of_a_klusterlet_is_skipped() {
        for (given, expected) in [
            ("gitwork-agent /work agent --x", "gitwork-agent agent --x"),
            ("gitwork-agent /gitwork-agent agent --x", "gitwork-agent agent --x"),
            ("gitwork-agent /usr/local/bin/gitwork-agent agent", "gitwork-agent agent"),
            ("/gitwork-agent agent /work", "/gitwork-agent agent /work"),
            ("gitwork-agent work agent", "gitwork-agent work agent"),
            ("gitwork-agent /bin/sh agent", "gitwork-agent /bin/sh agent"),
            ("gitwork-agent", "gitwork-agent"),
        ] {
            let left: Vec<OsString> =
                without_program_path(given.split(' ').map(OsString::from)).collect();
            assert_eq!(left.join(std::ffi::OsStr::new(" ")), expected, "{given}");
        }
    }

    #[test]
    fn unknown_arguments_are_errors() {
        for arguments in [
            &["--spoke-cluster-name=a", "--no-such-flag"][..],
            &["--spoke-cluster-name=a", "--feature-gates=NoSuch=true"],
            &["--spoke-cluster-name=a", "--feature-gates=RawFeedbackJsonString=yes"],
            &["--spoke-cluster-name=a", "--listen=here"],
            &["--spoke-cluster-name=a", "--status-sync-interval=10"],
            &["--spoke-cluster-name=a", "--workload-agent-workers=0"],
            &[],
        ] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
    }
}
