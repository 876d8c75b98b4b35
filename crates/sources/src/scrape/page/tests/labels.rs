//! What rules make of labels, and what labels say of resources and scopes.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

use super::*;
use crate::scrape::relabel::{Action, Relabeling, Rule};
use crate::scrape::request::{diagnostics, request};
use crate::scrape::target::{Job, Target};

pub(super) fn rule(action: Action, source: &str, regex: &str, target: &str, replacement: &str) -> Rule {
    Rule {
        action,
        source_labels: vec![source.to_owned()],
        regex: regex.to_owned(),
        target_label: target.to_owned(),
        replacement: replacement.to_owned(),
        ..Rule::default()
    }
}

pub(super) fn with(relabel: impl IntoIterator<Item = Rule>) -> PageRules {
    PageRules { relabel: Relabeling::new(relabel).unwrap(), ..rules(Format::Text) }
}

pub(super) fn target_labels(labels: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    labels.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// What comes of a page: for each resource its attributes that a target does not have in any case, for each scope its
/// name, version, attributes and address of its schema, and a line for each point. Of the first resource and scope,
/// nothing is said when they are the target's and Weir's.
pub(super) fn sorted(
    last_page: &mut LastPage,
    page: &str,
    rules: &PageRules,
    time: u64,
) -> Result<Vec<String>, PageError> {
    let mut out = Vec::new();
    last_page.take(page.as_bytes(), rules, time, &mut out)?;
    Ok(view_request(&out))
}

pub(super) fn view_request(metrics: &[u8]) -> Vec<String> {
    let resource = Target::new("http://own:1/", Job::Static).unwrap().resource();
    let own = ["service.name=static", "service.instance.id=own:1", "server.address=own", "server.port=1"];
    let request = ExportMetricsServiceRequest::decode(request_of(&resource, metrics).as_slice()).unwrap();
    let mut lines = Vec::new();
    for (index, resource) in request.resource_metrics.iter().enumerate() {
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        let mut keys: Vec<&str> = attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
        let attributes = labels(attributes);
        let attributes = attributes.trim_matches(['{', '}']).split(',');
        let others: Vec<_> = attributes.filter(|one| !own.contains(one) && *one != "url.scheme=http").collect();
        if index > 0 || !others.is_empty() {
            lines.push(format!("resource {}", others.join(",")).trim_end().to_owned());
        }
        for (index, scope) in resource.scope_metrics.iter().enumerate() {
            let own = scope.scope.as_ref().unwrap();
            if own.name != "io.kyma-project.telemetry/prometheus" {
                let (attributes, url) = (labels(&own.attributes), &scope.schema_url);
                lines.push(format!("scope {} {}{attributes} {url}", own.name, own.version).trim_end().to_owned());
            } else if index > 0 {
                lines.push("own scope".to_owned());
            }
            lines.extend(scope.metrics.iter().flat_map(of_metric));
        }
    }
    lines
}

fn request_of(resource: &[u8], metrics: &[u8]) -> Vec<u8> {
    request(resource, Job::Static.scope(), metrics.len(), |out| out.extend_from_slice(metrics)).0
}

#[track_caller]
fn check<const N: usize>(page: &str, rules: &PageRules, expected: [&str; N]) {
    let mut last_page = LastPage::default();
    assert_eq!(sorted(&mut last_page, page, rules, T).unwrap(), expected);
    assert_eq!(sorted(&mut last_page, page, rules, T).unwrap(), expected, "by comparison");
}

const ISTIO: &str = "# TYPE istio_a counter\nistio_a{x=\"1\"} 1\n# TYPE b gauge\nb{x=\"1\"} 2\nb{x=\"2\"} 3\n\
                     # TYPE envoy_c gauge\nenvoy_c 4\n";

#[test]
fn rules_say_which_samples_are_kept() {
    let rules = with([rule(Action::Keep, "__name__", "istio_.*|envoy_.*", "", "")]);
    let mut last_page = LastPage::default();
    let mut take = |page: &str, time| {
        let mut out = Vec::new();
        let taken = last_page.take(page.as_bytes(), &rules, time, &mut out).unwrap();
        (taken, view(&out))
    };
    let expected = ["counter istio_a{x=1} 1 @1..1", "gauge envoy_c 4 @1"];
    let (taken, lines) = take(ISTIO, T);
    assert_eq!(lines, expected);
    assert_eq!(taken, Taken { samples: 4, added: 2, repeated: 0, dropped: 2, is_same: false });
    let (taken, lines) = take(&ISTIO.replace("} 2\n", "} 20\n"), T);
    assert_eq!(lines, expected);
    assert_eq!(taken, Taken { samples: 4, added: 0, repeated: 0, dropped: 2, is_same: true });
    let (taken, lines) = take(&format!("{ISTIO}d 1\nenvoy_e 5\n"), 2 * T);
    assert_eq!(lines, ["counter istio_a{x=1} 1 @1..2", "gauge envoy_c 4 @2", "gauge envoy_e 5 @2"]);
    assert_eq!(taken, Taken { samples: 6, added: 1, repeated: 0, dropped: 3, is_same: false });
    let (_, lines) = take("envoy_c 4\n", 3 * T);
    let gone = ["gauge envoy_c 4 @3", "counter istio_a{x=1} gone @3", "gauge envoy_e gone @3"];
    assert_eq!(lines, gone, "what was left out does not end");
}

#[test]
fn samples_that_are_left_out_are_counted() {
    let taken = Taken { samples: 10, dropped: 4, repeated: 1, ..Taken::default() };
    let lines = view(&diagnostics(std::time::Duration::ZERO, Some(taken), T));
    assert!(lines.contains(&"gauge scrape_samples_scraped 10 @1".to_owned()), "{lines:?}");
    assert!(lines.contains(&"gauge scrape_samples_post_metric_relabeling 6 @1".to_owned()), "{lines:?}");
}

#[test]
fn the_limit_is_for_what_is_kept() {
    let rules = PageRules { sample_limit: 2, ..with([rule(Action::Drop, "__name__", "b", "", "")]) };
    assert!(sorted(&mut LastPage::default(), ISTIO, &rules, T).is_ok());
    let rules = PageRules { sample_limit: 1, ..rules };
    let error = sorted(&mut LastPage::default(), ISTIO, &rules, T).unwrap_err();
    assert_eq!(error, PageError::TooManySamples { samples: 2, limit: 1 });
}

#[test]
fn rules_change_names_and_labels() {
    let renamed = with([rule(Action::Replace, "__name__", "(.*)_c", "__name__", "${1}_d")]);
    check("# TYPE envoy_c counter\nenvoy_c{b=\"1\",a=\"2\"} 4\n", &renamed, ["gauge envoy_d{a=2,b=1} 4 @1"]);
    let added = with([rule(Action::Replace, "x", "(.+)", "y", "x$1")]);
    check(HISTOGRAM, &added, ["histogram h{x=1,y=x1} count 4 sum Some(2.5) [0.5, 1.0] [1, 2, 1] @1..1"]);
    let fewer = with([rule(Action::Drop, "le", "0.5", "", "")]);
    check(HISTOGRAM, &fewer, ["histogram h{x=1} count 4 sum Some(2.5) [1.0] [3, 1] @1..1"]);
    let nameless = with([rule(Action::LabelDrop, "", "__name__", "", "")]);
    let error = sorted(&mut LastPage::default(), ISTIO, &nameless, T).unwrap_err().to_string();
    assert_eq!(error, "line 2: a sample that relabeling left without a name");
    let nothing = with([rule(Action::LabelKeep, "", "no", "", "")]);
    check(ISTIO, &nothing, []);
}

#[test]
fn labels_that_rules_make_longer_are_paid_for() {
    let page: String = (0..10).map(|y| format!("a{{x=\"{}\",y=\"{y}\"}} 1\n", "long".repeat(100))).collect();
    let take = |times| {
        let rules = with(vec![rule(Action::Replace, "x", "(.*)", "x", "$1$1"); times]);
        let (mut last_page, mut out) = (LastPage::default(), Vec::new());
        last_page
            .take(page.as_bytes(), &rules, T, &mut out)
            .map(|_| (out.len(), last_page.work(page.as_bytes(), &rules).unwrap()))
    };
    let (plain, doubled) = (take(0).unwrap(), take(4).unwrap());
    assert!(doubled.0 > 10 * plain.0, "{doubled:?}");
    assert!(doubled.1 - plain.1 >= 2 * (doubled.0 - plain.0), "{plain:?} {doubled:?}");
    assert_eq!(take(12).unwrap_err().to_string(), "line 1: a: rules make the labels more than 1048576 bytes longer");
}

#[test]
fn series_that_become_the_same_are_taken_once() {
    let rules = with([rule(Action::LabelDrop, "", "x", "", "")]);
    let page = "# TYPE a counter\na{x=\"1\",y=\"1\"} 5\na{y=\"1\",x=\"2\"} 6\na{x=\"3\",y=\"2\"} 7\n";
    check(page, &rules, ["counter a{y=1} 5 @1..1", "counter a{y=2} 7 @1..1"]);
    let mut last_page = LastPage::default();
    sorted(&mut last_page, page, &rules, T).unwrap();
    let mut out = Vec::new();
    let taken = last_page.take(format!("{page}b 1\n").as_bytes(), &rules, 2 * T, &mut out).unwrap();
    assert_eq!(taken, Taken { samples: 4, added: 1, repeated: 1, dropped: 0, is_same: false });
    assert_eq!(view(&out), ["counter a{y=1} 5 @1..2", "counter a{y=2} 7 @1..2", "gauge b 1 @2"]);
}

#[test]
fn labels_of_the_target_win_or_lose() {
    let page = "a{job=\"j\",exported_job=\"k\",zone=\"z\",pod=\"\"} 1\n";
    let own = target_labels(&[("job", "static"), ("zone", "own"), ("pod", "p")]);
    let rules = PageRules { target_labels: own, ..rules(Format::Text) };
    let renamed = "gauge a{exported_exported_job=j,exported_job=k,exported_zone=z,zone=own,pod=p} 1 @1";
    check(page, &rules, [renamed]);
    let honoring = PageRules { honor_labels: true, ..rules };
    check(page, &honoring, ["resource service.name=j", "gauge a{exported_job=k,zone=z} 1 @1"]);
    check("a{job=\"static\"} 1\n", &honoring, ["gauge a{zone=own,pod=p} 1 @1"]);
    let page = "a{job=\"j\",instance=\"i\"} 1\nb 2\na{instance=\"i\",job=\"j\"} 3\n";
    let expected = [
        "resource service.name=j,service.instance.id=i",
        "gauge a{zone=own,pod=p} 1 @1",
        "gauge a{zone=own,pod=p} 3 @1",
        "resource",
        "gauge b{zone=own,pod=p} 2 @1",
    ];
    check(page, &honoring, expected);
}

#[test]
fn rules_see_labels_of_the_target() {
    let own = target_labels(&[("job", "static"), ("instance", "own:1")]);
    let added = with([rule(Action::Replace, "instance", "(.*):.*", "host", "$1")]);
    check("a 1\n", &PageRules { target_labels: own.clone(), ..added }, ["gauge a{host=own} 1 @1"]);
    let moved = with([rule(Action::Replace, "x", "(.+)", "job", "$1")]);
    let rules = PageRules { target_labels: own, ..moved };
    check("a{x=\"1\"} 1\na 2\n", &rules, ["resource service.name=1", "gauge a{x=1} 1 @1", "resource", "gauge a 2 @1"]);
}

#[test]
fn labels_may_be_limited() {
    let page = "# a remark\na{xx=\"1\",y=\"234\"} 1\n";
    let error = |rules: &PageRules| sorted(&mut LastPage::default(), page, rules, T).map_err(|error| error.to_string());
    let plain = rules(Format::Text);
    let labels = |label_limit| PageRules { label_limit, ..plain.clone() };
    assert!(error(&labels(5)).is_ok(), "two, the name, job and instance");
    assert_eq!(error(&labels(4)), Err("line 2: a has 5 labels, label_limit is 4".to_owned()));
    let name = |label_name_length_limit| PageRules { label_name_length_limit, ..plain.clone() };
    assert!(error(&name(8)).is_ok(), "__name__ is a label");
    let longest = "line 2: the name of the label __name__ has 8 bytes, label_name_length_limit is 7";
    assert_eq!(error(&name(7)), Err(longest.to_owned()));
    let value = |label_value_length_limit| PageRules { label_value_length_limit, ..plain.clone() };
    assert!(error(&value(3)).is_ok());
    let longest = "line 2: the value of the label y has 3 bytes, label_value_length_limit is 2";
    assert_eq!(error(&value(2)), Err(longest.to_owned()));
    let fewer = PageRules { relabel: with([rule(Action::LabelDrop, "", "y", "", "")]).relabel, ..labels(4) };
    assert!(error(&fewer).is_ok(), "limits are for what rules leave");
}

#[test]
fn times_of_the_page_may_be_left_out() {
    let rules = PageRules { honor_timestamps: false, ..rules(Format::Text) };
    check("a 1 5000\n", &rules, ["gauge a 1 @1"]);
    let mut last_page = LastPage::default();
    sorted(&mut last_page, "a 1 5000\n", &rules, T).unwrap();
    assert_eq!(sorted(&mut last_page, "", &rules, 2 * T).unwrap(), ["gauge a gone @2"]);
}

#[test]
fn series_with_times_of_the_page_end_silently() {
    let first = format!("a 1 5000\nb 2\n{}", HISTOGRAM.replace("} 4\n", "} 4 5000\n"));
    let ends = |rules: &PageRules| {
        let mut last_page = LastPage::default();
        sorted(&mut last_page, &first, rules, T).unwrap();
        sorted(&mut last_page, "", rules, 2 * T).unwrap()
    };
    assert_eq!(ends(&rules(Format::Text)), ["gauge b gone @2"]);
    let tracking = PageRules { track_timestamps_staleness: true, ..rules(Format::Text) };
    let all = ["gauge a gone @2", "gauge b gone @2", "histogram h{x=1} count 0 sum None [] [] @2 gone"];
    assert_eq!(ends(&tracking), all);
    let mut last_page = LastPage::default();
    let rules = rules(Format::Text);
    for (first, last, ends) in
        [("a 1 5000\n", "a 1\n", &["gauge a gone @2".to_owned()][..]), ("a 1\n", "a 1 5000\n", &[])]
    {
        sorted(&mut last_page, first, &rules, T).unwrap();
        sorted(&mut last_page, last, &rules, T).unwrap();
        assert_eq!(sorted(&mut last_page, "", &rules, 2 * T).unwrap(), ends, "the last page counts");
    }
}

#[test]
fn target_info_is_of_the_resource() {
    let rules = rules(Format::Text);
    let page = "a 1\n# TYPE target_info gauge\ntarget_info{k8s_pod_name=\"p\",job=\"j\"} 1\nb 2\n";
    check(page, &rules, ["resource k8s_pod_name=p,exported_job=j", "gauge a 1 @1", "gauge b 2 @1"]);
    let mut last_page = LastPage::default();
    sorted(&mut last_page, page, &rules, T).unwrap();
    let other = page.replace("\"p\"", "\"q\"").replace("b 2\n", "");
    let expected = ["resource k8s_pod_name=q,exported_job=j", "gauge a 1 @2", "gauge b gone @2"];
    assert_eq!(sorted(&mut last_page, &other, &rules, 2 * T).unwrap(), expected);
    let mut out = Vec::new();
    last_page.mark_all_stale(3 * T, &mut out).unwrap();
    assert_eq!(view_request(&out), ["resource k8s_pod_name=q,exported_job=j", "gauge a gone @3"]);
    let named = "target_info{\"service.name\"=\"n\",x=\"1\"} 1\na 1\ntarget_info{x=\"2\"} 1\n";
    check(named, &rules, ["resource service.name=n,x=2", "gauge a 1 @1"]);
    check("target_info{x=\"1\"} 1\n", &rules, []);
}

/// Pipelines choose by namespace.
#[test]
fn no_page_says_that_it_is_elsewhere_in_the_cluster() {
    let page = "target_info{k8s_pod_uid=\"u\",\"k8s.namespace.name\"=\"b\",\"k8s.pod.uid\"=\"u\",\"service.name\"=\"s\",\
                x=\"y\"} 1\na 1\n";
    let mut out = Vec::new();
    LastPage::default().take(page.as_bytes(), &rules(Format::Text), T, &mut out).unwrap();
    let resource_of = |target: Target| {
        let request = request_of(&target.resource(), &out);
        let request = ExportMetricsServiceRequest::decode(request.as_slice()).unwrap();
        labels(&request.resource_metrics[0].resource.as_ref().unwrap().attributes)
    };
    let target = Target::new("http://own:1/", Job::Pods).unwrap();
    let free = resource_of(target.clone());
    assert!(free.contains("k8s.namespace.name=b") && free.contains("k8s.pod.uid=u"), "{free}");
    assert!(free.contains("service.name=s"), "{free}");
    let placed = resource_of(target.with_attributes(vec![("k8s.namespace.name", "a".to_owned())]));
    assert!(placed.contains("k8s.namespace.name=a") && placed.contains("x=y"), "{placed}");
    assert!(!placed.contains("k8s.pod.uid") && !placed.contains("service.name"), "{placed}");
}

#[test]
fn target_info_of_others_is_of_their_resources() {
    let rules = PageRules { honor_labels: true, ..rules(Format::Text) };
    let page = "target_info{job=\"j\",x=\"1\"} 1\ntarget_info{y=\"2\"} 1\na{job=\"j\"} 1\na 2\n";
    check(page, &rules, ["resource service.name=j,x=1", "gauge a 1 @1", "resource y=2", "gauge a 2 @1"]);
}

const SCOPES: &str = "# TYPE a counter\na{otel_scope_name=\"s\",otel_scope_version=\"1\",x=\"1\"} 1\n\
                      a{otel_scope_name=\"t\",otel_scope_k=\"v\",otel_scope_schema_url=\"u\"} 2\n\
                      # TYPE b gauge\nb{otel_scope_name=\"s\",otel_scope_version=\"1\"} 3\nc 4\n";

#[test]
fn labels_say_which_scope_samples_are_of() {
    let rules = rules(Format::Text);
    let expected = [
        "scope s 1",
        "counter a{x=1} 1 @1..1",
        "gauge b 3 @1",
        "scope t {k=v} u",
        "counter a 2 @1..1",
        "own scope",
        "gauge c 4 @1",
    ];
    check(SCOPES, &rules, expected);
    let mut last_page = LastPage::default();
    sorted(&mut last_page, SCOPES, &rules, T).unwrap();
    let others = SCOPES.replace("c 4\n", "d{otel_scope_name=\"t\"} 4\n").replace("# TYPE b gauge\n", "");
    let expected = [
        "scope s 1",
        "counter a{x=1} 1 @1..2",
        "gauge b 3 @2",
        "scope t {k=v} u",
        "counter a 2 @1..2",
        "scope t",
        "gauge d 4 @2",
        "own scope",
        "gauge c gone @2",
    ];
    assert_eq!(sorted(&mut last_page, &others, &rules, 2 * T).unwrap(), expected);
    let mut out = Vec::new();
    last_page.mark_all_stale(3 * T, &mut out).unwrap();
    let gone = [
        "scope s 1",
        "counter a{x=1} gone @3",
        "gauge b gone @3",
        "scope t {k=v} u",
        "counter a gone @3",
        "scope t",
        "gauge d gone @3",
    ];
    assert_eq!(view_request(&out), gone);
    assert_eq!(sorted(&mut last_page, "c 4\n", &rules, 4 * T).unwrap(), ["gauge c 4 @4"]);
}

#[test]
fn series_that_go_are_said_to_in_their_scopes() {
    let rules = rules(Format::Text);
    let mut last_page = LastPage::default();
    sorted(&mut last_page, SCOPES, &rules, T).unwrap();
    let page = "# TYPE a counter\na{otel_scope_name=\"t\",otel_scope_k=\"v\",otel_scope_schema_url=\"u\"} 2\n";
    let expected = [
        "scope t {k=v} u",
        "counter a 2 @1..2",
        "scope s 1",
        "counter a{x=1} gone @2",
        "gauge b gone @2",
        "own scope",
        "gauge c gone @2",
    ];
    assert_eq!(sorted(&mut last_page, page, &rules, 2 * T).unwrap(), expected);
}

#[test]
fn histograms_of_scopes_are_kept_apart() {
    let one = |scope: &str, count: &str| {
        format!(
            "h_bucket{{otel_scope_name=\"{scope}\",le=\"1\"}} 1\nh_bucket{{otel_scope_name=\"{scope}\",le=\"+Inf\"}} {count}\n\
             h_count{{otel_scope_name=\"{scope}\"}} {count}\n"
        )
    };
    let page = format!("# TYPE h histogram\n{}{}", one("s", "3"), one("t", "5"));
    let rules = rules(Format::Text);
    let mut last_page = LastPage::default();
    let expected = |times| {
        [
            "scope s".to_owned(),
            format!("histogram h count 3 sum None [1.0] [1, 2] {times}"),
            "scope t".to_owned(),
            format!("histogram h count 5 sum None [1.0] [1, 4] {times}"),
        ]
    };
    assert_eq!(sorted(&mut last_page, &page, &rules, T).unwrap(), expected("@1..1"));
    assert_eq!(sorted(&mut last_page, &page, &rules, 2 * T).unwrap(), expected("@1..2"));
    let more = sorted(&mut last_page, &format!("{page}b 1\n"), &rules, 3 * T).unwrap();
    assert_eq!(more[..4], expected("@1..3"), "neither is taken for the other, which would begin again");
}

#[test]
fn otel_scope_info_describes_scopes() {
    let rules = rules(Format::Text);
    let page = "# TYPE otel_scope_info gauge\n\
                otel_scope_info{otel_scope_name=\"s\",otel_scope_version=\"1\",k=\"info\",l=\"more\"} 1\n";
    let page = format!("{}{page}", SCOPES.replace("version=\"1\",x", "version=\"1\",otel_scope_k=\"own\",x"));
    let expected = [
        "scope s 1{k=own,l=more}",
        "counter a{x=1} 1 @1..1",
        "scope t {k=v} u",
        "counter a 2 @1..1",
        "scope s 1{k=info,l=more}",
        "gauge b 3 @1",
        "own scope",
        "gauge c 4 @1",
    ];
    check(&page, &rules, expected);
    let mut last_page = LastPage::default();
    sorted(&mut last_page, &page, &rules, T).unwrap();
    let other = sorted(&mut last_page, &page.replace("more", "less"), &rules, 2 * T).unwrap();
    assert_eq!(other[0], "scope s 1{k=own,l=less}");
}

/// A page with so many scopes that have one name, and what is said of all of them.
fn scopes_of_one_name(count: usize, info: usize) -> String {
    let lines: String = (0..count).map(|k| format!("a{{otel_scope_name=\"s\",otel_scope_k=\"{k}\"}} 1\n")).collect();
    format!("otel_scope_info{{otel_scope_name=\"s\",l=\"{}\"}} 1\n{lines}", "x".repeat(info))
}

#[test]
fn what_is_said_of_many_scopes_is_paid_for() {
    let taken = |page: &str| {
        let (mut last_page, mut out) = (LastPage::default(), Vec::new());
        let paid = last_page.work(page.as_bytes(), &rules(Format::Text)).unwrap();
        last_page.take(page.as_bytes(), &rules(Format::Text), T, &mut out).unwrap();
        assert!(last_page.memory() + out.capacity() <= paid, "{} of {paid}", out.capacity());
        out
    };
    let count = |out: &[u8]| view_request(out).iter().filter(|line| line.contains("l=x")).count();
    assert_eq!(count(&taken(&scopes_of_one_name(500, 100))), 500, "there is room for all");
    let page = scopes_of_one_name(500, 100_000);
    let out = taken(&page);
    assert!(out.len() < 4 * page.len(), "{} bytes of {}", out.len(), page.len());
    assert_eq!(count(&out), 1, "then there is no room");
}

#[test]
fn exemplars_stay_in_their_scopes() {
    let page = "# TYPE a counter\na_total{otel_scope_name=\"s\"} 1 # {x=\"1\"} 0.5\nb 1\n# EOF\n";
    let rules = rules(Format::OpenMetrics);
    let expected =
        ["scope s", "counter a_total 1 @1..1 example{x=1} trace 0 Some(AsDouble(0.5)) @1", "own scope", "gauge b 1 @1"];
    check(page, &rules, expected);
}
