//! The command line: commands and options.

mod runtime;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use weir_engine::settings;
use weir_sources::scrape::ISTIO_CERTIFICATES;
use weir_units::{parse_duration, parse_positive_duration};

use crate::ask::AskArgs;
use crate::limits;

pub(crate) use runtime::{RuntimeArgs, Switch};

const EXAMPLES: &str = "\
Examples:
  weir run examples/quickstart.yaml        receive OTLP and deliver it to the pipelines of a file
  weir check pipelines/                    report everything that is wrong with a configuration
  weir try pipelines/ --input sample.json  what transforms and filters make of a sample
  weir try pipelines/ --recent             what they would make of what has passed through a running process
  weir crds                                what a cluster has to know of pipelines
  weir journal inspect /var/lib/weir       what waits on disk, and for whom
  weir logs status /var/lib/weir           how far the logs of containers were read
  weir targets                             how targets are scraped
  weir top                                 what flows through a running process
  weir tap logs/all --edge removed         what its rules remove, live
  weir why traces/shop                     where its items went
  weir sink                                a backend to try things with
  weir load traces --rate 1000             send spans to a gateway
  weir demo examples/all-signals.yaml      all of these together, watched
  weir loadtest -t traces -d 60            how fast, and is anything lost?
  weir operator --image weir:1             make nodes of a cluster do what its pipelines say

Exit codes: 0 success, 1 failure or findings, 2 wrong usage.";

/// A telemetry pipeline: takes OTLP, keeps it safe, delivers it to every backend, and accounts for every item.
#[derive(Parser, Debug)]
#[command(name = "weir", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// Format of log lines; `auto` is human on a terminal and for commands that end by themselves, and json elsewhere
    #[arg(long, help_heading = LOGGING, value_enum, default_value_t = LogFormat::Auto, global = true, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Least severe log lines that are shown
    #[arg(long, help_heading = LOGGING, value_enum, default_value_t = LogLevel::Info, global = true, value_name = "LEVEL")]
    pub(crate) log_level: LogLevel,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    Auto,
    Human,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// How a command shows what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines and tables, for people
    // `human` is the name that `weir journal inspect` had for it before, for scripts.
    #[value(alias = "human")]
    Text,
    /// JSON, for programs
    Json,
}

/// When written data is forced to the disk.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FsyncMode {
    /// Before the client is answered: nothing acknowledged is lost, whatever happens to the machine
    Always,
    /// Every --fsync-interval: a power loss loses data that was acknowledged since
    Interval,
    /// When the kernel likes: a power loss may lose half a minute
    Never,
}

impl FsyncMode {
    /// As it is typed.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Where reading of container logs begins when there are no checkpoints.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogsStartAt {
    /// All files are read from their beginning
    Beginning,
    /// Only lines that are written from then on
    End,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Receive OTLP and deliver it to the pipelines of the given files
    Run(RunArgs),
    /// Validate configuration files: every error at once, exit code 1 if there is any
    Check(CheckArgs),
    /// Rewrite pipelines and Telemetry in another version of their API, without loss
    Convert(ConvertArgs),
    /// Print the CustomResourceDefinitions of pipelines and Telemetry
    Crds(CrdsArgs),
    /// Show what the pipelines of a configuration make of a sample, or of what has passed through a running process,
    /// and send nothing
    Try(TryArgs),
    /// Look into a data directory: show what waits on disk, check it, and write it out
    Journal(crate::journal::JournalArgs),
    /// Show how much of the containers' logs is unread
    Logs(crate::logs::LogsArgs),
    /// Show the scrape targets of a running process, and why any of them fail
    Targets(crate::targets::TargetsArgs),
    /// Show what a running process does, again and again: pipelines with their rates, destinations, memory, talkers, changes, logs
    Top(crate::top::TopArgs),
    /// Show what passes a pipeline of a running process, live
    Tap(crate::tap::TapArgs),
    /// Explain where the items of a pipeline went, follow one item, or show the last hour or configurations
    Why(crate::why::WhyArgs),
    /// Be a backend: count what arrives, and misbehave on request
    Sink(weir_loadtest::sink::SinkArgs),
    /// Generate load
    Load(weir_loadtest::load::LoadArgs),
    /// Run the load tests of the published KPIs against this gateway, and against a peer
    Loadtest(weir_loadtest::command::LoadtestCommand),
    /// Look at a cluster where Weir is installed: what is wrong, and everything that is known about it
    Doctor(crate::doctor::DoctorArgs),
    /// Run in a cluster: make its nodes do what its pipelines say, and say in their status how they stand
    Operator(crate::operator::OperatorArgs),
    /// Run on a node of a cluster: do what the operator says, with what the API server knows of the node
    Node(crate::node::NodeArgs),
    /// Give a directory to a user: what the first container of a node's pod does
    #[command(hide = true)]
    Own(crate::own::OwnArgs),
    /// Start a gateway with a sink behind it, a gentle load and containers that write logs, and show what flows
    Demo(weir_loadtest::demo::DemoArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  weir completions bash > /etc/bash_completion.d/weir")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

const CHECK_EXAMPLES: &str = "\
Examples:
  weir check examples/quickstart.yaml
  weir check pipelines/ secrets.yaml
  weir check pipelines/ --format json | jq '.findings[].message'";

#[derive(Args, Debug)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckArgs {
    /// YAML or JSON files, directories of them, or - for the standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// Refuse objects of kinds that mean nothing here, such as an Ingress, instead of skipping them
    #[arg(long)]
    pub(crate) strict: bool,
    /// How findings are printed
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub(crate) format: Format,
}

const CONVERT_EXAMPLES: &str = "\
Examples:
  weir convert old.yaml --to v1beta1
  weir convert old/ --to v1beta1 | kubectl apply -f -

Every document is printed, as JSON, Secrets included; those of other kinds are not changed.";

#[derive(Args, Debug)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// YAML or JSON files, directories of them, or - for the standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// The version to write
    #[arg(long, value_enum, value_name = "VERSION")]
    pub(crate) to: ApiVersion,
}

/// A version of the pipeline API.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ApiVersion {
    /// Deprecated
    V1alpha1,
    /// Current
    V1beta1,
}

const CRDS_EXAMPLES: &str = "\
Examples:
  weir crds | kubectl apply --server-side -f -
  weir crds --namespace telemetry > crds.yaml
  weir crds --format json | jq '.items[].metadata.name'

An API server converts objects between versions with the webhook of the operator, which has to run for that; \
the operator writes the certificate that it is known by into the definitions.";

#[derive(Args, Debug)]
#[command(after_help = CRDS_EXAMPLES)]
pub(crate) struct CrdsArgs {
    /// The namespace of the operator
    #[arg(long, default_value = "kyma-system", value_name = "NAME")]
    pub(crate) namespace: String,
    /// The Service of the operator's webhooks
    #[arg(long, default_value = "telemetry-manager-webhook", value_name = "NAME")]
    pub(crate) service: String,
    /// How they are printed
    #[arg(long, value_enum, default_value_t = ManifestFormat::Yaml, value_name = "FORMAT")]
    pub(crate) format: ManifestFormat,
}

/// How objects for a cluster are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestFormat {
    /// One document each
    Yaml,
    /// One List
    Json,
}

const RUN_EXAMPLES: &str = "\
Examples:
  weir run examples/quickstart.yaml
  weir run pipelines/ secrets.yaml --listen 0.0.0.0 --memory 1GiB
  weir run quickstart.yaml --grpc-port 0 --http-port 0    (free ports; see the log)
  weir run quickstart.yaml --no-data-dir                  (nothing on disk; see below)
  weir run logs.yaml --pod-logs /var/log/pods             (what containers print, too)
  weir run logs.yaml --roles logs                         (only that: no OTLP ports)

Data that a backend does not take at once is written to the data directory before the client gets its OK: it survives \
a crash of this process or of the machine, and is delivered when the backend takes it. With --no-data-dir it is held in \
memory instead, and lost with the process.

Outputs go through the proxies that the environment variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY name.

On SIGTERM or Ctrl-C, requests under way are finished first; another signal, a second later or more, ends at once.";

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Take what clients push to the OTLP ports
    Gateway,
    /// Read what containers print
    Logs,
    /// Scrape targets, and collect metrics of nodes and workloads
    Metrics,
    /// Deliver what is in the data directory, which every process does: alone, it is for a directory that nobody else uses
    /// any more
    Backlog,
}

/// Headings of the options.
const LOGGING: &str = "Logging";
const PORTS: &str = "Ports";
const SECURITY: &str = "Security of the OTLP ports";
const MEMORY: &str = "Memory";
const DATA_DIRECTORY: &str = "Data directory";
const AGENTS: &str = "Agents: scraping and container logs";
const CONTAINER_LOGS: &str = "Container logs, for LogPipelines with runtime input";
const ADMINISTRATION: &str = "Administration: the states of backends at /backends, what they refused at /rejected, what was given up at /dropped, containers at /logs, targets at /targets";

impl ProcessArgs {
    /// Whether the command line says that this process does that.
    pub(crate) fn names(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether this process does that if pipelines ask for it.
    pub(crate) fn allows(&self, role: Role) -> bool {
        self.roles.is_empty() || self.names(role)
    }
}

#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// YAML or JSON files with pipelines, Secrets and whatever else belongs to them, directories of such files, or - for the
    /// standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// Refuse objects of kinds that mean nothing here, such as an Ingress, instead of skipping them
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// Options of a process that moves data, wherever its configuration comes from.
#[derive(Args, Debug)]
pub(crate) struct ProcessArgs {
    /// What this process does, if gateways and agents are separate processes: without gateway, the OTLP ports stay
    /// closed, without logs, no container logs are read, and without metrics, no metrics are fetched; all deliver what is
    /// in their data directory [default: whatever the pipelines ask for]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLE,...")]
    pub(crate) roles: Vec<Role>,
    /// Address of all ports but --admin-port; 0.0.0.0 for all addresses
    #[arg(long, help_heading = PORTS, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) listen: IpAddr,
    /// Port of OTLP/gRPC; 0 picks a free one
    #[arg(long, help_heading = PORTS, value_name = "PORT", default_value_t = settings::GRPC_PORT)]
    pub(crate) grpc_port: u16,
    /// Port of OTLP/HTTP; 0 picks a free one
    #[arg(long, help_heading = PORTS, value_name = "PORT", default_value_t = settings::HTTP_PORT)]
    pub(crate) http_port: u16,
    /// Port of the Prometheus metrics; 0 picks a free one
    #[arg(long, help_heading = PORTS, value_name = "PORT", default_value_t = settings::METRICS_PORT)]
    pub(crate) metrics_port: u16,
    /// Port of the health check; 0 picks a free one
    #[arg(long, help_heading = PORTS, value_name = "PORT", default_value_t = settings::HEALTH_PORT)]
    pub(crate) health_port: u16,
    /// Between two looks at how data flows through pipelines, which /health/pipelines on the health port shows: a trouble
    /// is told within six of them, and its end after five to nine; of one that came back, after up to sixty
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_positive_duration)]
    pub(crate) look_every: Duration,
    /// Memory budget, for example 512MiB: the process stays under it plus 32 MB [default: 75 % of the cgroup's limit, else 512MiB]
    #[arg(long, help_heading = MEMORY, value_name = "SIZE", value_parser = limits::parse_size)]
    pub(crate) memory: Option<usize>,
    /// Where data is kept until backends take it [default: $XDG_STATE_HOME/weir, else ~/.local/state/weir]
    #[arg(long, help_heading = DATA_DIRECTORY, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Keep such data in memory only: it is lost when this process ends
    #[arg(long, help_heading = DATA_DIRECTORY, conflicts_with = "data_dir")]
    pub(crate) no_data_dir: bool,
    /// When data is forced to the disk: before its client is answered, regularly, or when the kernel likes
    #[arg(long, help_heading = DATA_DIRECTORY, value_enum, default_value_t = FsyncMode::Always, value_name = "WHEN")]
    pub(crate) fsync: FsyncMode,
    /// How often, with --fsync interval; a power loss may lose as much
    #[arg(long, help_heading = DATA_DIRECTORY, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub(crate) fsync_interval: Duration,
    /// Directory of the log files of all pods of this node [default: /var/log/pods, if it exists]
    #[arg(long, help_heading = CONTAINER_LOGS, value_name = "DIR")]
    pub(crate) pod_logs: Option<PathBuf>,
    /// Directory for how far the logs of containers were read, of which a node has one, whichever process reads them
    /// [default: logs, below the data directory]
    #[arg(long, help_heading = CONTAINER_LOGS, value_name = "DIR", conflicts_with = "no_data_dir")]
    pub(crate) log_positions: Option<PathBuf>,
    /// Name of this node: pods of other nodes are not scraped, and records of pods without a known node get it [default:
    /// $NODE_NAME, else $MY_NODE_NAME]
    #[arg(long, help_heading = AGENTS, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) node_name: Option<String>,
    /// Directory of the certificates that targets in Istio's mesh want to see, cert-chain.pem and key.pem
    #[arg(long, help_heading = AGENTS, value_name = "DIR", default_value = ISTIO_CERTIFICATES)]
    pub(crate) istio_certs: PathBuf,
    /// Where reading begins on a first start, without checkpoints; lines that are written later are always read
    #[arg(long, help_heading = CONTAINER_LOGS, value_enum, default_value_t = LogsStartAt::Beginning, value_name = "WHERE")]
    pub(crate) logs_start_at: LogsStartAt,
    /// Space on the disk that removed log files may take until they are read; then the oldest are given up
    #[arg(long, help_heading = CONTAINER_LOGS, value_name = "SIZE", default_value = "1GiB", value_parser = limits::parse_size)]
    pub(crate) max_removed_logs: usize,
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,
    #[command(flatten)]
    pub(crate) ingest: IngestArgs,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    /// How long a client waits for delivery before its data is written to the data directory and answered OK
    #[arg(long, help_heading = DATA_DIRECTORY, value_name = "DURATION", default_value = "250ms", value_parser = parse_duration)]
    pub(crate) spill_after: Duration,
    /// At the end, deliver what is in the data directory, too, within --drain-timeout: for one that goes with the process
    #[arg(long, help_heading = DATA_DIRECTORY)]
    pub(crate) drain_backlog: bool,
    /// How long a shutdown may take to deliver pending data
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_duration)]
    pub(crate) drain_timeout: Duration,
    /// Largest request taken, compressed and decompressed: at most a quarter of --memory, and no more than all pipelines
    /// together have room for; the log shows that limit [default: 16MiB]
    #[arg(long, help_heading = MEMORY, value_name = "SIZE", value_parser = limits::parse_size)]
    pub(crate) max_request_size: Option<usize>,
    /// Age at which clients are asked to reconnect, give or take a tenth, so that they spread over instances
    #[arg(long, help_heading = PORTS, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) max_connection_age: Duration,
    /// Ask clients to reconnect sooner the busier this process is, down to a tenth of that age: for several instances
    /// behind one address
    #[arg(long, help_heading = PORTS)]
    pub(crate) rebalance: bool,
    /// CPU that this process is meant to use, as Kubernetes writes it, for example 500m; that much is busy [default: all
    /// that it may use]
    #[arg(long, help_heading = PORTS, value_name = "CORES", requires = "rebalance", value_parser = limits::parse_cores)]
    pub(crate) rebalance_cpu: Option<f64>,
}

/// Who may send; everybody when nothing is given. The files are read again when they change.
#[derive(Args, Debug)]
pub(crate) struct IngestArgs {
    /// PEM certificate chain of the OTLP ports; clients have to use TLS then
    #[arg(long, help_heading = SECURITY, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM private key for --tls-cert
    #[arg(long, help_heading = SECURITY, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// PEM certificates of the authorities that must have signed the certificates of clients (mutual TLS)
    #[arg(long, help_heading = SECURITY, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Tokens, one per line; every request must carry one of them as `authorization: Bearer TOKEN`
    #[arg(long, help_heading = SECURITY, value_name = "FILE")]
    pub(crate) bearer_token_file: Option<PathBuf>,
}

/// Who may look into the gateway. The files are read again when they change.
#[derive(Args, Debug)]
pub(crate) struct AdminArgs {
    /// Address of the admin port; any but a loopback address needs --admin-token-file or --admin-tls-client-ca
    #[arg(long, help_heading = ADMINISTRATION, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) admin_listen: IpAddr,
    /// The admin port; 0 picks a free one
    #[arg(long, help_heading = ADMINISTRATION, value_name = "PORT", default_value_t = settings::ADMIN_PORT)]
    pub(crate) admin_port: u16,
    /// Tokens, one per line; every request to the admin port must carry one of them as `authorization: Bearer TOKEN`
    #[arg(long, help_heading = ADMINISTRATION, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// PEM certificate chain of the admin port; clients have to use TLS then
    #[arg(long, help_heading = ADMINISTRATION, value_name = "FILE", requires = "admin_tls_key")]
    pub(crate) admin_tls_cert: Option<PathBuf>,
    /// PEM private key for --admin-tls-cert
    #[arg(long, help_heading = ADMINISTRATION, value_name = "FILE", requires = "admin_tls_cert")]
    pub(crate) admin_tls_key: Option<PathBuf>,
    /// PEM certificates of the authorities that must have signed the certificates of those who look (mutual TLS)
    #[arg(long, help_heading = ADMINISTRATION, value_name = "FILE", requires = "admin_tls_cert")]
    pub(crate) admin_tls_client_ca: Option<PathBuf>,
}

const TRY_EXAMPLES: &str = "\
Examples:
  weir try examples/full.yaml --input examples/sample.json  before and after, line by line
  weir try pipelines/ --input sample.json --pipeline shop   of one pipeline only
  weir try pipeline.yaml --input - --format json < sample   for programs
  weir try pipeline.yaml --recent                           try its rules on what has passed through a running process

A sample is an OTLP/JSON document (an export request, with resourceSpans, resourceMetrics or resourceLogs), or \
several of them, one after the other: what the Collector's file exporter writes will do. Exit code 1 if a rule fails \
for an item.

With --recent, the rules of the files (transform, filter and filters) are tried on the recent items of the pipelines of the \
same names in a running process, up to 1,000 of each, which are as they were before the rules; nothing is deployed. It shows \
what becomes of the items, how often each rule matched and failed, and the first 20 items that are not the same afterwards. \
Everything else is as in the process, so Secrets need not be in the files. Exit code 1 also if nothing has passed that rules \
could be tried on.";

#[derive(Args, Debug)]
#[command(after_help = TRY_EXAMPLES)]
pub(crate) struct TryArgs {
    /// YAML or JSON files, directories of them, or - for the standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// The sample; - is the standard input
    #[arg(long, value_name = "SAMPLE", required_unless_present = "recent",
        conflicts_with_all = ["recent", "url", "token_file", "ca", "cert", "key"])]
    pub(crate) input: Option<PathBuf>,
    /// Try the rules on recent items of a running process instead; see below
    #[arg(long)]
    pub(crate) recent: bool,
    /// Only pipelines of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
    /// Address that the sample comes from, to find its pod
    #[arg(long, value_name = "IP", conflicts_with = "recent")]
    pub(crate) peer: Option<IpAddr>,
    /// How the outcome is printed
    #[arg(long, value_enum, default_value_t = TryFormat::Diff, value_name = "FORMAT")]
    pub(crate) format: TryFormat,
    #[command(flatten, next_help_heading = "With --recent")]
    pub(crate) admin: AskArgs,
}

/// How an outcome is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TryFormat {
    /// What changes, line by line
    Diff,
    /// A JSON document for each pipeline
    Json,
}

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory};

    use super::*;

    /// The options of a command and of the commands below it whose values are called one of `names`.
    fn options<'a>(command: &'a clap::Command, names: &[&str]) -> Vec<&'a Arg> {
        let is_named = |arg: &&Arg| arg.get_value_names().is_some_and(|of| names.iter().any(|name| of == [*name]));
        let mut found: Vec<_> = command.get_arguments().filter(is_named).collect();
        found.extend(command.get_subcommands().flat_map(|below| options(below, names)));
        found
    }

    /// Whether an option takes a text, apart from what else its command needs.
    fn takes(option: &Arg, text: &str) -> bool {
        let alone = Arg::new("option").long("option").value_parser(option.get_value_parser().clone());
        let mut command = clap::Command::new("weir").arg(alone);
        command.try_get_matches_from_mut(["weir", &format!("--option={text}")]).is_ok()
    }

    #[test]
    fn all_commands_take_the_same_sizes_and_durations() {
        const SIZES: [&[&str]; 2] = [
            &["1536", "1.5KiB", "1.5Ki", "2kb", "2 KB", "64B", "0.5k", "2e3"],
            &["", "ten", "KiB", "-1", "1.2.3", "10m", "1KiBs", "16EiB", "99999999999999999999"],
        ];
        const DURATIONS: [&[&str]; 2] = [
            &["250ms", "1.5s", "60", "1.5", "2m", "1h30m", "1d", " 20s "],
            &["", "soon", "s", "-1s", "1h30", "1 h", "1e3s", "9000h", "99999999999"],
        ];
        let cli = Cli::command();
        for (names, [right, wrong]) in [(&["SIZE", "BYTES_PER_SECOND"][..], SIZES), (&["DURATION"], DURATIONS)] {
            let options = options(&cli, names);
            assert!(options.len() > 9, "{names:?}: {options:?}");
            for option in options {
                let id = option.get_id();
                for text in right {
                    assert!(takes(option, text), "--{id} {text:?}");
                }
                for text in wrong {
                    assert!(!takes(option, text), "--{id} {text:?}");
                }
            }
        }
    }
}
