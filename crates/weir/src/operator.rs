//! `weir operator`: options and signals; everything else is in `weir-kubernetes`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use weir_kubernetes::Client;
use weir_kubernetes::operator::{self, Autoscaling, Options, Pending, Ports, Replicas, Scale, SecretKey, Storage};
use weir_kubernetes::webhook::{self, Webhook};

use crate::allocator;
use crate::cli::LogLevel;
use crate::limits;
use crate::logging;
use crate::program_text;
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  weir operator --image registry.example.com/weir:1.0                       in a cluster, as its Deployment says
  weir operator --image weir:dev --kubeconfig ~/.kube/config --no-webhooks  on your machine, for development
  weir operator --image weir:dev --node-resources '{\"limits\":{\"memory\":\"2Gi\"}}'

Of several operators, one leads, by the Lease cdd7ef0b.kyma-project.io. Its rights are in docs/kubernetes.md.

On SIGTERM or Ctrl-C, the operator gives its Lease back and ends; nodes go on with what they have.";

/// Headings of the options.
const NODES: &str = "Nodes";
const GATEWAY: &str = "Replicas of the gateway, in place of one on each node";
const LABELS: &str = "Labels and annotations of the workloads and their pods";
const PORTS: &str = "Ports";

/// CPU and memory of a node: requests are those of the published gateway, and the limit leaves 768 MiB for `--memory`.
const RESOURCES: &str = r#"{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"1Gi"}}"#;

/// What a replica of the gateway asks for: its share of the CPU is measured by the request.
const GATEWAY_RESOURCES: &str = r#"{"requests":{"cpu":"500m","memory":"256Mi"},"limits":{"memory":"1Gi"}}"#;

/// All nodes: telemetry of a node that is tainted is wanted most.
const TOLERATIONS: &str = r#"[{"effect":"NoExecute","operator":"Exists"},{"effect":"NoSchedule","operator":"Exists"}]"#;

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OperatorArgs {
    /// Where the operator and the nodes live
    #[arg(long, env = "MANAGER_NAMESPACE", value_name = "NAMESPACE", default_value = "kyma-system", value_parser = NonEmptyStringValueParser::new())]
    namespace: String,
    /// How to reach the API server from outside of a cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What identifies this process among operators; a random number is added
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "weir-operator")]
    pod_name: String,
    /// Pipelines of each kind at most: the oldest run; 0 for no limit
    #[arg(long, env = "WEIR_MAX_PIPELINES", value_name = "COUNT", default_value_t = 0)]
    max_pipelines: usize,
    /// Image of the nodes
    #[arg(long, help_heading = NODES, env = "WEIR_IMAGE", value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    image: String,
    /// Secret to pull the image with; may be given several times
    #[arg(long, help_heading = NODES, value_name = "NAME")]
    image_pull_secret_name: Vec<String>,
    /// ClusterTrustBundle whose certificates backends are verified with, in place of those of the image
    #[arg(long, help_heading = NODES, value_name = "NAME")]
    cluster_trust_bundle_name: Option<String>,
    /// Key of a Secret there with tokens, one per line, of which admin ports want one [default: they want none]
    #[arg(long, help_heading = NODES, value_name = "NAME/KEY", value_parser = secret_key)]
    admin_token_secret: Option<SecretKey>,
    /// PriorityClass of the nodes
    #[arg(long, help_heading = NODES, value_name = "NAME", default_value = "telemetry-priority-class-high")]
    high_priority_class_name: String,
    /// Directory on each node for what backends have not taken yet
    #[arg(long, help_heading = NODES, value_name = "DIR", default_value = "/var/lib/telemetry-weir")]
    data_path: String,
    /// Resources of the container, as Kubernetes has them
    #[arg(long, help_heading = NODES, value_name = "JSON", default_value = RESOURCES, value_parser = object)]
    node_resources: Value,
    /// Tolerations of the pods, as Kubernetes has them
    #[arg(long, help_heading = NODES, value_name = "JSON", default_value = TOLERATIONS, value_parser = list)]
    node_tolerations: Value,
    /// Label that nodes must have to get a pod; may be given several times
    #[arg(long, help_heading = NODES, value_name = "KEY=VALUE", value_parser = pair)]
    node_selector: Vec<(String, String)>,
    /// Argument for `weir node`; may be given several times
    #[arg(long, help_heading = NODES, value_name = "ARGUMENT", allow_hyphen_values = true)]
    node_arg: Vec<String>,
    /// Give nodes the right nodes/proxy, which kubelets before Kubernetes 1.33 want; the operator must have it, too
    #[arg(long, help_heading = NODES)]
    nodes_proxy: bool,
    /// Run gateway, log agent and metric agent as DaemonSets of their own
    #[arg(long, help_heading = NODES)]
    split_roles: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Label of the workloads; may be given several times, as all of these
    #[arg(long, help_heading = LABELS, value_name = "KEY=VALUE", value_parser = pair)]
    additional_workload_label: Vec<(String, String)>,
    /// Annotation of the workloads
    #[arg(long, help_heading = LABELS, value_name = "KEY=VALUE", value_parser = pair)]
    additional_workload_annotation: Vec<(String, String)>,
    /// Label of their pods
    #[arg(long, help_heading = LABELS, value_name = "KEY=VALUE", value_parser = pair)]
    additional_pod_label: Vec<(String, String)>,
    /// Annotation of their pods
    #[arg(long, help_heading = LABELS, value_name = "KEY=VALUE", value_parser = pair)]
    additional_pod_annotation: Vec<(String, String)>,
    /// Address of all ports
    #[arg(long, help_heading = PORTS, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    listen: IpAddr,
    /// Port of /healthz and /readyz; 0 picks a free one
    #[arg(long, help_heading = PORTS, value_name = "PORT", default_value_t = 8081)]
    health_port: u16,
    /// Port of /metrics; 0 picks a free one
    #[arg(long, help_heading = PORTS, value_name = "PORT", default_value_t = 8080)]
    metrics_port: u16,
    /// Port of the webhooks, behind the Service telemetry-manager-webhook
    #[arg(long, help_heading = PORTS, value_name = "PORT", default_value_t = webhook::PORT)]
    webhook_port: u16,
    /// Serve no webhooks, and leave those of the API server as they are: for development
    #[arg(long, conflicts_with = "serve_metrics", help_heading = PORTS)]
    no_webhooks: bool,
}

/// When to run which: docs/kubernetes.md.
#[derive(Args, Debug)]
struct GatewayArgs {
    /// Run so many gateways, wherever there is room; nodes run agents only
    #[arg(long, help_heading = GATEWAY, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    gateway_replicas: Option<u32>,
    /// Let a HorizontalPodAutoscaler make them more, up to this number
    #[arg(long, help_heading = GATEWAY, value_name = "COUNT", requires = "gateway_replicas")]
    gateway_replicas_max: Option<u32>,
    /// More of them if they use more than this part of the CPU that they request, in percent; 0 if it does not matter
    #[arg(long, help_heading = GATEWAY, value_name = "PERCENT", default_value_t = 70, requires = "gateway_replicas_max")]
    gateway_cpu_percent: u32,
    /// More of them if more than this waits in each, as a quantity, by the custom metric weir_pending_bytes; empty if it does
    /// not matter
    #[arg(long, help_heading = GATEWAY, value_name = "QUANTITY", default_value = "", requires = "gateway_replicas_max")]
    gateway_pending_bytes: String,
    /// Serve that metric to the autoscaler with the webhooks, as the custom metrics API of the cluster
    #[arg(long, help_heading = GATEWAY, requires = "gateway_pending_bytes")]
    serve_metrics: bool,
    /// Give each a volume of this size, which outlives its pod; without, pods deliver what they have before they end
    #[arg(long, help_heading = GATEWAY, value_name = "QUANTITY", requires = "gateway_replicas")]
    gateway_storage: Option<String>,
    /// StorageClass of the volumes [default: that of the cluster]
    #[arg(long, help_heading = GATEWAY, value_name = "NAME", requires = "gateway_storage")]
    gateway_storage_class: Option<String>,
    /// Resources of the container, as Kubernetes has them
    #[arg(long, help_heading = GATEWAY, value_name = "JSON", default_value = GATEWAY_RESOURCES, value_parser = object)]
    gateway_resources: Value,
    /// Tolerations of the pods, as Kubernetes has them
    #[arg(long, help_heading = GATEWAY, value_name = "JSON", default_value = "[]", value_parser = list)]
    gateway_tolerations: Value,
}

impl GatewayArgs {
    fn replicas(self) -> anyhow::Result<Option<Replicas>> {
        let Some(count) = self.gateway_replicas else { return Ok(None) };
        let autoscaling = self.gateway_replicas_max.map(|max| Autoscaling {
            max,
            cpu_percent: Some(self.gateway_cpu_percent).filter(|percent| *percent > 0),
            pending_bytes: Some(self.gateway_pending_bytes).filter(|bytes| !bytes.is_empty()),
        });
        if let Some(Autoscaling { max, cpu_percent, pending_bytes }) = &autoscaling {
            if *max < count {
                bail!(
                    "cannot have at most --gateway-replicas-max {max} gateways: --gateway-replicas says at least {count}"
                );
            }
            if cpu_percent.is_none() && pending_bytes.is_none() {
                bail!("cannot count gateways by nothing: name --gateway-cpu-percent, --gateway-pending-bytes, or both");
            }
        }
        let storage = self.gateway_storage.map(|size| Storage { size, class: self.gateway_storage_class });
        let (resources, tolerations) = (self.gateway_resources, self.gateway_tolerations);
        Ok(Some(Replicas { count, autoscaling, storage, resources, tolerations }))
    }
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: OperatorArgs) -> anyhow::Result<ExitCode> {
    // One that works, and one that renews the Lease meanwhile.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let code = runtime.block_on(operate(args));
    runtime.shutdown_background();
    code
}

async fn operate(args: OperatorArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    tokio::spawn(allocator::tidy());
    tokio::spawn(program_text::let_go_when_settled());
    // Watches share connections, and there may be many.
    limits::raise_file_limit();
    let client = weir_kubernetes::client(args.kubeconfig.as_deref()).await?;
    let name = args.pod_name.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let pending = args.gateway.serve_metrics.then(Pending::default);
    let options_of_webhook =
        webhook::Options { pending: pending.clone(), ..webhook::Options::in_namespace(&args.namespace) };
    let webhook = (!args.no_webhooks).then(|| Webhook::new(options_of_webhook));
    let ports = Ports {
        health: Some(SocketAddr::new(args.listen, args.health_port)),
        metrics: Some(SocketAddr::new(args.listen, args.metrics_port)),
        webhook: webhook.clone(),
    };
    let webhooks = webhooks(&args, webhook, client.clone(), async { drop(stopped.await) }).await?;
    let mut webhooks = tokio::spawn(webhooks);
    // API servers ask all operators, and only one leads: whoever cannot answer must not stay.
    let ends = async {
        tokio::select! {
            () = signals.next() => {}
            ended = &mut webhooks => tracing::error!(?ended, "the webhooks ended: this is a bug in weir, please report it"),
        }
    };
    operator::run(client, options(args, pending)?, ports, &name, Box::new(set_log_level), ends)
        .await
        .context("cannot start")?;
    if webhooks.is_finished() {
        bail!("cannot go on without webhooks");
    }
    drop(stop);
    webhooks.await.context("the webhooks panicked: this is a bug in weir, please report it")??;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn set_log_level(level: Option<&str>) {
    logging::set_level(level.and_then(|level| LogLevel::from_str(level, true).ok()));
}

/// Binds the port of the webhooks; what comes back serves them until `stop` resolves.
async fn webhooks(
    args: &OperatorArgs,
    webhook: Option<Arc<Webhook>>,
    client: Client,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + Send + 'static> {
    let mut bound = None;
    if let Some(webhook) = webhook {
        let address = SocketAddr::new(args.listen, args.webhook_port);
        let listener = TcpListener::bind(address).await;
        bound = Some((webhook, listener.with_context(|| format!("cannot bind {address} for the webhooks"))?));
    }
    Ok(async move {
        match bound {
            Some((webhook, listener)) => Ok(webhook.run(client, listener, stop).await?),
            None => {
                stop.await;
                Ok(())
            }
        }
    })
}

fn options(args: OperatorArgs, pending: Option<Pending>) -> anyhow::Result<Options> {
    let map = |pairs: Vec<(String, String)>| pairs.into_iter().collect::<BTreeMap<_, _>>();
    let mut node_selector = map(args.node_selector);
    node_selector.entry("kubernetes.io/os".to_owned()).or_insert_with(|| "linux".to_owned());
    Ok(Options {
        namespace: args.namespace,
        image: args.image,
        image_pull_secrets: args.image_pull_secret_name,
        trust_bundle: args.cluster_trust_bundle_name,
        admin_tokens: args.admin_token_secret,
        max_pipelines: Some(args.max_pipelines).filter(|max| *max > 0),
        high_priority_class: args.high_priority_class_name,
        data_path: args.data_path,
        resources: args.node_resources,
        tolerations: args.node_tolerations,
        node_selector,
        node_args: args.node_arg,
        nodes_proxy: args.nodes_proxy,
        workload_labels: map(args.additional_workload_label),
        workload_annotations: map(args.additional_workload_annotation),
        pod_labels: map(args.additional_pod_label),
        pod_annotations: map(args.additional_pod_annotation),
        pending,
        scale: Scale { split_roles: args.split_roles, gateway: args.gateway.replicas()? },
    })
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn secret_key(text: &str) -> Result<SecretKey, String> {
    let is_right = |part: &str| !part.is_empty() && !part.contains('/');
    let parts = text.split_once('/').filter(|(name, key)| is_right(name) && is_right(key));
    let (name, key) = parts.ok_or("expected NAME/KEY")?;
    Ok(SecretKey { name: name.to_owned(), key: key.to_owned() })
}

fn object(text: &str) -> Result<Value, String> {
    json(text, Value::is_object, "an object")
}

fn list(text: &str) -> Result<Value, String> {
    json(text, Value::is_array, "a list")
}

fn json(text: &str, is_right: fn(&Value) -> bool, expected: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))?;
    if is_right(&value) { Ok(value) } else { Err(format!("expected {expected} of JSON")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_wrong_are_refused() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(pair("a").is_err() && pair("=b").is_err());
        assert_eq!(secret_key("a/b.c"), Ok(SecretKey { name: "a".to_owned(), key: "b.c".to_owned() }));
        assert!(["a", "a/", "/b", "n/a/b"].iter().all(|text| secret_key(text).is_err()));
        assert!(object(RESOURCES).is_ok() && object("[]").is_err() && object("{").is_err());
        assert!(list(TOLERATIONS).is_ok() && list("{}").is_err());
    }

    fn replicas(arguments: &[&str]) -> anyhow::Result<Option<Replicas>> {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            gateway: GatewayArgs,
        }
        let only = <Only as clap::Parser>::try_parse_from([&["operator"], arguments].concat())?;
        only.gateway.replicas()
    }

    #[test]
    fn replicas_are_counted_by_something_and_no_fewer_than_wanted() {
        assert_eq!(replicas(&[]).unwrap(), None);
        let wanted = ["--gateway-replicas", "2", "--gateway-replicas-max", "4", "--gateway-storage", "1Gi"];
        let found = replicas(&wanted).unwrap().unwrap();
        let autoscaling = Autoscaling { max: 4, cpu_percent: Some(70), pending_bytes: None };
        assert_eq!((found.count, found.autoscaling), (2, Some(autoscaling)));
        assert_eq!(found.storage, Some(Storage { size: "1Gi".to_owned(), class: None }));
        for wrong in [
            &["--gateway-replicas", "0"][..],
            &["--gateway-replicas-max", "2"],
            &["--gateway-replicas", "3", "--gateway-replicas-max", "2"],
            &["--gateway-replicas", "1", "--gateway-replicas-max", "2", "--gateway-cpu-percent", "0"],
            &["--gateway-storage", "1Gi"],
        ] {
            assert!(replicas(wrong).is_err(), "{wrong:?}");
        }
    }
}
