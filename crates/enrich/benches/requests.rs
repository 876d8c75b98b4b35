//! What enrichment costs per request, in nanoseconds of one core: the best of several rounds. Validation, which walks
//! over every byte, stands beside it for comparison.
//!
//! `cargo bench -p weir-enrich`. It measures this crate alone, not a pipeline; nothing is asserted.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_enrich::{Enricher, Noise, PodList};
use weir_otlp::build::Encoder;
use weir_otlp::splice::splice;
use weir_otlp::{Limits, Signal, validate};
use weir_plan::{Cluster, ClusterFacts, Enrichment, Pod, PodLabels, ServiceEnrichment, Workload, WorkloadKind};

const ROUND: Duration = Duration::from_millis(100);
const ROUNDS: usize = 7;
const ROOM: usize = 1 << 20;
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let requests = [
        ("512 spans x 40 attributes", Signal::Traces, request(512, |out| span(out, 40))),
        ("10 spans x 5 attributes", Signal::Traces, request(10, |out| span(out, 5))),
        ("512 log records of 2 KB", Signal::Logs, request(512, record)),
    ];
    for (name, signal, request) in &requests {
        writeln!(out, "{name} ({} bytes)", request.len())?;
        let limits = Limits::default();
        let nanos = best(|| drop(black_box(validate(*signal, black_box(request), &limits))));
        writeln!(out, "  validate             {nanos:9}")?;
        for (mode, service) in [("legacy", ServiceEnrichment::KymaLegacy), ("otel", ServiceEnrichment::Otel)] {
            let enricher = enricher(service);
            for (what, noise) in [("keep noise", Noise::Keep), ("drop noise", Noise::Drop)] {
                let arrival = enricher.arrival(Some(PEER), 1);
                let nanos =
                    best(|| drop(black_box(enricher.edits(*signal, black_box(request), &arrival, noise, ROOM))));
                writeln!(out, "  {mode:6}, {what}   {nanos:9}")?;
            }
            let arrival = enricher.arrival(Some(PEER), 1);
            let edits = enricher.edits(*signal, request, &arrival, Noise::Drop, ROOM).map_err(io::Error::other)?.edits;
            let nanos = best(|| drop(black_box(splice(*signal, black_box(request), edits.clone()))));
            writeln!(out, "  {mode:6}, splice       {nanos:9}")?;
        }
    }
    Ok(())
}

/// Nanoseconds of a run in the best round.
fn best(mut run: impl FnMut()) -> u128 {
    let mut best = u128::MAX;
    for _ in 0..ROUNDS {
        let (start, mut runs) = (Instant::now(), 0);
        while start.elapsed() < ROUND {
            run();
            runs += 1;
        }
        best = best.min(start.elapsed().as_nanos() / runs);
    }
    best
}

fn enricher(service: ServiceEnrichment) -> Enricher {
    let cluster = Cluster { uid: Some("c-1".into()), cloud_provider: Some("aws".into()) };
    let pod_labels = vec![PodLabels::Prefix("app".into())];
    let enrichment = Enrichment { service, cluster_name: Some("prod".into()), pod_labels };
    let pod = Pod {
        name: "cart-7d8b49557f-x2x4z".into(),
        namespace: "shop".into(),
        uid: "0e2ad1f4-9d5c-4d5e-8b1a-0f3a53a1d9f1".into(),
        ips: [PEER].into(),
        labels: [("app.kubernetes.io/name", "cart"), ("app.kubernetes.io/version", "1.4.2"), ("app", "cart")]
            .into_iter()
            .collect(),
        node: Some("node-1".into()),
        workloads: [Workload { kind: WorkloadKind::Deployment, name: "cart".into() }].into(),
        containers: [("cart".into(), "registry:5000/shop/cart:1.4.2".into())].into(),
        ..Pod::default()
    };
    let labels = [
        ("topology.kubernetes.io/region", "eu-central-1"),
        ("topology.kubernetes.io/zone", "eu-central-1a"),
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("kubernetes.io/arch", "amd64"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let nodes = BTreeMap::from([("node-1".to_owned(), Arc::new(labels))]);
    let facts = ClusterFacts { cluster, nodes, pods: vec![Arc::new(pod)], ..ClusterFacts::default() };
    Enricher::new(enrichment, Arc::new(PodList::new(facts)))
}

fn request(items: usize, item: impl Fn(&mut Encoder)) -> Vec<u8> {
    let mut request = Encoder::default();
    let holder = request.open(1, 0);
    let resource = request.open(1, 0);
    attribute(&mut request, 1, "service.name", "unknown_service:java");
    for (key, value) in [("telemetry.sdk.name", "opentelemetry"), ("process.pid", "17"), ("os.type", "linux")] {
        attribute(&mut request, 1, key, value);
    }
    request.close(resource);
    let scope = request.open(2, 0);
    (0..items).for_each(|_| item(&mut request));
    request.close(scope);
    request.close(holder);
    request.into_bytes()
}

fn span(request: &mut Encoder, attributes: usize) {
    let span = request.open(2, 0);
    request.bytes(1, &[7; 16]);
    request.bytes(2, &[8; 8]);
    request.bytes(5, b"GET /cart");
    request.fixed64(7, 1_700_000_000_000_000_000);
    request.fixed64(8, 1_700_000_000_100_000_000);
    for index in 0..attributes {
        attribute(request, 9, &format!("attribute{index:02}"), &"abcdefgh".repeat(8));
    }
    request.close(span);
}

fn record(request: &mut Encoder) {
    let record = request.open(2, 0);
    request.fixed64(1, 1_700_000_000_000_000_000);
    let body = request.open(5, 0);
    request.bytes(1, "abcdefgh".repeat(240).as_bytes());
    request.close(body);
    (0..5).for_each(|index| attribute(request, 6, &format!("attribute{index:02}"), "value"));
    request.fixed64(11, 1_700_000_000_000_000_000);
    request.close(record);
}

fn attribute(request: &mut Encoder, number: u32, key: &str, value: &str) {
    let attribute = request.open(number, 0);
    request.bytes(1, key.as_bytes());
    let any = request.open(2, 0);
    request.bytes(1, value.as_bytes());
    request.close(any);
    request.close(attribute);
}
