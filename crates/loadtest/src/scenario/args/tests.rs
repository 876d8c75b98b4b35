//! Options, and what they become.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: LoadtestArgs,
}

fn args(line: &str) -> Result<LoadtestArgs, clap::Error> {
    let words = std::iter::once("loadtest").chain(line.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.args)
}

fn names(line: &str) -> Vec<String> {
    args(line).unwrap().scripts().unwrap().into_iter().map(|script| script.name).collect()
}

#[test]
fn flags_choose_the_scenario() {
    assert_eq!(names("-t traces"), ["traces"]);
    assert_eq!(names("-m true -b true"), ["traces-multi-backpressure"]);
    assert_eq!(names("-t metrics -m"), ["metrics-multi"]);
    assert_eq!(names("-t logs-otel -b"), ["logs-otel-backpressure"]);
    assert_eq!(names("-t logs --scenario matrix").len(), 9);
    assert_eq!(names("--scenario outage"), ["traces-outage"]);
    assert_eq!(names("--scenario outage --outage silent -m"), ["traces-outage-silent"]);
    assert_eq!(names("--scenario sick-neighbour"), ["traces-sick-neighbour-alone", "traces-sick-neighbour"]);
    assert_eq!(names("--scenario crash"), ["traces-crash"]);
    assert!(args("--scenario crash -b true").is_err());
    assert!(args("-b true --backpressure-percent 101").is_err());
    assert!(args("--backpressure-percent 70").unwrap().scripts().is_err());
    assert!(args("--scenario sick-neighbour -m true").unwrap().scripts().is_err());
    assert!(args("--scenario crash --kill-every 1ms").unwrap().scripts().is_err());
    assert!(args("--scenario matrix -c 3").unwrap().scripts().is_err());
}

#[test]
fn a_metric_agent_is_refused_everything_and_others_70_percent_as_published() {
    let script = |line: &str| args(line).unwrap().scripts().unwrap().remove(0);
    for (line, percent, name) in [
        ("-b", 70, "traces-backpressure"),
        ("-t logagent -b", 70, "logagent-backpressure"),
        ("-t metricagent -b", 100, "metricagent-backpressure"),
        ("-t metricagent -b --backpressure-percent 100", 100, "metricagent-backpressure"),
        ("-t metricagent -m -b --backpressure-percent 70", 70, "metricagent-multi-backpressure-70"),
        ("-b --backpressure-percent 100", 100, "traces-backpressure-100"),
    ] {
        let script = script(line);
        assert_eq!((script.name.as_str(), script.mended), (name, percent == 100), "{line}");
        assert!(script.backends[0].contains(&format!("\"503:{percent}\"")), "{line}");
        let fault = script.published.unwrap().backpressure.unwrap();
        assert_eq!((fault.percent, fault.is_published), (percent, !name.ends_with(char::is_numeric)), "{line}");
    }
}

#[test]
fn a_log_agent_has_scenarios_and_files_of_its_own() {
    let writer = |line: &str| args(line).unwrap().scripts().unwrap().remove(0).writer.unwrap();
    assert_eq!(names("-t logagent -m -b"), ["logagent-multi-backpressure"]);
    assert_eq!(names("-t logagent --scenario short-pods"), ["logagent-short-pods"]);
    assert_eq!(names("-t logagent --scenario rotation -m"), ["logagent-rotation"]);
    assert!(writer("-t logagent").first && !writer("-t logagent -r 10").first);
    let rotation = writer("-t logagent --scenario rotation -s 2000 --writer-arg=--shape=json").arguments;
    for argument in ["--rate=41000", "--rotate-every=0.05s", "--keep=800", "--line-size=2000", "--shape=json"] {
        assert!(rotation.iter().any(|given| given == argument), "{argument}: {rotation:?}");
    }
    for refused in ["-t logagent --scenario matrix", "--scenario rotation", "-t logagent --scenario crash --max"] {
        assert!(args(refused).unwrap().scripts().is_err(), "{refused}");
    }
}

#[test]
fn a_metric_agent_scrapes_pages() {
    let pages = |line: &str| args(line).unwrap().scripts().unwrap().remove(0).pages.unwrap();
    assert_eq!(names("-t metricagent -m -b"), ["metricagent-multi-backpressure"]);
    assert_eq!(names("-t metricagent --scenario outage"), ["metricagent-outage"]);
    assert_eq!(names("-t metricagent --scenario scale"), ["metricagent-scale"]);
    assert_eq!(pages("-t metricagent").arguments, ["--targets=20", "--interval-hint=30s"]);
    let scale = pages("-t metricagent --scenario scale --scrape-interval 2s --page-arg=--churn=10");
    assert_eq!(scale.arguments, ["--targets=20", "--interval-hint=2s", "--series=50", "--churn=10"]);
    let peers = args("-t metricagent --peer vmagent=a --peer otelcol=b --peer prometheus=c").unwrap().peers;
    assert_eq!(peers.iter().map(Peer::name).collect::<Vec<_>>(), ["vmagent", "otelcol", "prometheus"]);
    assert!(args("--peer other=x").is_err() && args("--peer vmagent=").is_err());
    for refused in [
        "-t metricagent --scenario crash",
        "-t metricagent --rate 5",
        "-t metricagent --processing insert",
        "-t traces --peer vmagent=x",
        "-t logagent --peer prometheus=x",
        "-t traces --page-arg=--churn=5",
        "--scenario scale",
    ] {
        assert!(args(refused).unwrap().scripts().is_err(), "{refused}");
    }
}

#[test]
fn fluent_bits_records_are_a_test_of_their_own() {
    let script = |line: &str| args(line).unwrap().scripts().unwrap().remove(0);
    assert_eq!(names("-t logs-fluentbit -m -b"), ["logs-fluentbit-multi-backpressure"]);
    let single = script("-t logs-fluentbit").writer.unwrap();
    assert!(single.first && single.arguments.contains(&"--shape=flog".to_owned()), "{single:?}");
    let rotation = script("-t logs-fluentbit --scenario rotation").writer.unwrap().arguments;
    assert!(rotation.contains(&"--rate=29000".to_owned()), "{rotation:?}");
    let sends = |line: &str| args(line).unwrap().sends();
    assert_eq!(sends("-t logs-fluentbit"), Output::Http(RecordFormat::Json));
    assert_eq!(sends("-t logs-fluentbit --format json_lines"), Output::Http(RecordFormat::JsonLines));
    assert_eq!(sends("-t logagent"), Output::Otlp);
    for refused in
        ["--format json -t logagent", "--peer otelcol=x -t logs-fluentbit", "--compression zstd -t logs-fluentbit"]
    {
        assert!(args(refused).unwrap().scripts().is_err(), "{refused}");
    }
}

#[test]
fn the_log_gateway_has_the_setups_and_the_clients_of_the_load_test_kit() {
    assert_eq!(names("-t logs-otel --overlay base"), ["logs-otel"]);
    assert_eq!(names("-t logs-otel --overlay batch"), ["logs-otel-batch"]);
    assert_eq!(names("-t logs-otel --overlay batch -m -b"), ["logs-otel-batch-multi-backpressure"]);
    let script = |line: &str| args(line).unwrap().scripts().unwrap().remove(0);
    let overlays = ["-t logs-otel", "-t logs-otel --overlay base", "-t logs-otel --overlay batch"];
    assert_eq!(overlays.map(|line| script(line).overlay()), [None, Some(Overlay::Base), Some(Overlay::Batch)]);
    let load = |line: &str| {
        let args = args(line).unwrap();
        (args.offered(), args.connections(), args.shape().unwrap().batch)
    };
    for overlay in ["base", "batch"] {
        assert_eq!(load(&format!("-t logs-otel --overlay {overlay}")), (Offered::Maximum, 80, 1), "{overlay}");
    }
    assert_eq!(load("-t logs-otel --overlay batch -r 500 -c 4 --batch 10"), (Offered::Rate(500), 4, 10));
    assert_eq!(load("-t logs-otel"), (Offered::Rate(1000), 8, 100), "the setups alone have other clients");
    assert!(args("-t logs-otel --overlay batch --scenario matrix").is_err());
    for refused in ["-t traces --overlay base", "-t logagent --overlay batch", "-t self-monitor --overlay batch"] {
        assert!(args(refused).unwrap().scripts().is_err(), "{refused}");
    }
}

#[test]
fn a_seed_repeats_a_crash() {
    let kills = |line: &str| args(line).unwrap().scripts().unwrap()[0].kills.unwrap();
    assert_eq!(kills("--scenario crash --seed 7 --kill-every 2s").seed, 7);
    assert_ne!(kills("--scenario crash").seed, kills("--scenario crash").seed);
}

#[test]
fn what_is_offered_depends_on_the_scenario_unless_it_is_said() {
    let offered = |line: &str| args(line).unwrap().offered();
    assert_eq!(offered("-b true"), Offered::Maximum);
    assert_eq!(offered("--rate 5"), Offered::Rate(5));
    assert_eq!(offered("-t metrics"), Offered::Producers { count: 2000, every: Duration::from_secs(30) });
    assert_eq!(offered("-t metrics -r 5300"), Offered::Rate(5300));
    assert_eq!(offered("-t metrics --max"), Offered::Maximum);
    assert_eq!(offered("-t logs-otel"), Offered::Rate(1000));
    assert_eq!(offered("-t logs-otel --scenario matrix -r 7"), Offered::Rate(7));
    assert_eq!(offered("--scenario outage"), Offered::Rate(GENTLE_RATE));
    assert_eq!(offered("--scenario sick-neighbour --rate 5"), Offered::Rate(5));
    assert_eq!(offered("--scenario crash --max"), Offered::Maximum);
    assert!(args("--rate 5 --producers 5").is_err());
    assert_eq!(args("").unwrap().connections(), 8);
    assert_eq!(args("--scenario crash").unwrap().connections(), 64);
    assert_eq!(args("--scenario crash -c 3").unwrap().connections(), 3);
    assert_eq!(args("-t metrics").unwrap().connections(), 64);
}

#[test]
fn what_is_sent_depends_on_the_signal_and_the_processing() {
    let shape = |line: &str| args(line).unwrap().shape();
    assert_eq!(shape("-t traces").unwrap().batch, 512);
    assert_eq!(shape("-t metrics").unwrap().batch, 20);
    assert_eq!(shape("-t metrics --max --batch 3 --attributes 7").unwrap().batch, 3);
    assert_eq!(shape("-t logs-otel").unwrap().batch, 100);
    assert!(shape("-t logs-otel --processing filter97").unwrap().marked.is_some());
    assert!(shape("-t traces -s 100").is_err());
    assert!(shape("-t traces --marked 50").is_err());
    assert!(shape("-t logs-otel --namespaces 5").is_ok());
    assert!(shape("-t logagent --namespaces 5").is_err());
}
