//! Asks the API server for everything that the report tells. What cannot be read is noted, and nothing waits for ever.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{AsyncReadExt, StreamExt, stream};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, LogParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{CertificateSeen, Examination, Options, Part, PodSeen, Resource};
use crate::certificates;
use crate::client::words;
use crate::node::{PAGE, most_page_bytes};
use crate::operator::layout::Workload;
use crate::operator::names::{self, METRICS_PORT};
use crate::operator::object::kinds::{self, Kind};
use crate::operator::object::{ObjectKey, generation, name, text};
use crate::operator::references;
use crate::operator::shell::api::{RequestError, api_of, request, resource};
use crate::operator::shell::trim;
use crate::webhook;

/// A page of a node that takes longer is not waited for.
const PAGE_PATIENCE: Duration = Duration::from_secs(5);
/// Pods that are asked at the same time.
const AT_ONCE: usize = 16;
/// The page of a node may be as long as with so many pipelines, also where fewer are known.
const LEAST_PIPELINES: usize = 1024;
/// Of a log and of events, so many lines are kept.
const MOST_LINES: usize = 20;

/// The label of the operator's pods.
const OPERATOR: &str = "telemetry-manager";

/// Looks at a cluster.
pub async fn look(client: &Client, options: &Options) -> Examination {
    let mut look = Look { client, options, most_page_bytes: most_page_bytes(LEAST_PIPELINES), unread: Vec::new() };
    let api_server = look.version().await;
    let mut resources = Vec::new();
    let mut pipelines = Vec::new();
    for kind in [kinds::TRACE_PIPELINE, kinds::METRIC_PIPELINE, kinds::LOG_PIPELINE, kinds::TELEMETRY] {
        for object in look.list(kind, None, None).await {
            resources.push(as_seen(kind.1, &object));
            if kind != kinds::TELEMETRY {
                pipelines.push(object);
            }
        }
    }
    look.most_page_bytes = most_page_bytes(pipelines.len().max(LEAST_PIPELINES));
    let pods = look.pods().await;
    let revision = look.revision().await;
    let leader = look.leader().await;
    let certificates = look.certificates(&pipelines).await;
    // Whoever serves webhooks has made certificates for them.
    let has_webhooks = certificates.iter().any(|certificate| certificate.late_below.is_some());
    let missing_webhooks = if has_webhooks { look.missing_webhooks().await } else { Vec::new() };
    let events = look.events().await;
    Examination {
        now: SystemTime::now(),
        namespace: options.namespace.clone(),
        api_server,
        resources,
        pods,
        revision,
        leader,
        certificates,
        missing_webhooks,
        events,
        unread: look.unread,
    }
}

/// A pipeline or a Telemetry, as far as it is told of.
pub(super) fn as_seen(kind: &str, object: &Value) -> Resource {
    let conditions = object.pointer("/status/conditions").cloned().unwrap_or_default();
    let name = match text(object, "/metadata/namespace") {
        Some(namespace) => format!("{namespace}/{}", name(object)),
        None => name(object).to_owned(),
    };
    Resource {
        kind: kind.to_owned(),
        name,
        generation: generation(object),
        state: text(object, "/status/state").map(str::to_owned),
        conditions: serde_json::from_value(conditions).unwrap_or_default(),
    }
}

/// Lines of a log that warn. Those of the operator and the nodes are JSON with a level; anything else, such as a panic,
/// is told, too.
pub(super) fn warnings(log: &str) -> Vec<String> {
    let warns = |line: &&str| {
        let level = serde_json::from_str::<Value>(line).ok().and_then(|line| Some(line["level"].as_str()?.to_owned()));
        !line.trim().is_empty() && level.is_none_or(|level| matches!(level.as_str(), "WARN" | "ERROR"))
    };
    let all: Vec<&str> = log.lines().filter(warns).collect();
    all[all.len().saturating_sub(MOST_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}

struct Look<'a> {
    client: &'a Client,
    options: &'a Options,
    most_page_bytes: usize,
    unread: Vec<String>,
}

impl Look<'_> {
    /// What was asked for, unless it could not be read.
    fn or_note<T>(&mut self, what: &str, result: Result<T, RequestError>) -> Option<T> {
        result.inspect_err(|failure| self.unread.push(format!("{what}: {failure}"))).ok()
    }

    async fn version(&mut self) -> Option<String> {
        let version = request(self.client.apiserver_version()).await;
        Some(self.or_note("the version of the API server", version)?.git_version)
    }

    async fn list(&mut self, kind: Kind, namespace: Option<&str>, labels: Option<&str>) -> Vec<Value> {
        let resource = resource(kind);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let params = labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
        let listed = request(api.list(&params)).await;
        let listed = self.or_note(&kinds::plural(kind.1), listed);
        listed.into_iter().flat_map(|list| list.items).map(|object| json!(object)).collect()
    }

    async fn get(&mut self, what: &str, key: &ObjectKey) -> Option<Value> {
        let got = request(api_of(self.client, key).get_opt(&key.name)).await;
        Some(json!(self.or_note(what, got)??))
    }

    async fn pods(&mut self) -> Vec<PodSeen> {
        let mut pods = Vec::new();
        let of_nodes = Workload::ALL.map(Workload::name).join(",");
        for (part, apps) in [(Part::Operator, OPERATOR), (Part::Node, of_nodes.as_str())] {
            let labels = format!("{} in ({apps})", names::NAME_LABEL);
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.options.namespace);
            let listed = request(api.list(&ListParams::default().labels(&labels))).await;
            let listed = self.or_note("pods", listed);
            pods.extend(listed.into_iter().flat_map(|list| list.items).map(|pod| pod_of(part, pod)));
        }
        let looked = stream::iter(pods).map(|pod| self.with_page_and_log(pod)).buffered(AT_ONCE);
        let looked: Vec<(PodSeen, Vec<String>)> = looked.collect().await;
        looked
            .into_iter()
            .map(|(pod, mut unread)| {
                self.unread.append(&mut unread);
                pod
            })
            .collect()
    }

    /// Reads the page and the log of a pod.
    async fn with_page_and_log(&self, mut pod: PodSeen) -> (PodSeen, Vec<String>) {
        let mut unread = Vec::new();
        if pod.part == Part::Node && pod.ready && !pod.ending {
            match timeout(PAGE_PATIENCE, self.page(&pod.name)).await {
                Ok(Ok(page)) => pod.page = Some(page),
                Ok(Err(error)) => unread.push(format!("the page {PAGE} of pod {}: {error}", pod.name)),
                Err(_) => unread.push(format!("the page {PAGE} of pod {}: no answer in time", pod.name)),
            }
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.options.namespace);
        let params = LogParams { tail_lines: Some(self.options.log_lines), ..LogParams::default() };
        match request(api.logs(&pod.name, &params)).await {
            Ok(log) => pod.log = warnings(&log),
            Err(failure) => unread.push(format!("the log of pod {}: {failure}", pod.name)),
        }
        (pod, unread)
    }

    /// By way of the API server, which reaches pods that whoever runs this does not. A pod may say what it wants.
    async fn page(&self, pod: &str) -> Result<Value, String> {
        let namespace = &self.options.namespace;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{METRICS_PORT}/proxy{PAGE}");
        let asked = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        let page = self.client.request_stream(asked).await.map_err(|error| words(&error))?;
        let (mut text, most) = (Vec::new(), self.most_page_bytes);
        page.take(most as u64 + 1).read_to_end(&mut text).await.map_err(|error| error.to_string())?;
        if text.len() > most {
            return Err(format!("it is longer than {} KiB, the most that is read", most >> 10));
        }
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    }

    async fn revision(&mut self) -> Option<String> {
        let key = ObjectKey::cluster(kinds::SECRET, names::CONFIGURATION).within(&self.options.namespace);
        let secret = self.get(&format!("the Secret {}", key.name), &key).await?;
        secret["metadata"]["annotations"][names::REVISION].as_str().map(str::to_owned)
    }

    async fn leader(&mut self) -> Option<String> {
        let key = ObjectKey::cluster(("coordination.k8s.io/v1", "Lease"), names::LEASE).within(&self.options.namespace);
        let lease = self.get("the Lease of the operator", &key).await?;
        text(&lease, "/spec/holderIdentity").filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    /// Those in pipelines, in Secrets that these refer to, and in that of the webhooks.
    async fn certificates(&mut self, pipelines: &[Value]) -> Vec<CertificateSeen> {
        let mut all = Vec::new();
        for pipeline in pipelines {
            all.extend(in_pipeline(pipeline));
            for (secret, keys) in references::of(pipeline) {
                let secret = self.secret(&secret.namespace, &secret.name).await;
                all.extend(keys.iter().flat_map(|key| in_secret(&called(pipeline), &secret, key)));
            }
        }
        let options = self.options;
        all.extend(of_webhooks(&self.secret(&options.namespace, webhook::SECRET).await));
        all
    }

    /// A Secret, or nothing.
    async fn secret(&mut self, namespace: &str, name: &str) -> Value {
        let key = ObjectKey::cluster(kinds::SECRET, name).within(namespace);
        self.get(&format!("the Secret {namespace}/{name}"), &key).await.unwrap_or_default()
    }

    /// Configurations of the webhooks that are not there. What could not be read may be.
    async fn missing_webhooks(&mut self) -> Vec<String> {
        let mut missing = Vec::new();
        for (kind, name) in webhook::CONFIGURATIONS {
            let key = ObjectKey::cluster(("admissionregistration.k8s.io/v1", kind), name);
            let got = request(api_of(self.client, &key).get_opt(name)).await;
            if let Some(None) = self.or_note(&format!("the {kind} {name}"), got) {
                missing.push(format!("{kind} {name}"));
            }
        }
        missing
    }

    /// Warnings about anything in the namespace and about pipelines.
    async fn events(&mut self) -> Vec<String> {
        let namespaces = [self.options.namespace.as_str(), "default"];
        let mut lines = Vec::new();
        for namespace in namespaces {
            for event in self.list(("v1", "Event"), Some(namespace), None).await {
                let object = &event["involvedObject"];
                let kind = object["kind"].as_str().unwrap_or_default();
                let is_ours = namespace != "default" || kind.ends_with("Pipeline") || kind == "Telemetry";
                if is_ours && event["type"] == "Warning" {
                    lines.push(event_line(&event));
                }
            }
        }
        lines.sort();
        lines.split_off(lines.len().saturating_sub(MOST_LINES))
    }
}

/// Where a pipeline may have a certificate as it is.
const PLAIN: [&str; 4] = ["output.otlp.tls.ca", "output.otlp.tls.cert", "output.http.tls.ca", "output.http.tls.cert"];

fn called(pipeline: &Value) -> String {
    format!("{} {}", text(pipeline, "/kind").unwrap_or_default(), name(pipeline))
}

/// Certificates that a pipeline itself has.
pub(super) fn in_pipeline(pipeline: &Value) -> Vec<CertificateSeen> {
    let of = |field: &str| {
        let pem = text(pipeline, &format!("/spec/{}/value", field.replace('.', "/"))).unwrap_or_default();
        in_pem(&format!("{}, spec.{field}", called(pipeline)), pem)
    };
    PLAIN.into_iter().flat_map(of).collect()
}

/// Those of the webhooks that are in use.
pub(super) fn of_webhooks(secret: &Value) -> Vec<CertificateSeen> {
    let keys = [
        (webhook::AUTHORITIES, certificates::AUTHORITY_LATE_BELOW),
        (webhook::SERVER, certificates::SERVER_LATE_BELOW),
    ];
    let of = |(key, late)| {
        // Authorities that are trusted beside the first sign no more, and are not renewed.
        let first = in_secret("the webhooks", secret, key).into_iter().next()?;
        Some(CertificateSeen { late_below: Some(late), ..first })
    };
    keys.into_iter().filter_map(of).collect()
}

/// Those under a key of a Secret, which may have none.
fn in_secret(whose: &str, secret: &Value, key: &str) -> Vec<CertificateSeen> {
    let value = secret["data"][key].as_str().and_then(|value| BASE64_STANDARD.decode(value).ok());
    let pem = value.and_then(|value| String::from_utf8(value).ok()).unwrap_or_default();
    let namespace = text(secret, "/metadata/namespace").unwrap_or_default();
    in_pem(&format!("{whose}, key {key} of the Secret {namespace}/{}", name(secret)), &pem)
}

fn in_pem(what: &str, pem: &str) -> Vec<CertificateSeen> {
    let seen = |(subject, ends)| CertificateSeen { what: what.to_owned(), subject, ends, late_below: None };
    certificates::subjects(pem).into_iter().map(seen).collect()
}

/// Begins with the time.
fn event_line(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let times = [&event["lastTimestamp"], &event["eventTime"], &event["metadata"]["creationTimestamp"]];
    let time = times.into_iter().find_map(Value::as_str).unwrap_or_default();
    let object = &event["involvedObject"];
    let (kind, name) = (text(&object["kind"]), text(&object["name"]));
    format!("{time} {kind} {name}: {}: {}", text(&event["reason"]), text(&event["message"]))
}

fn pod_of(part: Part, pod: Pod) -> PodSeen {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let restarts = statuses.clone().map(|status| i64::from(status.restart_count)).sum();
    let ended = statuses.filter_map(|status| status.last_state.as_ref()?.terminated.as_ref()).next();
    let last_end = ended.map(|ended| ended.reason.clone().unwrap_or_else(|| format!("exit code {}", ended.exit_code)));
    let image = pod.spec.iter().flat_map(|spec| &spec.containers).next().and_then(|one| one.image.clone());
    let (name, ending) = (pod.name_any(), pod.metadata.deletion_timestamp.is_some());
    let state = trim::pod(pod);
    PodSeen {
        name,
        part,
        node: state.node,
        image: image.unwrap_or_default(),
        ready: state.ready,
        ending,
        fault: state.fault,
        restarts,
        last_end,
        page: None,
        log: Vec::new(),
    }
}
