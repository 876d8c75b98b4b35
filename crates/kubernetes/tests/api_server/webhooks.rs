//! What the webhooks add to an API server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use kube::Client;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use weir_kubernetes::certificates::{Certificates, renewed};
use weir_kubernetes::node;
use weir_kubernetes::webhook::{Address, Options, Webhook, configurations};
use weir_plan::{Body, ContainerLogs, Multiline, PipelineId, Plan, RecordShape, Selector, Signal};
use weir_resources::schema::custom_resource_definitions;
use weir_resources::{Source, load};

use crate::operator::Operator;
use crate::proxy::{Illness, Proxy};
use crate::{Cluster, SOON, eventually, path, pipeline};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SECRET: &str = "/api/v1/namespaces/kyma-system/secrets/telemetry-webhook-cert";
const CONFIGURATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/telemetry-validating-webhook.kyma-project.io",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/telemetry-mutating-webhook.kyma-project.io",
];

/// Webhooks of this process, on a port of the loopback address.
pub(crate) struct Webhooks {
    options: Options,
    webhook: Arc<Webhook>,
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn run(client: &Client, options: &Options, listener: TcpListener) -> Arc<Webhook> {
    let webhook = Webhook::new(options.clone());
    tokio::spawn(Arc::clone(&webhook).run(client.clone(), listener, std::future::pending()));
    webhook
}

async fn is_ready(webhook: &Webhook) {
    eventually("a replica is ready", || async { webhook.is_ready().then_some(()) }).await;
}

/// The Secret with these certificates.
fn secret_of(certificates: &Certificates) -> Value {
    let Certificates { authorities, authority_key, server, server_key } = certificates;
    let value = |text: &str| BASE64_STANDARD.encode(text);
    let data = json!({
        "ca.crt": value(authorities), "ca.key": value(authority_key),
        "tls.crt": value(server), "tls.key": value(server_key),
    });
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "telemetry-webhook-cert"}, "data": data})
}

/// What an earlier installation has left: the same webhooks, by an authority that nobody has any more.
async fn leave_old_webhooks(cluster: &Cluster, options: &Options) {
    let (params, key) = (CertificateParams::new(Vec::new()).unwrap(), KeyPair::generate().unwrap());
    let authority = params.self_signed(&key).unwrap().pem();
    for (path, configuration) in CONFIGURATIONS.iter().zip(configurations(options, &authority)) {
        let (all, _) = path.rsplit_once('/').unwrap();
        cluster.send(Method::POST, all, Some(&configuration)).await.ok();
    }
}

/// The definitions, and the webhooks once the API server knows them.
pub(crate) async fn set_up(cluster: &Cluster) -> Webhooks {
    set_up_with(cluster, None).await
}

/// The same where an operator has left certificates.
async fn set_up_with(cluster: &Cluster, left: Option<&Certificates>) -> Webhooks {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kyma-system"}});
    cluster.send(Method::POST, "/api/v1/namespaces", Some(&namespace)).await.ok();
    if let Some(left) = left {
        cluster.send(Method::POST, "/api/v1/namespaces/kyma-system/secrets", Some(&secret_of(left))).await.ok();
    }
    let (listener, address) = listen().await;
    let host = Address::Host(address.ip().to_string(), address.port());
    let options = Options { address: host, ..Options::in_namespace("kyma-system") };
    for definition in custom_resource_definitions(&options.conversion()) {
        let created = cluster.send(Method::POST, DEFINITIONS, Some(&definition)).await;
        assert_eq!(created.warnings, Vec::<String>::new());
        created.ok();
    }
    for definition in custom_resource_definitions(&options.conversion()) {
        let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
        let established = eventually("a definition is established", || async {
            let found = cluster.get(&path).await.ok();
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is = |kind: &str| {
                conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
            };
            is("Established").then_some(conditions.clone())
        });
        // An API server says there what is wrong with a schema, and takes it all the same.
        let conditions = established.await;
        assert!(!conditions.iter().any(|condition| condition["type"] == "NonStructuralSchema"), "{conditions:#?}");
    }
    leave_old_webhooks(cluster, &options).await;
    let webhook = run(&cluster.client, &options, listener);
    let webhooks = Webhooks { options, webhook };
    is_ready(&webhooks.webhook).await;
    // Whoever has waited for that needs to wait for nothing else.
    for (path, pointer) in webhooks.registrations() {
        assert!(has_authority(cluster, &path, pointer).await, "{path}");
    }
    // The API server learns of a configuration a moment after it is stored.
    let bad = json!({"output": {"otlp": {"endpoint": {"value": "a:1"}, "headers": [{"name": "a b", "value": "c"}]}}});
    let bad = pipeline("TracePipeline", "v1alpha1", "x", &bad);
    eventually("the API server asks the webhooks", || async {
        let answer = cluster.try_create(&bad).await;
        answer.message().contains("is not a header name").then_some(())
    })
    .await;
    webhooks
}

impl Webhooks {
    /// The objects that tell the API server of the authority, and where.
    fn registrations(&self) -> Vec<(String, &'static str)> {
        let definitions = custom_resource_definitions(&self.options.conversion());
        let definitions = definitions
            .iter()
            .map(|definition| format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap()));
        let definitions = definitions.map(|path| (path, "/spec/conversion/webhook/clientConfig/caBundle"));
        let others = CONFIGURATIONS.map(|path| (path.to_owned(), "/webhooks/0/clientConfig/caBundle"));
        definitions.chain(others).collect()
    }

    /// Waits until the API server is told of the authority that is in the Secret.
    async fn are_known(&self, cluster: &Cluster) {
        for (path, pointer) in self.registrations() {
            eventually(&format!("{path} has the authority"), || async {
                has_authority(cluster, &path, pointer).await.then_some(())
            })
            .await;
        }
    }

    /// Whether certificates that were found in the Secret still are what it has when the API server was told.
    async fn keep(&self, cluster: &Cluster, found: &Certificates) -> bool {
        self.are_known(cluster).await;
        cluster.get(SECRET).await.ok()["data"] == secret_of(found)["data"]
    }
}

/// Whether an object has the authority that is in the Secret.
async fn has_authority(cluster: &Cluster, path: &str, pointer: &str) -> bool {
    let secret = cluster.get(SECRET).await.body;
    let found = cluster.get(path).await.body;
    found.pointer(pointer).is_some_and(|found| secret.pointer("/data/ca.crt") == Some(found))
}

pub(crate) async fn defaults_are_written(cluster: &Cluster) {
    let system = json!({"exclude": ["kyma-system", "kube-system", "istio-system"]});
    let otlp = json!({"endpoint": {"value": "a:1"}});
    for (kind, spec, pointer, expected) in [
        ("TracePipeline", json!({"output": {"otlp": otlp}}), "/spec/output/otlp/protocol", json!("grpc")),
        ("MetricPipeline", json!({"output": {"otlp": otlp}}), "/spec/output/otlp/temporality", json!("preserve")),
        (
            "MetricPipeline",
            json!({"output": {"otlp": otlp}}),
            "/spec/input",
            json!({"otlp": {"enabled": true, "namespaces": {}}}),
        ),
        (
            "MetricPipeline",
            json!({"input": {"istio": {"enabled": true}}, "output": {"otlp": otlp}}),
            "/spec/input/istio",
            json!({"enabled": true, "namespaces": system, "diagnosticMetrics": {"enabled": false}, "envoyMetrics": {"enabled": false}}),
        ),
        (
            "LogPipeline",
            json!({"output": {"otlp": otlp}}),
            "/spec/input",
            json!({
                "runtime": {"enabled": true, "namespaces": system, "keepOriginalBody": true},
                "otlp": {"enabled": true, "namespaces": {}},
            }),
        ),
        (
            "LogPipeline",
            json!({"output": {"http": {"host": {"value": "a"}}}}),
            "/spec/input",
            json!({"runtime": {"enabled": true, "namespaces": system, "keepOriginalBody": true}}),
        ),
    ] {
        let object = pipeline(kind, "v1beta1", "defaults", &spec);
        let created = cluster.create(&object).await.ok();
        assert_eq!(created.pointer(pointer), Some(&expected), "{created:#}");
        let again = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"input": {}}});
        let changed = cluster.send(Method::PATCH, &path(&object), Some(&again)).await.ok();
        assert_eq!(changed["metadata"]["generation"], created["metadata"]["generation"], "{changed:#}");
        cluster.send(Method::DELETE, &path(&object), None).await.ok();
    }
}

pub(crate) async fn all_that_is_wrong_is_said(cluster: &Cluster) {
    for version in ["v1beta1", "v1alpha1"] {
        let spec = json!({
            "output": {"otlp": {"endpoint": {"value": "a:1"}, "headers": [{"name": "a b", "value": "c"}]}},
            "transform": [{"statements": ["set(attributes[\"a\"], \"b\")"]}],
            "filter": [{"conditions": ["no.context == 1"]}],
        });
        let answer = cluster.create(&pipeline("TracePipeline", version, "wrong", &spec)).await;
        assert_eq!((answer.code, &answer.body["reason"]), (422, &json!("Invalid")), "{}", answer.body);
        for expected in [
            "spec.output.otlp.headers[0].name: \"a b\" is not a header name",
            "spec.transform[0].statements[0]: OTTL specification is invalid",
            "spec.filter[0].conditions[0]: OTTL specification is invalid",
        ] {
            assert!(answer.message().contains(expected), "{}", answer.body);
        }
        let runtime = json!({"enabled": true, "additionalMetrics": ["k8s.pod.uptimes"]});
        let output = json!({"otlp": {"endpoint": {"value": "a:1"}}});
        let metrics = json!({"input": {"runtime": runtime}, "output": output});
        let answer = cluster.create(&pipeline("MetricPipeline", version, "wrong", &metrics)).await;
        assert!(answer.message().contains("Invalid runtime additional metric: k8s.pod.uptimes"), "{}", answer.body);
        let with_files = |second: &str| {
            let files = json!([{"name": "a", "content": "b"}, {"name": second, "content": "c"}]);
            pipeline("LogPipeline", version, "files", &json!({"files": files, "output": {"custom": "name null"}}))
        };
        let answer = cluster.try_create(&with_files("b")).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let answer = cluster.create(&with_files("a")).await;
        assert_eq!(answer.code, 422, "{}", answer.body);
        assert!(answer.message().contains("spec.files[1].name: file \"a\" is given twice"), "{}", answer.body);
    }
}

pub(crate) async fn warnings_arrive(cluster: &Cluster) {
    let http = json!({"output": {"http": {"host": {"value": "a"}}}});
    let answer = cluster.try_create(&pipeline("LogPipeline", "v1beta1", "x", &http)).await;
    let expected =
        "LogPipeline 'x' uses the attribute 'output.http' which is based on the deprecated FluentBit technology stack";
    assert!(answer.warnings.len() == 1 && answer.warnings[0].contains(expected), "{:?}", answer.warnings);

    let otlp = json!({"output": {"otlp": {"endpoint": {"value": "no-port"}}}});
    let answer = cluster.try_create(&pipeline("TracePipeline", "v1beta1", "x", &otlp)).await;
    assert!(
        answer.warnings[0].starts_with("EndpointInvalid: spec.output.otlp.endpoint.value: "),
        "{:?}",
        answer.warnings
    );

    let older =
        pipeline("TracePipeline", "v1alpha1", "x", &json!({"output": {"otlp": {"endpoint": {"value": "a:1"}}}}));
    let expected =
        "apiVersion: telemetry.kyma-project.io/v1alpha1 is deprecated; expected telemetry.kyma-project.io/v1beta1";
    assert_eq!(cluster.try_create(&older).await.warnings, [expected]);
    assert_eq!(cluster.get(&crate::collection(&older)).await.warnings, [expected]);
}

pub(crate) async fn versions_are_converted(cluster: &Cluster) {
    let logs = json!({
        "input": {"application": {"namespaces": {"system": true}}, "otlp": {"disabled": true}},
        "output": {"otlp": {"endpoint": {"value": "a:1"}}},
    });
    let older = pipeline("LogPipeline", "v1alpha1", "older", &logs);
    let created = cluster.create(&older).await.ok();
    let newer = cluster.get(&path(&pipeline("LogPipeline", "v1beta1", "older", &Value::Null))).await.ok();
    assert_eq!(newer["spec"]["input"]["runtime"]["namespaces"], json!({}));
    assert_eq!(newer["spec"]["input"]["otlp"]["enabled"], json!(false));
    assert_eq!(cluster.get(&path(&older)).await.ok()["spec"], created["spec"]);

    // What the older version has no words for survives an edit in it.
    let spec = json!({"output": {"otlp": {"endpoint": {"value": "a:1"}, "compression": "zstd"}}});
    let newer = pipeline("TracePipeline", "v1beta1", "newer", &spec);
    let older = pipeline("TracePipeline", "v1alpha1", "newer", &Value::Null);
    let before = cluster.create(&newer).await.ok();
    let seen = cluster.get(&path(&older)).await.ok();
    assert_eq!(seen["spec"]["output"]["otlp"].get("compression"), None, "{seen:#}");
    cluster.send(Method::PUT, &path(&older), Some(&seen)).await.ok();
    let after = cluster.get(&path(&newer)).await.ok();
    assert_eq!(
        (&after["spec"], &after["metadata"]["annotations"]),
        (&before["spec"], &before["metadata"]["annotations"])
    );
    let edit = json!({"spec": {"output": {"otlp": {"endpoint": {"value": "b:1"}}}}});
    cluster.send(Method::PATCH, &path(&older), Some(&edit)).await.ok();
    let after = cluster.get(&path(&newer)).await.ok();
    assert_eq!(after["spec"]["output"]["otlp"]["endpoint"]["value"], "b:1");
    assert_eq!(after["spec"]["output"]["otlp"]["compression"], "zstd");
    // A list is one review.
    let list = cluster.get(&crate::collection(&older)).await.ok();
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["apiVersion"] == older["apiVersion"]), "{list:#}");
}

pub(crate) async fn the_status_is_kept_and_shown(cluster: &Cluster) {
    let object = pipeline("LogPipeline", "v1beta1", "status", &json!({"output": {"custom": "Name stdout"}}));
    let created = cluster.create(&object).await.ok();
    let condition = |kind: &str, status: &str, message: &str| {
        let (time, generation) = ("2026-06-01T00:00:00Z", 1);
        json!({"type": kind, "status": status, "reason": "Some", "message": message, "lastTransitionTime": time,
            "observedGeneration": generation})
    };
    let conditions = json!([
        condition("ConfigurationGenerated", "True", "a"),
        condition("AgentHealthy", "Unknown", ""),
        condition("TelemetryFlowHealthy", "False", "b"),
    ]);
    let status = json!({"status": {"conditions": conditions, "unsupportedMode": true}});
    let updated = cluster.send(Method::PATCH, &format!("{}/status", path(&object)), Some(&status)).await.ok();
    assert_eq!(
        (&updated["status"], &updated["metadata"]["generation"]),
        (&status["status"], &created["metadata"]["generation"])
    );

    for (version, expected) in [
        ("v1beta1", vec!["Name", "Configuration Generated", "Gateway Healthy", "Agent Healthy", "Flow Healthy", "Age"]),
        (
            "v1alpha1",
            vec![
                "Name",
                "Configuration Generated",
                "Gateway Healthy",
                "Agent Healthy",
                "Flow Healthy",
                "Unsupported Mode",
                "Age",
            ],
        ),
    ] {
        let path = path(&pipeline("LogPipeline", version, "status", &Value::Null));
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = cluster.send_as(Method::GET, &path, None, "application/json", accept).await.ok();
        let columns: Vec<_> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        assert_eq!(columns, expected);
        assert_eq!(
            table["rows"][0]["cells"].as_array().unwrap()[1..5],
            [json!("True"), Value::Null, json!("Unknown"), json!("False")]
        );
    }
    let metadata = json!({"name": "default", "namespace": "kyma-system"});
    let api_version = "operator.kyma-project.io/v1beta1";
    let telemetry = json!({"apiVersion": api_version, "kind": "Telemetry", "metadata": metadata, "spec": {}});
    cluster.create(&telemetry).await.ok();
    let [grpc, http] = [4317, 4318].map(|port| format!("http://telemetry-otlp.kyma-system:{port}"));
    let endpoints = json!({"otlp": {"grpc": grpc, "http": http}, "logs": {"grpc": "a"}});
    let conditions = [condition("LogComponentsHealthy", "True", "a")];
    let status = json!({"status": {"state": "Ready", "endpoints": endpoints, "conditions": conditions}});
    let updated = cluster.send(Method::PATCH, &format!("{}/status", path(&telemetry)), Some(&status)).await.ok();
    assert_eq!(updated["status"], status["status"]);
    let wrong = json!({"status": {"state": "Fine"}});
    assert_eq!(cluster.send(Method::PATCH, &format!("{}/status", path(&telemetry)), Some(&wrong)).await.code, 422);
}

pub(crate) async fn what_is_taken_away_comes_back(cluster: &Cluster, webhooks: &Webhooks) {
    for path in CONFIGURATIONS {
        cluster.send(Method::DELETE, path, None).await.ok();
    }
    let definition = format!("{DEFINITIONS}/logpipelines.telemetry.kyma-project.io");
    let without = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
    cluster.send(Method::PATCH, &definition, Some(&without)).await.ok();
    webhooks.are_known(cluster).await;
    assert!(webhooks.webhook.is_ready(), "it never stopped to answer");

    let before = cluster.get(SECRET).await.ok();
    cluster.send(Method::DELETE, SECRET, None).await.ok();
    eventually("there are certificates again", || async {
        let found = cluster.get(SECRET).await;
        (found.code == 200 && found.body["data"] != before["data"]).then_some(())
    })
    .await;
    webhooks.are_known(cluster).await;
    let good = pipeline("TracePipeline", "v1alpha1", "x", &json!({"output": {"otlp": {"endpoint": {"value": "a:1"}}}}));
    eventually("objects are accepted again", || async { (cluster.try_create(&good).await.code == 201).then_some(()) })
        .await;
}

/// They would refuse everything, because nobody answers them.
pub(crate) async fn webhooks_of_an_older_installation_go(cluster: &Cluster, webhooks: &Webhooks) {
    let old = json!({
        "name": "validation.example.com",
        "clientConfig": {"service": {"namespace": "kyma-system", "name": "telemetry-manager-webhook", "path": "/old"}},
        "rules": [{
            "apiGroups": ["telemetry.kyma-project.io"],
            "apiVersions": ["v1beta1"],
            "operations": ["CREATE"],
            "resources": ["tracepipelines"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for path in CONFIGURATIONS {
        let ours = cluster.get(path).await.ok()["webhooks"].clone();
        let both: Vec<_> = ours.as_array().unwrap().iter().chain([&old]).collect();
        cluster.send(Method::PATCH, path, Some(&json!({"webhooks": both}))).await.ok();
        eventually(&format!("{path} has no webhook but ours"), || async {
            (cluster.get(path).await.ok()["webhooks"] == ours).then_some(())
        })
        .await;
    }
    webhooks.are_known(cluster).await;
}

pub(crate) async fn replicas_share_a_certificate(cluster: &Cluster, webhooks: &Webhooks) {
    let (listener, address) = listen().await;
    let replica = run(&cluster.client, &webhooks.options, listener);
    is_ready(&replica).await;
    let secret = cluster.get(SECRET).await.ok();
    let pem = |key: &str| BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
    let shown = certificate_of(address, &pem("ca.crt")).await;
    assert_eq!(shown, CertificateDer::from_pem_slice(&pem("tls.crt")).unwrap());
}

/// An operator whose clock is ahead or behind has made them.
pub(crate) async fn certificates_by_another_clock_are_used_unless_they_begin_later(cluster: &Cluster) {
    let made = |at: SystemTime| renewed(None, &["127.0.0.1".to_owned()], at).unwrap().unwrap();
    let hour = Duration::from_secs(60 * 60);

    // The API server has no connection yet: when it asks, it has found these good.
    let a_little_ahead = made(SystemTime::now() + hour - Duration::from_secs(60));
    let webhooks = set_up_with(cluster, Some(&a_little_ahead)).await;
    assert!(webhooks.keep(cluster, &a_little_ahead).await, "they begin a minute ago");

    let behind = made(SystemTime::now() - 24 * hour);
    cluster.send(Method::PATCH, SECRET, Some(&secret_of(&behind))).await.ok();
    assert!(webhooks.keep(cluster, &behind).await, "they begin a day ago");

    let ahead = made(SystemTime::now() + 2 * hour);
    cluster.send(Method::PATCH, SECRET, Some(&secret_of(&ahead))).await.ok();
    assert!(!webhooks.keep(cluster, &ahead).await, "nobody can use them for an hour");
    let secret = cluster.get(SECRET).await.ok();
    for key in ["ca.crt", "tls.crt"] {
        let pem = BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
        let (begin, _) = weir_tls::validity(&CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        assert!(begin + hour <= SystemTime::now(), "the first of {key} begins less than an hour ago");
    }
    let good = pipeline("TracePipeline", "v1beta1", "x", &json!({"output": {"otlp": {"endpoint": {"value": "a:1"}}}}));
    eventually("objects are accepted", || async { (cluster.try_create(&good).await.code == 201).then_some(()) }).await;
}

/// What `input.application` can say, from objects of the older version to what a node reads in the Secret.
pub(crate) async fn nodes_run_what_the_older_version_says(cluster: &Cluster) {
    let otlp = json!({"otlp": {"endpoint": {"value": "a:1"}}});
    let http = json!({"http": {"host": {"value": "logs.example.com"}}});
    let some = json!({
        "namespaces": {"include": ["shop"]}, "containers": {"exclude": ["proxy"]}, "keepOriginalBody": false,
    });
    let all = json!({
        "namespaces": {"system": true}, "containers": {"include": ["app"]}, "keepOriginalBody": false,
        "keepAnnotations": true, "dropLabels": true,
    });
    let given = [
        ("application-some", some, &otlp),
        ("application-all", all, &http),
        ("application-default", json!({}), &otlp),
        ("application-off", json!({"enabled": false}), &otlp),
    ];
    for (name, application, output) in &given {
        let spec = json!({"input": {"application": application}, "output": output});
        let older = pipeline("LogPipeline", "v1alpha1", name, &spec);
        let created = cluster.create(&older).await.ok();
        assert_eq!(cluster.get(&path(&older)).await.ok()["spec"], created["spec"], "{name} there and back");
    }
    let plan = plan_of_nodes(cluster, &given.map(|(name, ..)| name)).await;
    let of = |name: &str| plan.pipelines.iter().find(|it| it.id == PipelineId::new(Signal::Logs, name)).unwrap();
    let logs = |name| of(name).input.container_logs.clone();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let usual = ContainerLogs {
        namespaces: Selector::Except(names(&["kyma-system", "kube-system", "istio-system"])),
        containers: Selector::All,
        shape: RecordShape::Parsed { keep_original_body: true },
        multiline: Multiline::default(),
    };
    let (namespaces, containers) = (Selector::Only(names(&["shop"])), Selector::Except(names(&["proxy"])));
    let shape = RecordShape::Parsed { keep_original_body: false };
    let some = ContainerLogs { namespaces, containers, shape, ..usual.clone() };
    assert_eq!(logs("application-some"), Some(some));
    let (namespaces, containers) = (Selector::All, Selector::Only(names(&["app"])));
    let all = ContainerLogs { namespaces, containers, shape: RecordShape::Raw, ..usual.clone() };
    assert_eq!(logs("application-all"), Some(all));
    let Body::FluentBit(records) = &of("application-all").output.body else { panic!("output.http") };
    assert_eq!((records.labels, records.annotations, records.keep_original_body), (false, true, false));
    assert_eq!(logs("application-default"), Some(usual));
    assert_eq!(logs("application-off"), None);
}

/// What a node is told to run, once it is told of these pipelines.
async fn plan_of_nodes(cluster: &Cluster, names: &[&str]) -> Plan {
    let operator = Operator::start(cluster.client.clone(), "older");
    let options = node::Options {
        namespace: "kyma-system".to_owned(),
        node_name: "node1".to_owned(),
        identity: "a".to_owned(),
        all_pods: false,
    };
    let mut node = node::Node::start(&cluster.client, options);
    let told = timeout(SOON, async {
        loop {
            let told = node.configuration().await.unwrap();
            if names.iter().all(|name| told.text.contains(name)) {
                break told;
            }
        }
    });
    let text = told.await.expect("nodes are told of all of them").text.clone();
    node.stop().await;
    operator.stop().await;
    let source = Source { name: node::CONFIGURATION.to_owned(), text };
    load(&[source], &weir_resources::Options::at(SystemTime::now())).unwrap().plan
}

async fn is_refused(proxy: &Proxy) {
    eventually("it is refused", || async { (proxy.refused() > 0).then_some(()) }).await;
}

/// One that may not look does not know whether pipelines are judged. Once it knew, it stays ready.
pub(crate) async fn a_replica_is_ready_once_it_sees_that_it_is_known(cluster: &Cluster, webhooks: &Webhooks) {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(cluster.client.clone(), directory.path()).await;
    let takes_rights = || proxy.falls_ill(Illness::Refuses("/apis/admissionregistration.k8s.io"));
    takes_rights();
    let (listener, _) = listen().await;
    let replica = run(&proxy.client, &webhooks.options, listener);
    is_refused(&proxy).await;
    assert!(!replica.is_ready());
    proxy.falls_ill(Illness::None);
    is_ready(&replica).await;
    takes_rights();
    // So that it looks now: it has watches that rest for longer after each refusal.
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    cluster.send(Method::PATCH, SECRET, Some(&touched)).await.ok();
    is_refused(&proxy).await;
    eventually("it says that it does not know", || async { (!replica.is_registered()).then_some(()) }).await;
    assert!(replica.is_ready());
    proxy.falls_ill(Illness::None);
    eventually("it knows again", || async { replica.is_registered().then_some(()) }).await;
}

/// The certificate that a server shows to a client that trusts these authorities.
async fn certificate_of(address: SocketAddr, authorities: &[u8]) -> CertificateDer<'static> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authorities).map(Result::unwrap));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::from(address.ip());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}
