//! Credentials of outputs that are replaced while the gateway runs: by new ones, by garbage, or by time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use rustix::process::Signal as Unix;
use serde_json::{Value, json};
use weir_plan::{Identity, Signal};
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::clients::{ids, send_all};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK, frame};
use weir_testkit::manifests::{from_secret, pipeline, plain, secret, secured, with};
use weir_testkit::metrics::{Scrape, whole};
use weir_testkit::signals::encoded;
use weir_testkit::sink::{DOWN, arrived, faults, sink};
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, http, in_time, payload};

use crate::process::{Weir, manifest, run};

/// What the Secrets hold.
struct Credentials {
    password: String,
    token: String,
    client_secret: String,
    ca: Authority,
    client: Identity,
}

/// One backend for each kind of credential, and one whose credentials stay.
struct Backends {
    /// Whoever certifies those backends whose certificates stay.
    servers: Authority,
    tokens: Backend,
    basic: Backend,
    bearer: Backend,
    oauth2: Backend,
    ca: Backend,
    client: Backend,
    neighbour: Backend,
}

impl Backends {
    async fn start(credentials: &Credentials, clients: &Authority) -> Self {
        let servers = Authority::new();
        // Every token tells for which credentials it was issued.
        let issue = |_, request: &Captured| {
            let credentials = request.headers["authorization"].to_str().unwrap().replace("Basic ", "");
            Say::Json(json!({"access_token": credentials}).to_string())
        };
        Self {
            tokens: Backend::scripted(issue).await,
            basic: Backend::start().await,
            bearer: Backend::start().await,
            oauth2: Backend::with_tls(servers.server(None)).await,
            ca: Backend::with_tls(credentials.ca.server(None)).await,
            client: Backend::with_tls(servers.server(Some(clients))).await,
            neighbour: Backend::with_tls(servers.server(None)).await,
            servers,
        }
    }

    /// All pipelines by their names, each with its backend. Their connections are HTTP/2: one is enough for everything.
    fn by_pipeline(&self) -> [(&'static str, &Backend); 6] {
        [
            ("traces/basic", &self.basic),
            ("metrics/bearer", &self.bearer),
            ("logs/oauth2", &self.oauth2),
            ("traces/ca", &self.ca),
            ("metrics/client", &self.client),
            ("logs/neighbour", &self.neighbour),
        ]
    }

    fn manifests(&self, credentials: &Credentials) -> String {
        let Identity { cert_pem, key_pem } = &credentials.client;
        let known = json!({"ca": {"value": self.servers.pem()}});
        let basic = json!({"basic": {"user": {"value": "weir"}, "password": from_secret("basic", "password")}});
        let bearer = with(from_secret("bearer", "token"), json!({"name": "authorization", "prefix": "Bearer"}));
        let token_url = json!({"value": format!("http://{}/", self.tokens.address)});
        let client_secret = from_secret("oauth2", "secret");
        let oauth2 = json!({"tokenURL": token_url, "clientID": {"value": "weir"}, "clientSecret": client_secret});
        let (cert, key) = (from_secret("client", "tls.crt"), from_secret("client", "tls.key"));
        let client = with(known.clone(), json!({"cert": cert, "key": key}));
        let tls = |protocol, backend: &Backend, tls: &Value| secured(protocol, backend.address, tls);
        let outputs = [
            (Signal::Traces, "basic", with(plain("grpc", self.basic.address), json!({"authentication": basic}))),
            (Signal::Metrics, "bearer", with(plain("grpc", self.bearer.address), json!({"headers": [bearer]}))),
            (
                Signal::Logs,
                "oauth2",
                with(tls("http", &self.oauth2, &known), json!({"authentication": {"oauth2": oauth2}})),
            ),
            (Signal::Traces, "ca", tls("http", &self.ca, &json!({"ca": from_secret("ca", "ca.crt")}))),
            (Signal::Metrics, "client", tls("grpc", &self.client, &client)),
            (Signal::Logs, "neighbour", tls("grpc", &self.neighbour, &json!({"ca": from_secret("neighbour", "ca")}))),
        ];
        let pipelines: String = outputs.iter().map(|(signal, name, output)| pipeline(*signal, name, output)).collect();
        let secrets = [
            secret("basic", &json!({"password": credentials.password})),
            secret("bearer", &json!({"token": credentials.token})),
            secret("oauth2", &json!({"secret": credentials.client_secret})),
            secret("ca", &json!({"ca.crt": credentials.ca.pem()})),
            secret("client", &json!({"tls.crt": cert_pem, "tls.key": key_pem.reveal()})),
            secret("neighbour", &json!({"ca": self.servers.pem()})),
        ];
        pipelines + &secrets.concat()
    }
}

impl Credentials {
    /// The `authorization` header that a pipeline sends.
    fn authorization(&self, pipeline: &str) -> Option<String> {
        let base64 = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        match pipeline {
            "traces/basic" => Some(format!("Basic {}", base64(format!("weir:{}", self.password)))),
            "metrics/bearer" => Some(format!("Bearer {}", self.token)),
            "logs/oauth2" => Some(format!("Bearer {}", base64(format!("weir:{}", self.client_secret)))),
            _ => None,
        }
    }
}

/// Sends one request of each signal.
async fn send_each(weir: &Weir, id: u64) {
    let client = Grpc::connect(weir.grpc).await;
    for signal in Signal::ALL {
        let request = encoded(signal, &[("service.name", "shop")], id..id + 1);
        let answer = client.call(signal.grpc_method(), None, frame(&request, false)).await;
        assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
    }
}

/// Replaces some credentials.
type Rotate = fn(&mut Credentials, &Backends);

/// What the page says of the credentials of each pipeline.
async fn told(weir: &Weir) -> BTreeMap<String, Value> {
    let text = http::get(weir.metrics, "/api/now").await.text();
    assert!(!text.contains("PRIVATE KEY") && !text.contains("hunter"), "{text}");
    let now: Value = serde_json::from_str(&text).unwrap();
    let lines = now["pipelines"].as_array().unwrap().iter();
    lines.map(|of| (of["pipeline"].as_str().unwrap().to_owned(), of["credentials"].clone())).collect()
}

/// The page says of this pipeline alone that it has others than before.
fn only_one_is_new(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>, changed: &str) {
    for (pipeline, before) in before {
        let after = &after[pipeline];
        if pipeline != changed {
            assert_eq!(after, before, "{pipeline}, when {changed} changed");
            continue;
        }
        let [before_at, after_at] = [before, after].map(|of| of["taken_up_at"].as_str().unwrap());
        assert!(after_at > before_at, "{pipeline}: {before} {after}");
        let [old, new] = [before, after].map(|of| &of["client_certificate"]);
        assert_eq!(old.is_null(), pipeline != "metrics/client", "{old}");
        assert_eq!(old["serial"] == new["serial"], old.is_null(), "{old} {new}");
        assert_eq!(new["ends_at"].is_string(), new["serial"].is_string(), "{new}");
    }
}

/// Those of one kind after the other. The pipeline that has them uses the new ones; all others keep their connections.
#[tokio::test]
async fn a_rotated_secret_is_used_and_no_other_pipeline_notices() {
    let rotations: [(&str, Rotate); 5] = [
        ("traces/basic", |credentials, _| credentials.password = "hunter2".into()),
        ("metrics/bearer", |credentials, _| credentials.token = "hunter3".into()),
        ("logs/oauth2", |credentials, _| credentials.client_secret = "hunter4".into()),
        ("traces/ca", |credentials, backends| {
            credentials.ca = Authority::new();
            backends.ca.renew(credentials.ca.server(None));
        }),
        ("metrics/client", |credentials, backends| {
            let clients = Authority::new();
            credentials.client = clients.identity();
            backends.client.renew(backends.servers.server(Some(&clients)));
        }),
    ];
    let old = || "hunter1".to_owned();
    let (ca, clients) = (Authority::new(), Authority::new());
    let mut credentials =
        Credentials { password: old(), token: old(), client_secret: old(), ca, client: clients.identity() };
    let backends = Backends::start(&credentials, &clients).await;
    let weir = Weir::start(&backends.manifests(&credentials), &[]).await;
    all_arrives(&weir, &backends, &credentials, 1).await;
    let mut said = told(&weir).await;
    for (number, (changed, rotate)) in (1..).zip(rotations) {
        let before = backends.by_pipeline().map(|(_, backend)| backend.connections());
        rotate(&mut credentials, &backends);
        weir.edit(&backends.manifests(&credentials));
        let reloads = || weir.all_logged("configuration reloaded");
        eventually("it is read", async || reloads().len() == number).await;
        assert_eq!(reloads()[number - 1]["changed"], changed);
        let old = std::mem::replace(&mut said, told(&weir).await);
        only_one_is_new(&old, &said, changed);
        all_arrives(&weir, &backends, &credentials, number + 1).await;
        for ((pipeline, backend), before) in backends.by_pipeline().into_iter().zip(before) {
            let expected = before + usize::from(pipeline == changed);
            assert_eq!(backend.connections(), expected, "{pipeline}, when {changed} changed");
        }
    }
}

/// Request number `number`, counted from 1, gets to every backend with the credentials of its pipeline.
async fn all_arrives(weir: &Weir, backends: &Backends, credentials: &Credentials, number: usize) {
    send_each(weir, number as u64).await;
    for (pipeline, backend) in backends.by_pipeline() {
        eventually(pipeline, async || backend.captured().len() == number).await;
        let request = backend.captured().remove(number - 1);
        let authorization = request.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(authorization, credentials.authorization(pipeline), "{pipeline}");
    }
}

const FIELDS: [&str; 3] = ["ca", "cert", "key"];

/// A pipeline of each signal with TLS material from a Secret of its own.
struct Mutual {
    servers: Authority,
    clients: Authority,
    backend: Backend,
    client: Identity,
}

impl Mutual {
    async fn start() -> Self {
        let (servers, clients) = (Authority::new(), Authority::new());
        let backend = Backend::with_tls(servers.server(Some(&clients))).await;
        let client = clients.identity();
        Self { servers, clients, backend, client }
    }

    /// All of them, with garbage in one field of one of them.
    fn manifests(&self, garbage: Option<(Signal, &str)>) -> String {
        let document = |signal: Signal| {
            let name = format!("tls-{}", signal.name());
            let tls: serde_json::Map<_, _> =
                FIELDS.iter().map(|field| ((*field).to_owned(), from_secret(&name, field))).collect();
            let mut data = json!({
                "ca": self.servers.pem(), "cert": self.client.cert_pem, "key": self.client.key_pem.reveal(),
            });
            if let Some((_, field)) = garbage.filter(|(ill, _)| *ill == signal) {
                data[field] = "garbage".into();
            }
            let output = secured("grpc", self.backend.address, &tls.into());
            pipeline(signal, "secured", &output) + &secret(&name, &data)
        };
        Signal::ALL.map(document).concat()
    }
}

fn each_signal_and_field() -> impl Iterator<Item = (Signal, &'static str)> {
    Signal::ALL.into_iter().flat_map(|signal| FIELDS.map(|field| (signal, field)))
}

/// Whether a log line says that there is garbage in this field of this pipeline.
fn is_garbage(line: &Value, pipeline: &str, field: &str) -> bool {
    let of = |name: &str| line[name].as_str().unwrap_or_default();
    (of("level"), of("reason"), of("pipeline")) == ("ERROR", "TLSConfigurationInvalid", pipeline)
        && of("field").starts_with(&format!("spec.output.otlp.tls.{field}"))
        && of("message").starts_with("TLS configuration invalid: ")
}

/// It is not taken up: the pipeline it belongs to and all others go on as they were.
#[tokio::test]
async fn garbage_in_a_running_gateway_is_refused_with_its_reason() {
    let (mutual, neighbour) = (Mutual::start().await, Backend::start().await);
    let neighbours = Signal::ALL.map(|signal| pipeline(signal, "neighbour", &plain("grpc", neighbour.address)));
    let manifests = |garbage| mutual.manifests(garbage) + &neighbours.concat();
    let weir = Weir::start(&manifests(None), &[]).await;
    let successful = async || Scrape::of(weir.metrics).await.get("weir_config_last_reload_successful");
    for (number, (signal, field)) in (1..).zip(each_signal_and_field()) {
        weir.edit(&manifests(Some((signal, field))));
        let id = format!("{}/secured", signal.name());
        let is_reason = |line: &Value| is_garbage(line, &id, field);
        eventually(&format!("{id}: {field} is refused"), async || weir.logs().iter().any(is_reason)).await;
        eventually("it shows", async || successful().await == 0.0).await;
        send_each(&weir, number).await;
        let all = 3 * usize::try_from(number).unwrap();
        eventually("all go on", async || mutual.backend.captured().len() == all && neighbour.captured().len() == all)
            .await;
    }
    assert_eq!((mutual.backend.connections(), neighbour.connections()), (3, 3), "nobody had to connect again");
    weir.edit(&manifests(None));
    eventually("all is well", async || successful().await == 1.0).await;
}

/// Where a pipeline cannot be set up, none is: without it, its data would be acknowledged and not kept for it.
#[tokio::test]
async fn garbage_at_the_start_is_named_and_the_journal_is_not_touched() {
    let (mutual, dir, backend) = (Mutual::start().await, DataDir::new(), sink(DOWN).await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let good = manifest("waiting", backend.grpc);
    let weir = Weir::start(&good, &arguments).await;
    send_all(weir.grpc, 0..5, 100).await;
    weir.kill().await;
    let contents = || -> Vec<(PathBuf, Vec<u8>)> {
        dir.files().into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
    };
    let before = contents();
    assert!(!before.is_empty());

    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("pipelines.yaml");
    for (signal, field) in each_signal_and_field() {
        std::fs::write(&file, good.clone() + &mutual.manifests(Some((signal, field)))).unwrap();
        let mut command = run(&file);
        command.args(arguments);
        let output = in_time("end of weir", command.output()).await.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{signal:?} {field}: {errors}");
        let lines: Vec<Value> = errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let id = format!("{}/secured", signal.name());
        let named = lines.iter().find(|line| is_garbage(line, &id, field));
        let named = named.unwrap_or_else(|| panic!("{id}: {field}: {errors}"));
        assert!(named["expected"].as_str().is_some_and(|text| text.starts_with("PEM text")), "{named}");
        assert!(named["file"] == file.to_str().unwrap() && named["line"].is_u64(), "{named}");
        let end = lines.last().unwrap()["message"].as_str().unwrap();
        assert!(end.contains("nothing is started: correct it, or take out the pipelines that are wrong"), "{end}");
    }
    assert!(contents() == before, "no byte of the journal has changed");

    std::fs::write(&file, good.clone()).unwrap();
    backend.set_faults(faults("{}"));
    let weir = Weir::start(&good, &arguments).await;
    eventually("what was waiting is delivered", async || arrived(&backend) == ids(0..5)).await;
    drop(weir);
}

/// Its data waits until it is replaced; nothing else does.
#[tokio::test]
async fn a_certificate_that_expires_is_reported_when_files_are_read_again() {
    let (mut mutual, neighbour) = (Mutual::start().await, Backend::start().await);
    // When the gateway has started, on a busy machine as well.
    let soon = SystemTime::now() + Duration::from_secs(8);
    mutual.client = mutual.clients.identity_until(soon);
    let neighbours = pipeline(Signal::Traces, "neighbour", &plain("grpc", neighbour.address));
    let manifests = |mutual: &Mutual| mutual.manifests(None) + &neighbours;
    let weir = Weir::start(&manifests(&mutual), &[]).await;
    let logged = |reason: &str| weir.logs().iter().any(|line| line.to_string().contains(reason));
    assert!(logged("TLSCertificateAboutToExpire"), "{:?}", weir.logs());
    eventually("its end is reported", async || {
        // As the clock of the gateway does once a day.
        weir.signal(Unix::HUP);
        weir.logs().iter().any(|line| line["reason"] == "TLSCertificateExpired" && line["level"] == "WARN")
    })
    .await;
    // It is valid through its last second.
    eventually("its last second is over", async || SystemTime::now() > soon + Duration::from_secs(1)).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 1, 0)).await.code, OK);
    eventually("the neighbour has it", async || neighbour.ids() == [1]).await;
    assert!(mutual.backend.captured().is_empty());

    mutual.client = mutual.clients.identity();
    weir.edit(&manifests(&mutual));
    eventually("it is delivered", async || mutual.backend.ids() == [1]).await;
    assert_eq!(neighbour.connections(), 1);
}

/// It is that of the certificate in use, with or without data; whoever has an alert on it sees that a new one is used.
#[tokio::test]
async fn metrics_say_when_the_certificate_of_the_client_ends() {
    let mut mutual = Mutual::start().await;
    let to_anybody = secured("grpc", mutual.backend.address, &json!({"ca": {"value": mutual.servers.pem()}}));
    let without = pipeline(Signal::Traces, "without", &to_anybody);
    let manifests = |mutual: &Mutual| mutual.manifests(None) + &without;
    let day = Duration::from_secs(24 * 60 * 60);
    let [first, second] = [20, 40].map(|days| SystemTime::now() + day * days);
    mutual.client = mutual.clients.identity_until(first);
    let weir = Weir::start(&manifests(&mutual), &[]).await;
    let ends = async || -> Vec<u64> {
        let scrape = Scrape::of(weir.metrics).await;
        let rows = scrape.rows("weir_client_certificate_end_timestamp_seconds");
        assert!(rows.iter().all(|(labels, _)| labels.contains("pipeline=\"secured\"")), "{rows:?}");
        rows.into_iter().map(|(_, end)| whole(end)).collect()
    };
    let of_each_signal = |end: SystemTime| [end.duration_since(UNIX_EPOCH).unwrap().as_secs(); Signal::ALL.len()];
    assert_eq!(ends().await, of_each_signal(first));
    mutual.client = mutual.clients.identity_until(second);
    weir.edit(&manifests(&mutual));
    eventually("it is that of the new one", async || ends().await == of_each_signal(second)).await;
}
