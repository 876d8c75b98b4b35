//! Somebody else holds a Lease, whose clock is an hour behind ours or an hour ahead: it keeps it for as long as it goes on,
//! and no longer.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};
use weir_kubernetes::lease::{Timings, campaign};

use crate::operator::{CONFIGURATION, LEASE, Operator, found, has_reason, trace};
use crate::proxy::Proxy;
use crate::{Cluster, SOON, eventually, path};

const NODES_LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kyma-system/leases/telemetry-metric-agent-k8scluster";
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// What the Lease says of how long it lasts.
const LASTS: Duration = Duration::from_secs(15);
/// So often we look while the other goes on. There are 2 s at least between two looks, so all of them take longer than the
/// Lease lasts.
const LOOKS: usize = 10;

/// Somebody else who holds a Lease, by a clock of its own.
struct Holder {
    api: Api<Lease>,
    path: &'static str,
    lease: Lease,
}

impl Holder {
    async fn takes(cluster: &Cluster, path: &'static str) -> Self {
        let (_, name) = path.rsplit_once('/').unwrap();
        let api: Api<Lease> = Api::namespaced(cluster.client.clone(), "kyma-system");
        let spec = LeaseSpec {
            holder_identity: Some("other".to_owned()),
            lease_duration_seconds: i32::try_from(LASTS.as_secs()).ok(),
            acquire_time: Some(now_and(-HOUR)),
            renew_time: Some(now_and(-HOUR)),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(spec) };
        let lease = api.create(&PostParams::default(), &lease).await.unwrap();
        Self { api, path, lease }
    }

    /// As every holder does: what somebody else has written since is not replaced.
    async fn renews(&mut self, ahead: SignedDuration) {
        self.lease.spec.as_mut().unwrap().renew_time = Some(now_and(ahead));
        let name = self.lease.metadata.name.clone().unwrap();
        let renewed = self.api.replace(&name, &PostParams::default(), &self.lease).await;
        self.lease = renewed.expect("nobody takes a Lease from one that goes on");
    }

    /// Its clock is behind: by ours, the Lease ended long ago.
    async fn goes_on(&mut self, seen_by: &Proxy) {
        let renews = async {
            while seen_by.asked(self.path) < LOOKS {
                self.renews(-HOUR).await;
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(SOON, renews).await.expect("it is looked at");
    }

    /// The last that it writes is of a clock that is ahead: by ours, the Lease ends in an hour.
    async fn stops(mut self, cluster: &Cluster) {
        let since = Instant::now();
        self.renews(HOUR).await;
        eventually("we have it", || async {
            let lease = found(cluster, self.path).await?;
            lease["spec"]["holderIdentity"].as_str()?.starts_with("we_").then_some(())
        })
        .await;
        let rested = since.elapsed();
        assert!(rested >= LASTS, "taken after {rested:?}");
    }
}

fn now_and(more: SignedDuration) -> MicroTime {
    MicroTime(Timestamp::now() + more)
}

pub(crate) async fn leases_are_judged_by_our_clock(cluster: &Cluster) {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(cluster.client.clone(), directory.path()).await;
    tokio::join!(that_of_the_operator(cluster, &proxy), that_of_the_nodes(cluster, &proxy));
}

async fn that_of_the_operator(cluster: &Cluster, proxy: &Proxy) {
    let mut holder = Holder::takes(cluster, LEASE).await;
    let shop = trace("shop", json!({ "value": "http://backend:4317" }));
    cluster.create(&shop).await.ok();
    let operator = Operator::start(proxy.client.clone(), "we");
    holder.goes_on(proxy).await;
    assert!(found(cluster, CONFIGURATION).await.is_none(), "whoever does not lead writes nothing");
    holder.stops(cluster).await;
    has_reason(cluster, &path(&shop), "ConfigurationGenerated", "GatewayConfigured").await;
    operator.stop().await;
}

/// By the election in which nodes take part, who look less often.
async fn that_of_the_nodes(cluster: &Cluster, proxy: &Proxy) {
    let mut holder = Holder::takes(cluster, NODES_LEASE).await;
    let (_, name) = NODES_LEASE.rsplit_once('/').unwrap();
    let timings = Timings { look_period: Timings::default().look_period, ..Timings::of_many() };
    let (ours, mut node) = campaign(proxy.client.clone(), "kyma-system", name, "we_node".to_owned(), timings);
    let node = tokio::spawn(async move { node.run(std::future::pending()).await });
    holder.goes_on(proxy).await;
    assert!(!ours.leads());
    holder.stops(cluster).await;
    eventually("it leads", || async { ours.leads().then_some(()) }).await;
    node.abort();
}
