//! The command line: exit codes, and messages that say what to do.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use weir_plan::Signal;
use weir_testkit::in_time;
use weir_testkit::manifests::{self, from_secret, plain, secured, with};
use weir_testkit::signals::document;
use weir_testkit::sink::{closed_port, sink};
use weir_testkit::tls::Authority;

use crate::process::{Weir, command, manifest, run};

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

async fn weir(arguments: &[&str]) -> Ended {
    end(command(arguments)).await
}

async fn end(mut command: tokio::process::Command) -> Ended {
    let output = in_time("end of the command", command.output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A directory with one file.
fn file(text: &str) -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pipelines.yaml");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

fn good() -> String {
    manifest("backend", "127.0.0.1:4317".parse().unwrap())
}

/// Two mistakes in two documents.
const BAD: &str = "\
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata:
  name: one
spec:
  output:
    otlp:
      endpont:
        value: http://127.0.0.1:4317
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata:
  name: two
spec:
  output:
    otlp:
      compression: lzma
      endpoint:
        value: http://127.0.0.1:4317
";

#[tokio::test]
async fn check_accepts_what_is_right() {
    let (directory, path) = file(&good());
    for target in [path.as_path(), directory.path()] {
        let ended = weir(&["check", target.to_str().unwrap()]).await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.out.contains("traces/backend -> 127.0.0.1:4317"), "{}", ended.out);
    }
}

/// What lies beside pipelines in people's files.
const FOREIGN: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: shop}
---
";

#[tokio::test]
async fn objects_of_other_kinds_are_skipped_unless_they_are_refused() {
    let (_directory, path) = file(&(FOREIGN.to_owned() + &good()));
    let ended = weir(&["check", path.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    assert!(ended.err.contains("pipelines.yaml:6:7: warning: skipped 2 objects"), "{}", ended.err);
    let ended = weir(&["check", "--strict", path.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1));
    for kind in ["\"Ingress\" is not a supported kind", "\"ServiceAccount\" is not a supported kind"] {
        assert!(ended.err.contains(kind), "{}", ended.err);
    }
    let mut strict = run(&path);
    strict.args(["--strict", "--no-data-dir"]);
    let ended = end(strict).await;
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    // One namespace in several files, and several in one.
    let twice = [path.to_str().unwrap(), path.with_file_name("more.yaml").to_str().unwrap()].map(str::to_owned);
    std::fs::write(&twice[1], FOREIGN).unwrap();
    let ended = weir(&["check", &twice[0], &twice[1]]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (Some(0), 2), "{}", ended.err);
}

/// Whoever keeps them in files of their own checks each file alone.
#[tokio::test]
async fn check_accepts_what_is_right_and_no_pipeline_that_runs() {
    let telemetry = "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {name: default}\n";
    for text in [telemetry.to_owned(), manifests::secret("tls", &json!({"a": "b"}))] {
        let (_directory, path) = file(&text);
        let ended = weir(&["check", path.to_str().unwrap()]).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{}", ended.err);
        assert!(ended.err.contains("warning: no pipeline is defined"), "{}", ended.err);
        // There is nothing to run in it.
        for mut command in [run(&path), command(&["try", path.to_str().unwrap(), "--input", "no/such/sample.json"])] {
            if command.as_std().get_args().next().is_some_and(|verb| verb == "run") {
                command.arg("--no-data-dir");
            }
            let ended = end(command).await;
            assert_eq!(ended.code, Some(1), "{}", ended.err);
            assert!(ended.err.contains("no pipeline is defined"), "{}", ended.err);
        }
    }
    let (_directory, path) = file("");
    assert_eq!(weir(&["check", path.to_str().unwrap()]).await.code, Some(1), "an empty file is a mistake");
}

#[tokio::test]
async fn a_directory_of_json_and_the_standard_input_are_read() {
    let directory = TempDir::new().unwrap();
    let json =
        manifests::with_spec(Signal::Traces, "json", &json!({"output": {"otlp": {"endpoint": {"value": "b:1"}}}}));
    std::fs::write(directory.path().join("pipeline.json"), json.replace("---", "")).unwrap();
    let ended = weir(&["check", directory.path().to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("traces/json"), "{}", ended.out);

    for (arguments, text, code) in [
        (&["check", "-"][..], good(), 0),
        (&["check", "-"], BAD.to_owned(), 1),
        (&["convert", "-", "--to", "v1alpha1"], good(), 0),
    ] {
        let (_directory, path) = file(&text);
        let mut command = command(arguments);
        command.stdin(std::fs::File::open(path).unwrap());
        let ended = end(command).await;
        assert_eq!(ended.code, Some(code), "{}", ended.err);
        assert!(code == 0 || ended.err.contains("-:8:7: error: "), "{}", ended.err);
        assert!(code == 1 || (ended.out + &ended.err).contains("backend"));
    }
    let ended = weir(&["try", "-", "--input", "-"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("from the standard input: name a file for one of them"), "{}", ended.err);
    let ended = weir(&["check", "-", "-"]).await;
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (Some(1), "-: error: cannot read the standard input twice; expected - once\n")
    );
}

/// `weir ... | head -1` is no reason to complain.
#[tokio::test]
async fn a_reader_that_has_seen_enough_ends_a_command_quietly() {
    let (_directory, path) = file(&good());
    let sample = path.with_file_name("sample.json");
    std::fs::write(&sample, r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}]}]}]}"#).unwrap();
    let (path, sample) = (path.to_str().unwrap(), sample.to_str().unwrap());
    let sink = sink("{}").await;
    let endpoint = sink.grpc.to_string();
    for arguments in [
        &["check", path][..],
        &["check", path, "--format", "json"],
        &["convert", path, "--to", "v1alpha1"],
        &["try", path, "--input", sample],
        &["try", path, "--input", sample, "--format", "json"],
        &["load", "traces", "--endpoint", &endpoint, "--duration", "100ms"],
        &["crds"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(arguments);
        let child = command.stdout(writer).spawn().unwrap();
        let output = in_time("end of the command", child.wait_with_output()).await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// Who waits for a command to end reads what it says, also from a file.
#[tokio::test]
async fn errors_of_commands_that_end_by_themselves_are_plain_text() {
    let (_directory, path) = file(&good());
    let path = path.to_str().unwrap();
    for (arguments, complaint) in [
        (&["try", path, "--input", "no/such/sample.json"][..], "error: cannot read the sample no/such/sample.json"),
        (&["try", path, "--input", path], "error: "),
        (&["journal", "inspect", "no/such/directory"], "error: cannot find the data directory no/such/directory"),
        (
            &["convert", "no/such/file.yaml", "--to", "v1beta1"],
            "no/such/file.yaml: error: cannot read file: No such file",
        ),
        (&["check", "no/such/file.yaml"], "no/such/file.yaml: error: cannot read file: No such file"),
    ] {
        let ended = weir(arguments).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.starts_with(complaint), "{arguments:?}: {}", ended.err);
    }
    let ended = weir(&["--log-format", "json", "try", path, "--input", "no/such/sample.json"]).await;
    assert!(ended.err.starts_with('{'), "as asked: {}", ended.err);
}

#[tokio::test]
async fn the_options_of_run_stand_under_what_they_are_about() {
    let help = weir(&["run", "--help"]).await.out;
    let options = help.split("Examples:").next().unwrap();
    let headings: Vec<_> = options.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    let expected = [
        "Arguments:",
        "Options:",
        "Ports:",
        "Memory:",
        "Data directory:",
        "Container logs, for LogPipelines with runtime input:",
        "Agents: scraping and container logs:",
        "Runtime metrics, for MetricPipelines with runtime input:",
        "Security of the OTLP ports:",
        "Administration: the states of backends at /backends, what they refused at /rejected, what was given up at /dropped, containers at /logs, targets at /targets:",
        "Logging:",
    ];
    assert_eq!(headings, expected, "{help}");
    let security = help.split("Security of the OTLP ports:").nth(1).unwrap();
    assert!(!security.contains("--spill-after") && security.contains("--bearer-token-file"), "{security}");
}

#[tokio::test]
async fn check_reports_every_error_at_once() {
    let (_directory, path) = file(BAD);
    let ended = weir(&["check", path.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1));
    for finding in ["endpont", "did you mean", "lzma", "pipelines.yaml:8:7", "pipelines.yaml:18:"] {
        assert!(ended.err.contains(finding), "{finding:?} is not in\n{}", ended.err);
    }
}

#[tokio::test]
async fn check_speaks_json_for_programs() {
    let check = async |text: &str, code: i32| {
        let (_directory, path) = file(text);
        let ended = weir(&["check", "--format", "json", path.to_str().unwrap()]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""));
        serde_json::from_str::<Value>(&ended.out).unwrap()
    };
    let good = check(&good(), 0).await;
    assert_eq!(good["ok"], true);
    assert_eq!(good["findings"], json!([]));
    assert_eq!(good["pipelines"][0]["pipeline"], "traces/backend");
    assert_eq!(good["pipelines"][0]["exporter"], "otlp_grpc/tracepipeline-backend");
    assert_eq!(good["pipelines"][0]["port"], 4317);
    let bad = check(BAD, 1).await;
    assert_eq!((&bad["ok"], &bad["pipelines"]), (&json!(false), &json!([])));
    let finding = bad["findings"].as_array().unwrap().iter().find(|finding| finding["value"] == "lzma").unwrap();
    assert_eq!((&finding["severity"], &finding["line"]), (&json!("error"), &json!(18)));
    assert_eq!(finding["field"], "spec.output.otlp.compression");
    assert_eq!(finding["pipeline"], "traces/two");
}

/// The reason that a condition would give is named beside its pipeline, and the exit code says whether it can work.
#[tokio::test]
async fn check_names_reasons() {
    let (backend, day) = ("127.0.0.1:4317".parse().unwrap(), Duration::from_secs(24 * 3600));
    let ca = |pem: String| secured("grpc", backend, &json!({"ca": {"value": pem}}));
    let until = |end| ca(Authority::until(end).pem());
    let now = SystemTime::now();
    let token = with(from_secret("nowhere", "token"), json!({"name": "authorization"}));
    let outputs = [
        (until(now + 15 * day), None, 0),
        (until(now + 13 * day), Some("TLSCertificateAboutToExpire"), 0),
        (until(now - day), Some("TLSCertificateExpired"), 1),
        (ca("garbage".into()), Some("TLSConfigurationInvalid"), 1),
        (with(plain("grpc", backend), json!({"headers": [token]})), Some("ReferencedSecretMissing"), 1),
        (with(plain("grpc", backend), json!({"endpoint": {"value": "backend"}})), Some("EndpointInvalid"), 1),
    ];
    for (signal, (output, reason, code)) in
        Signal::ALL.iter().flat_map(|signal| outputs.iter().map(move |o| (signal, o)))
    {
        let mut spec = json!({"output": {"otlp": output}});
        if *signal == Signal::Logs {
            // Container logs are not collected yet, which is another thing to be warned of.
            spec["input"] = json!({"runtime": {"enabled": false}});
        }
        check_says(*signal, &spec, *reason, *code).await;
    }
    let output = json!({"otlp": plain("grpc", backend)});
    let filter = json!({"output": output, "filter": [{"conditions": ["isMatch(metric.name, \"a\")"]}]});
    check_says(Signal::Metrics, &filter, Some("OTTLSpecInvalid"), 1).await;
    let runtime = json!({"enabled": true, "additionalMetrics": ["no.such.metric"]});
    let input = json!({"output": output, "input": {"runtime": runtime}});
    check_says(Signal::Metrics, &input, Some("RuntimeAdditionalMetricInvalid"), 1).await;
}

async fn check_says(signal: Signal, spec: &Value, reason: Option<&str>, code: i32) {
    let (_directory, path) = file(&manifests::with_spec(signal, "shop", spec));
    let ended = weir(&["check", path.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(code), "{}", ended.err);
    match reason {
        None => assert_eq!(ended.err, ""),
        Some(reason) => {
            let said = format!(": {}/shop: {reason}: spec.", signal.name());
            assert!(ended.err.contains(&said), "{said:?} is not in\n{}", ended.err);
        }
    }
}

#[tokio::test]
async fn convert_goes_down_and_up_again() {
    let newer = good().replace("compression: none", "compression: zstd");
    let (_directory, path) = file(&newer);
    let down = weir(&["convert", path.to_str().unwrap(), "--to", "v1alpha1"]).await;
    assert_eq!(down.code, Some(0), "{}", down.err);
    assert!(down.out.contains("telemetry.kyma-project.io/v1alpha1"), "{}", down.out);
    let (_directory, path) = file(&down.out);
    let up = weir(&["convert", path.to_str().unwrap(), "--to", "v1beta1"]).await;
    assert!(up.out.contains("\"compression\": \"zstd\"") && !up.out.contains("conversion-data"), "{}", up.out);

    let (_directory, path) = file("a: [\n");
    let ended = weir(&["convert", path.to_str().unwrap(), "--to", "v1beta1"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
}

/// One version leaves out what the other refuses.
#[tokio::test]
async fn convert_says_what_check_refuses_of_its_output() {
    let older = "apiVersion: telemetry.kyma-project.io/v1alpha1\nkind: TracePipeline\nmetadata: {name: x}\nspec:\n  \
                 output:\n    otlp:\n      endpoint: {value: 'b:1'}\n      authentication:\n        ";
    let (_directory, path) = file(&format!("{older}basic: {{user: {{value: a}}, password: {{}}}}\n"));
    let ended = weir(&["check", path.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let ended = weir(&["convert", path.to_str().unwrap(), "--to", "v1beta1"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("output:") && ended.err.contains("authentication.basic"), "{}", ended.err);
    assert!(ended.err.contains("`weir check` refuses the output"), "{}", ended.err);
    let (_directory, path) = file(&ended.out);
    let refused = weir(&["check", path.to_str().unwrap()]).await;
    assert_eq!(refused.code, Some(1), "it is right: {}", refused.err);

    // The Secret may be in another file, and there may be nothing to convert.
    let basic = json!({"user": from_secret("s", "user"), "password": from_secret("s", "password")});
    for text in [format!("{older}basic: {basic}\n"), FOREIGN.to_owned()] {
        let (_directory, path) = file(&text);
        let ended = weir(&["convert", path.to_str().unwrap(), "--to", "v1beta1"]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{text}");
    }
}

/// The documents of a text.
fn documents(text: String) -> Vec<Value> {
    let mut files = weir_resources::Files::read(&[]);
    files.sources.push(weir_resources::Source { name: "documents.yaml".to_owned(), text });
    let mut read = files.documents().unwrap();
    read.remove(0).1
}

#[tokio::test]
async fn crds_prints_what_a_cluster_has_to_know() {
    let yaml = weir(&["crds"]).await;
    assert_eq!((yaml.code, yaml.err.as_str()), (Some(0), ""));
    let documents = documents(yaml.out);
    let json: Value = serde_json::from_str(&weir(&["crds", "--format", "json"]).await.out).unwrap();
    assert_eq!((&json["kind"], &json["items"]), (&json!("List"), &json!(documents)));
    assert_eq!(documents.len(), 4);

    let elsewhere = weir(&["crds", "--format", "json", "--namespace", "a", "--service", "b"]).await.out;
    let elsewhere: Value = serde_json::from_str(&elsewhere).unwrap();
    let client = &elsewhere["items"][0]["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(*client, json!({"service": {"namespace": "a", "name": "b", "path": "/convert", "port": 443}}));
}

/// `deploy/render.sh` writes both files, and needs Helm to look at them.
#[tokio::test]
async fn what_is_deployed_has_the_definitions_that_crds_prints() {
    const ADVICE: &str = "is not up to date: run deploy/render.sh";
    let printed = weir(&["crds"]).await.out;
    let deploy = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy"));
    let read = |name: &str| std::fs::read_to_string(deploy.join(name)).unwrap();
    assert!(read("chart/files/crds.yaml") == printed, "deploy/chart/files/crds.yaml {ADVICE}");
    let mut rendered = documents(read("weir.yaml"));
    rendered.retain(|document| document["kind"] == "CustomResourceDefinition");
    for definition in &mut rendered {
        // The chart adds labels and annotations.
        definition["metadata"].as_object_mut().unwrap().retain(|key, _| key == "name");
    }
    assert!(rendered == documents(printed), "deploy/weir.yaml {ADVICE}");
}

#[tokio::test]
async fn run_refuses_what_check_refuses() {
    let (_directory, path) = file(BAD);
    let ended = end(run(&path)).await;
    assert_eq!(ended.code, Some(1));
    let lines: Vec<Value> = ended.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places: Vec<_> = lines.iter().map(|line| (line["field"].as_str(), line["line"].as_u64())).collect();
    let compression = (Some("spec.output.otlp.compression"), Some(18));
    assert!(places.contains(&(Some("spec.output.otlp.endpont"), Some(8))), "{lines:?}");
    assert!(places.contains(&compression), "{lines:?}");
    let ends = lines.last().unwrap()["message"].as_str().unwrap();
    assert!(ends.contains("cannot use the configuration") && ends.contains("weir check"), "{ends}");
}

#[tokio::test]
async fn wrong_usage_is_exit_code_2() {
    for arguments in [&["run"][..], &["check"], &["run", "x.yaml", "--grpc-prot", "1"], &["walk"], &[]] {
        let ended = weir(arguments).await;
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains("Usage"), "{arguments:?}: {}", ended.err);
    }
    let ended = weir(&["run", "x.yaml", "--memory", "much"]).await;
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("512MiB"), "an example says what is right: {}", ended.err);
}

#[tokio::test]
async fn a_missing_file_is_named() {
    for verb in ["check", "run"] {
        let ended = weir(&[verb, "no/such/file.yaml"]).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains("no/such/file.yaml"), "{}", ended.err);
    }
}

const PORTS: [&str; 5] = ["--grpc-port", "--http-port", "--metrics-port", "--health-port", "--admin-port"];

/// And nothing is written for a gateway that does not start.
#[tokio::test]
async fn a_port_in_use_is_named_with_its_flag() {
    let (directory, path) = file(&good());
    let data = directory.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for flag in PORTS {
        let mut command = command(&["run", path.to_str().unwrap(), "--data-dir", data.to_str().unwrap(), flag, &port]);
        for other in PORTS {
            if other != flag {
                command.args([other, "0"]);
            }
        }
        let ended = end(command).await;
        assert_eq!(ended.code, Some(1), "{flag}");
        assert!(ended.err.contains(&port) && ended.err.contains(flag), "{flag}: {}", ended.err);
        assert_eq!(ended.err.matches("in use").count(), 1, "{flag}: {}", ended.err);
        assert!(!ended.err.contains("kept on disk") && !data.exists(), "{flag}: {}", ended.err);
    }
}

/// Another port would not help.
#[tokio::test]
async fn an_address_of_another_machine_is_named_with_its_flag() {
    let (directory, path) = file(&good());
    let data = directory.path().join("data");
    // Set aside for documentation, so that no machine has them.
    for arguments in [&["--listen", "192.0.2.1"][..], &["--admin-listen", "192.0.2.1", "--admin-token-file"]] {
        let mut command = run(&path);
        command.args(["--data-dir", data.to_str().unwrap()]).args(arguments);
        if arguments.len() > 2 {
            let tokens = directory.path().join("tokens");
            std::fs::write(&tokens, "token\n").unwrap();
            command.arg(tokens);
        }
        let ended = end(command).await;
        assert_eq!(ended.code, Some(1), "{arguments:?}");
        let advice = format!("choose an address of this machine with {}", arguments[0]);
        assert!(ended.err.contains("192.0.2.1") && ended.err.contains(&advice), "{}", ended.err);
        assert!(!data.exists(), "{arguments:?}");
    }
}

/// However short a load is: one that nobody took is none.
#[tokio::test]
async fn a_load_to_where_nobody_is_says_so() {
    let endpoint = closed_port().await.to_string();
    let ended = weir(&["load", "traces", "--endpoint", &endpoint, "--duration", "2s"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains("attempts to connect failed"), "{}", ended.err);
}

#[tokio::test]
async fn too_little_memory_is_refused_with_the_least_that_works() {
    let (_directory, path) = file(&good());
    for (arguments, said) in [
        (&["--memory", "1MiB"][..], &["--memory 1MiB", "at least 32MiB"][..]),
        (&["--memory", "64MiB", "--max-request-size", "20MiB"], &["size 20MiB", "at most 16MiB", "(64MiB)"]),
    ] {
        let mut command = run(&path);
        command.args(arguments).arg("--no-data-dir");
        let ended = end(command).await;
        assert_eq!(ended.code, Some(1));
        assert!(said.iter().all(|said| ended.err.contains(said)), "{}", ended.err);
    }
}

#[tokio::test]
async fn version_and_completions() {
    let ended = weir(&["--version"]).await;
    assert_eq!((ended.code, ended.out.trim()), (Some(0), concat!("weir ", env!("CARGO_PKG_VERSION"))));
    let ended = weir(&["completions", "bash"]).await;
    assert_eq!(ended.code, Some(0));
    assert!(ended.out.contains("complete -F"), "{}", ended.out);
    let ended = weir(&["run", "--help"]).await;
    assert_eq!(ended.code, Some(0));
    assert!(ended.out.contains("Examples:") && ended.out.contains("--grpc-port"), "{}", ended.out);
}

/// Not on a terminal: every line is a JSON object with level, time and message.
#[tokio::test]
async fn log_lines_are_json() {
    let weir = Weir::start(&manifest("backend", closed_port().await), &["--log-level", "debug"]).await;
    let logs = weir.logs();
    assert!(logs.iter().any(|line| line["message"] == "ready"), "{logs:?}");
    for line in logs {
        assert!(line["level"].is_string() && line["timestamp"].is_string() && line["message"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn when_data_is_forced_to_the_disk_is_logged_as_it_is_typed() {
    for (typed, interval) in
        [(&[][..], Value::Null), (&["--fsync", "interval", "--fsync-interval", "1500ms"], "1.5s".into())]
    {
        let directory = TempDir::new().unwrap();
        let arguments = [&["--data-dir", directory.path().to_str().unwrap()], typed].concat();
        let weir = Weir::start(&manifest("backend", closed_port().await), &arguments).await;
        let kept = weir.logged("data that no backend takes at once is kept on disk").unwrap();
        let fsync = typed.get(1).unwrap_or(&"always");
        assert_eq!((&kept["fsync"], &kept["fsync_interval"]), (&Value::from(*fsync), &interval), "{kept}");
    }
}

/// The number of the first line that starts like this.
fn line(text: &str, start: &str) -> u64 {
    1 + text.lines().take_while(|line| !line.starts_with(start)).count() as u64
}

/// What is said of a configuration is a log record like every other, with the place in fields of its own.
#[tokio::test]
async fn what_is_warned_of_is_in_the_log() {
    // Of one with the defaults there is nothing to say.
    let defaults = document(Signal::Logs, "defaults", closed_port().await, "");
    let metrics = "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: MetricPipeline\nmetadata:\n  name: metrics\n  \
                   namespace: shop\nspec:\n  output: {otlp: {endpoint: {value: 'http://b:1'}}}\n---\n";
    let manifests = defaults + metrics;
    let weir = Weir::start(&manifests, &[]).await;
    let logs = weir.logs();
    let message = "the namespace has no effect: MetricPipeline is cluster-scoped";
    let found = logs.iter().find(|line| line["message"] == message && line["pipeline"] == "metrics/metrics");
    let found = found.unwrap_or_else(|| panic!("{message}: {logs:?}"));
    assert_eq!((&found["level"], &found["field"]), (&json!("WARN"), &json!("metadata.namespace")));
    assert_eq!(found["expected"], "no namespace", "{found}");
    assert_eq!(found["line"], line(&manifests, "  namespace:"), "{found}");
    assert!(found["file"].as_str().unwrap().ends_with("pipelines.yaml") && found["column"].is_u64(), "{found}");
    assert!(logs.iter().all(|line| line["message"].is_string()), "{logs:?}");
    let of_defaults = logs.iter().filter(|line| line["pipeline"] == "logs/defaults");
    assert!(of_defaults.clone().all(|line| line["level"] == "INFO"), "{:?}", of_defaults.collect::<Vec<_>>());
}

/// A certificate is judged when a gateway starts; the reason is that of a condition.
#[tokio::test]
async fn a_certificate_that_soon_expires_is_in_the_log() {
    let soon = SystemTime::now() + Duration::from_secs(5 * 24 * 3600);
    let output = secured("grpc", closed_port().await, &json!({"ca": from_secret("tls", "ca")}));
    let secret = manifests::secret("tls", &json!({"ca": Authority::until(soon).pem()}));
    let weir = Weir::start(&(secret + &manifests::pipeline(Signal::Traces, "backend", &output)), &[]).await;
    let logs = weir.logs();
    let found = logs.iter().find(|line| line["reason"] == "TLSCertificateAboutToExpire");
    let found = found.unwrap_or_else(|| panic!("{logs:?}"));
    assert_eq!(found["level"], "WARN");
    assert_eq!(found["field"], "spec.output.otlp.tls.ca.valueFrom.secretKeyRef");
    assert!(found["message"].as_str().unwrap().starts_with("TLS CA certificate is about to expire"), "{found}");
    assert_eq!(found["expected"], "one that is valid now, and in two weeks", "{found}");
}

/// What `make run` starts.
#[tokio::test]
async fn the_example_of_all_signals_has_a_pipeline_for_each() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/all-signals.yaml");
    let ended = weir(&["check", example]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    for pipeline in ["traces/backend", "metrics/backend", "logs/backend"] {
        assert!(ended.out.contains(&format!("ok: {pipeline} -> 127.0.0.1:14317")), "{}", ended.out);
    }
}
