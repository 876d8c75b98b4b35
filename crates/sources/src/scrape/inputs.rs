//! Which input takes what of a page.

use std::mem;
use std::sync::LazyLock;

use weir_engine::InputKind;
use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::cursor::Field;
use weir_otlp::field::{metric, scope_data};

use super::home::Follower;
use super::relabel::{Action, Relabeling, Rule};
use super::request::request;
use super::target::{Job, Target};

/// What metrics of Istio's proxies are called, and the inputs that take them. Others are left out.
const OF_PROXIES: [(&str, InputKind); 2] = [("istio_", InputKind::Istio), ("envoy_", InputKind::Envoy)];

/// What is done with the samples of a target: those that no input takes are left out, and count for no limit.
pub(super) fn relabeling(target: &Target) -> Relabeling {
    static ISTIO: LazyLock<Relabeling> = LazyLock::new(|| keeping("istio_.*"));
    static BOTH: LazyLock<Relabeling> = LazyLock::new(|| keeping("istio_.*|envoy_.*"));
    match (target.job(), target.has_envoy()) {
        (Job::IstioProxies, true) => BOTH.clone(),
        (Job::IstioProxies, false) => ISTIO.clone(),
        _ => Relabeling::default(),
    }
}

/// The patterns are constants; a test compiles each of them, so `unwrap_or_default` never applies.
fn keeping(names: &str) -> Relabeling {
    let source_labels = vec!["__name__".to_owned()];
    let rule = Rule { action: Action::Keep, source_labels, regex: names.to_owned(), ..Rule::default() };
    Relabeling::new([rule]).unwrap_or_default()
}

/// Makes a request for each input that takes some of the metrics, the fields of a `ScopeMetrics`, which `make` appends to
/// what is there. `length`: how long they will be, more or less.
pub(super) fn requests<T>(
    job: Job,
    resource: &[u8],
    length: usize,
    make: impl FnOnce(&mut Vec<u8>) -> T,
) -> (Vec<(InputKind, Vec<u8>)>, T) {
    if job != Job::IstioProxies {
        let (bytes, made) = request(resource, job.scope(), length, make);
        return (vec![(InputKind::Prometheus, bytes)], made);
    }
    let mut metrics = Vec::with_capacity(length);
    let made = make(&mut metrics);
    let of = |(prefix, input)| {
        let length = named(&metrics, prefix).map(|field| field.end - field.start).sum();
        (length > 0).then(|| {
            let make = |out: &mut Vec<u8>| copy_named(&metrics, prefix, out);
            (input, request(resource, job.scope(), length, make).0)
        })
    };
    (OF_PROXIES.into_iter().filter_map(of).collect(), made)
}

/// The metrics whose names begin like this.
fn named<'a>(metrics: &'a [u8], prefix: &str) -> impl Iterator<Item = Field<'a>> {
    Message::request(metrics).fields().filter(move |field| is_named(metrics, field, prefix))
}

fn is_named(metrics: &[u8], field: &Field<'_>, prefix: &str) -> bool {
    let metric = Message::request(metrics).inner(field).filter(|_| field.number == scope_data::ITEMS);
    metric.is_some_and(|metric| metric.string(metric::NAME).starts_with(prefix))
}

/// Appends the metrics whose names begin like this, and what they are of.
fn copy_named(metrics: &[u8], prefix: &str, out: &mut Vec<u8>) {
    let mut encoder = Encoder::from(mem::take(out));
    let mut homes = Follower::new(metrics);
    for field in Message::request(metrics).fields() {
        if field.number != scope_data::ITEMS {
            homes.pass(&field);
        } else if is_named(metrics, &field, prefix) {
            homes.write(&mut encoder);
            encoder.raw(&metrics[field.start..field.end]);
        }
    }
    *out = encoder.into_bytes();
}

#[cfg(test)]
mod tests {
    use weir_otlp::field::scope;
    use weir_otlp::metrics::resource_metrics;

    use super::super::page::{Format, LastPage, PageRules};
    use super::*;

    fn metrics(names: &[&str]) -> Vec<u8> {
        let mut out = Encoder::default();
        for name in names {
            let whole = out.open(scope_data::ITEMS, 64);
            out.bytes(metric::NAME, name.as_bytes());
            out.close(whole);
        }
        out.into_bytes()
    }

    fn names(request: &[u8]) -> Vec<String> {
        let scopes = resource_metrics(request).flat_map(|resource| resource.scope_metrics().collect::<Vec<_>>());
        let all = scopes.flat_map(|scope| scope.0.messages(scope_data::ITEMS).collect::<Vec<_>>());
        all.map(|whole| whole.string(metric::NAME).to_owned()).collect()
    }

    #[test]
    fn what_nobody_takes_of_a_proxy_is_left_out() {
        let kept = |job, has_envoy| {
            let target = Target::new("http://10.0.0.1:15090/stats/prometheus", job).unwrap().with_envoy(has_envoy);
            let page = b"istio_a{b=\"c\"} 1\nenvoy_a 2\ngo_info 3\nmy_istio_b 4\n";
            let rules = PageRules { relabel: relabeling(&target), sample_limit: 2, ..PageRules::of(Format::Text) };
            let mut out = Vec::new();
            let taken = LastPage::default().take(page, &rules, 1, &mut out).ok()?;
            let names = ["istio_", "envoy_", "go_"].map(|prefix| named(&out, prefix).count());
            Some((names, taken.samples, taken.dropped))
        };
        assert_eq!(kept(Job::IstioProxies, true), Some(([1, 1, 0], 4, 2)));
        assert_eq!(kept(Job::IstioProxies, false), Some(([1, 0, 0], 4, 3)));
        assert_eq!(kept(Job::Pods, false), None, "more samples than the limit");
    }

    #[test]
    fn metrics_of_proxies_keep_their_scopes() {
        let target = Target::new("http://10.0.0.1:15090/stats/prometheus", Job::IstioProxies).unwrap().with_envoy(true);
        let page = b"istio_a{otel_scope_name=\"s\"} 1\nenvoy_b{otel_scope_name=\"t\"} 2\nistio_c 3\n\
            envoy_d{otel_scope_name=\"s\"} 4\n";
        let rules = PageRules { relabel: relabeling(&target), ..PageRules::of(Format::Text) };
        let (all, _) = requests(Job::IstioProxies, b"", page.len(), |out| {
            LastPage::default().take(page, &rules, 1, out).map(drop).unwrap();
        });
        let scopes = |request: &[u8]| {
            let all = resource_metrics(request).flat_map(|resource| resource.scope_metrics().collect::<Vec<_>>());
            let named = |whole: Message<'_>| whole.string(metric::NAME).to_owned();
            let scope = |scope: weir_otlp::metrics::ScopeMetrics<'_>| {
                let name = scope.0.message(scope_data::SCOPE).map(|scope| scope.string(scope::NAME).to_owned());
                (name.unwrap_or_default(), scope.0.messages(scope_data::ITEMS).map(named).collect::<Vec<_>>().join(","))
            };
            all.map(scope).collect::<Vec<_>>()
        };
        let own = |name: &str, metrics: &str| (name.to_owned(), metrics.to_owned());
        let own_scope = Job::IstioProxies.scope();
        assert_eq!(scopes(&all[0].1), [own("s", "istio_a"), own(own_scope, "istio_c")]);
        assert_eq!(scopes(&all[1].1), [own("t", "envoy_b"), own("s", "envoy_d")]);
    }

    #[test]
    fn metrics_of_proxies_go_to_inputs_by_their_names() {
        let page = metrics(&["envoy_a", "istio_a", "go_info", "istio_b", "my_istio_c", "istio", "envoy_b"]);
        let requests = |job, page: &[u8]| requests(job, b"", page.len(), |out| out.extend_from_slice(page)).0;
        let all = requests(Job::IstioProxies, &page);
        let all: Vec<_> = all.iter().map(|(input, request)| (*input, names(request))).collect();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected =
            [(InputKind::Istio, owned(&["istio_a", "istio_b"])), (InputKind::Envoy, owned(&["envoy_a", "envoy_b"]))];
        assert_eq!(all, expected);
        assert!(requests(Job::IstioProxies, &metrics(&["go_info"])).is_empty());
        let [(input, request)] = &requests(Job::Pods, &page)[..] else { panic!("one request") };
        assert_eq!((*input, names(request).len()), (InputKind::Prometheus, 7));
    }
}
