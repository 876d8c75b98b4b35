//! Which input takes what of a page.

use std::sync::LazyLock;

use weir_engine::InputKind;
use weir_otlp::common::Message;
use weir_otlp::field::{metric, scope_data};

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
        let named = named(&metrics, prefix);
        let length = named.iter().map(|whole| whole.len()).sum();
        let make = |out: &mut Vec<u8>| named.iter().for_each(|whole| out.extend_from_slice(whole));
        (!named.is_empty()).then(|| (input, request(resource, job.scope(), length, make).0))
    };
    (OF_PROXIES.into_iter().filter_map(of).collect(), made)
}

/// The metrics whose names begin like this.
fn named<'a>(metrics: &'a [u8], prefix: &str) -> Vec<&'a [u8]> {
    let all = Message::request(metrics).messages(scope_data::ITEMS);
    let named = all.filter(|whole| whole.string(metric::NAME).starts_with(prefix));
    named.map(|whole| &metrics[whole.field_range()]).collect()
}

#[cfg(test)]
mod tests {
    use weir_otlp::build::Encoder;
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
            let names = ["istio_", "envoy_", "go_"].map(|prefix| named(&out, prefix).len());
            Some((names, taken.samples, taken.dropped))
        };
        assert_eq!(kept(Job::IstioProxies, true), Some(([1, 1, 0], 4, 2)));
        assert_eq!(kept(Job::IstioProxies, false), Some(([1, 0, 0], 4, 3)));
        assert_eq!(kept(Job::Pods, false), None, "more samples than the limit");
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
