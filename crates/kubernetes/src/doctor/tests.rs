use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::look::{as_seen, in_pipeline, of_webhooks, warnings};
use super::*;
use crate::certificates::{Certificates, renewed};
use crate::operator::status::condition::UNREADABLE;

fn well() -> Examination {
    let condition = json!({"type": "ConfigurationGenerated", "status": "True", "reason": "GatewayConfigured",
        "message": "applied", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2});
    let pipeline = json!({"metadata": {"name": "shop", "generation": 2}, "status": {"conditions": [condition]}});
    let page = json!({"revision": "ab", "error": null, "pipelines": [
        {"pipeline": "traces/shop", "delivered": 7, "pending": 1, "dropped": {}, "rejected": {},
         "backend": {"state": "ok", "tried": true}}]});
    let pod = |name: &str, part| PodSeen {
        name: name.to_owned(),
        part,
        node: "n1".to_owned(),
        ready: true,
        page: (part == Part::Node).then(|| page.clone()),
        ..PodSeen::default()
    };
    Examination {
        now: UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        namespace: "kyma-system".to_owned(),
        api_server: Some("v1.36.3".to_owned()),
        resources: vec![as_seen("TracePipeline", &pipeline)],
        pods: vec![pod("manager-1", Part::Operator), pod("gateway-1", Part::Node), pod("gateway-2", Part::Node)],
        revision: Some("ab".to_owned()),
        leader: Some("manager-1".to_owned()),
        certificates: Vec::new(),
        missing_webhooks: Vec::new(),
        events: Vec::new(),
        unread: Vec::new(),
    }
}

fn told(seen: &Examination) -> Vec<String> {
    seen.findings().into_iter().map(|finding| finding.what).collect()
}

fn report(seen: &Examination) -> String {
    let mut out = Vec::new();
    write(seen, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn when_all_is_well_nothing_is_found() {
    let seen = well();
    assert_eq!(told(&seen), Vec::<String>::new());
    let report = report(&seen);
    assert!(report.starts_with("All is well"), "{report}");
    assert!(report.contains("traces/shop: delivered 14, pending 2, dropped 0, rejected 0"), "{report}");
    assert!(report.contains("gateway-2 (node) on n1: ready, pending 1, image"), "{report}");
    assert!(report.contains("manager-1 (operator) on n1: ready, image"), "{report}");
}

#[test]
fn each_thing_that_is_wrong_is_told() {
    type Spoil = fn(&mut Examination);
    let cases: [(Spoil, &str); 17] = [
        (|seen| seen.pods.retain(|pod| pod.part == Part::Node), "no operator runs in the namespace kyma-system"),
        (|seen| seen.pods[0].ready = false, "no operator is ready"),
        (|seen| seen.leader = None, "no operator leads"),
        (|seen| seen.resources[0].conditions.clear(), "TracePipeline shop has no status"),
        (|seen| seen.resources[0].generation = 3, "is about generation 2, and it has generation 3"),
        (|seen| "False".clone_into(&mut seen.resources[0].conditions[0].status), "ConfigurationGenerated is False"),
        (
            |seen| {
                let said =
                    format!("applied. Secret shop/backend {UNREADABLE}2026-01-01T00:00:00Z: old values are used");
                seen.resources[0].conditions[0].message = said;
            },
            "TracePipeline shop goes on with old values of a Secret: applied. Secret shop/backend cannot be read since",
        ),
        (
            |seen| seen.missing_webhooks.push("ValidatingWebhookConfiguration hooks".to_owned()),
            "the ValidatingWebhookConfiguration hooks is missing",
        ),
        (|seen| seen.pods[1].fault = Some("no room".to_owned()), "pod gateway-1 on node n1: no room"),
        (|seen| seen.pods[1].last_end = Some("OOMKilled".to_owned()), "took more memory than its limit"),
        (|seen| seen.pods[1].page = None, "pods that do not answer on port 8888: gateway-1"),
        (|seen| seen.revision = Some("cd".to_owned()), "revision cd of the configuration yet: gateway-1, gateway-2"),
        (|seen| seen.pods[1].page.as_mut().unwrap()["error"] = json!("no such field"), "refuses the newest"),
        (
            |seen| seen.pods[1].page.as_mut().unwrap()["pipelines"][0]["dropped"] = json!({"backlog_full": 5}),
            "traces/shop has dropped 5 (backlog_full 5)",
        ),
        (
            |seen| {
                seen.pods[1].page.as_mut().unwrap()["pipelines"][0]["backend"] =
                    json!({"state": "refused", "code": "401", "message": "no\nway"});
            },
            "the backend of traces/shop is not well, as node n1 sees it: refused: 401: no",
        ),
        (
            |seen| {
                let pipeline = &mut seen.pods[1].page.as_mut().unwrap()["pipelines"][0];
                pipeline["backend"] = json!({"state": "refused", "code": "401", "message": ""});
                pipeline["verdict"] = json!({"trouble": {"words": "401: no way"}});
            },
            "the backend of traces/shop is not well, as node n1 sees it: refused: 401: no way",
        ),
        (
            |seen| {
                let ends = seen.now + Duration::from_secs(3 * 86_400);
                let what = "TracePipeline shop, key ca".to_owned();
                let (subject, late_below) = ("CN=x".to_owned(), None);
                seen.certificates.push(CertificateSeen { what, subject, ends, late_below });
            },
            "the certificate of TracePipeline shop, key ca expires in 3 days",
        ),
    ];
    for (spoil, expected) in cases {
        let mut seen = well();
        spoil(&mut seen);
        let found = told(&seen);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
        assert!(report(&seen).starts_with("1 thing is wrong."));
    }
}

#[test]
fn what_helps_where_requests_fail_is_not_to_mend_the_backend() {
    for (state, helps) in [("unreachable", "mend the backend or the pipeline"), ("unsent", "look at that cause")] {
        let mut seen = well();
        let backend = json!({"state": state, "tried": true, "code": "", "message": "no token"});
        seen.pods[1].page.as_mut().unwrap()["pipelines"][0]["backend"] = backend;
        let found = report(&seen);
        assert!(found.contains(&format!("{state}: no token")) && found.contains(helps), "{found}");
    }
}

/// The operator renews them long before their end, so those that are as they should be are no finding.
#[test]
fn certificates_of_the_webhooks_are_told_when_they_were_not_renewed() {
    let mut seen = well();
    let made = seen.now;
    let Certificates { authorities, server, .. } =
        renewed(None, &["hooks.kyma-system.svc".to_owned()], made).unwrap().unwrap();
    // The authority before this one is trusted until it ends.
    let before = renewed(None, &["hooks.kyma-system.svc".to_owned()], made).unwrap().unwrap().authorities;
    let value = |pem: &str| BASE64_STANDARD.encode(pem);
    let secret = json!({
        "metadata": {"name": "telemetry-webhook-cert", "namespace": "kyma-system"},
        "data": {"ca.crt": value(&format!("{authorities}{before}")), "tls.crt": value(&server)},
    });
    seen.certificates = of_webhooks(&secret);
    let of = |key: &str| format!("the webhooks, key {key} of the Secret kyma-system/telemetry-webhook-cert");
    let listed = format!("{}: CN=hooks.kyma-system.svc, 6 days left", of("tls.crt"));
    assert!(report(&seen).contains(&listed) && report(&seen).starts_with("All is well"), "{}", report(&seen));
    assert_eq!(seen.certificates.len(), 2);
    let hour = Duration::from_secs(60 * 60);
    // Certificates begin an hour before they are made.
    let mut told_after = |hours: u32| {
        seen.now = made + hour * hours;
        told(&seen)
    };
    assert_eq!(told_after(6 * 24), Vec::<String>::new(), "it is due, and an operator may be away for an hour");
    assert_eq!(told_after(6 * 24 + 2), [format!("the certificate of {} expires in 0 days", of("tls.crt"))]);
    let late = [
        format!("the certificate of {} expires in 29 days", of("ca.crt")),
        format!("the certificate of {} has expired", of("tls.crt")),
    ];
    assert_eq!(told_after(335 * 24 + 2), late);
    assert!(seen.findings().iter().all(|finding| finding.advice.starts_with("the operator renews it")));
    assert_eq!(of_webhooks(&Value::Null), [], "there are none without webhooks");
}

#[test]
fn certificates_in_pipelines_themselves_are_listed() {
    let seen = well();
    let made = renewed(None, &["backend".to_owned()], seen.now).unwrap().unwrap();
    let tls =
        json!({"ca": {"value": made.authorities}, "cert": {"value": made.server}, "key": {"value": made.server_key}});
    for output in ["otlp", "http"] {
        let pipeline = json!({
            "kind": "LogPipeline", "metadata": {"name": "shop"}, "spec": {"output": {output: {"tls": tls}}},
        });
        let found = in_pipeline(&pipeline);
        let whats: Vec<_> = found.iter().map(|certificate| certificate.what.clone()).collect();
        assert_eq!(whats, ["ca", "cert"].map(|part| format!("LogPipeline shop, spec.output.{output}.tls.{part}")));
        assert_eq!(found[1].subject, "CN=backend");
        let mut seen = well();
        seen.certificates = found;
        let findings = seen.findings();
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!(finding.advice, "replace it");
        assert!(finding.what.ends_with(".tls.cert expires in 6 days"), "{finding:?}");
        assert!(!report(&seen).contains("PRIVATE KEY"));
    }
}

/// What a large cluster takes beside `--memory` is no bug.
#[test]
fn whoever_takes_more_than_the_limit_may_need_a_higher_one() {
    let cases = [(0, "operator.resources"), (1, "nodes.resources"), (1, "166 MB"), (1, "117 MiB")];
    for (pod, part) in cases {
        let mut seen = well();
        seen.pods[pod].last_end = Some("OOMKilled".to_owned());
        let findings = seen.findings();
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert!(finding.advice.starts_with("raise its limit") && finding.advice.contains(part), "{finding:?}");
    }
}

/// Nobody knows whether an endpoint that was mistyped is one, until a request there has ended.
#[test]
fn a_backend_to_which_no_request_has_ended_is_not_called_well() {
    let said = "no request to the backend of traces/shop, as it is configured now, has ended yet";
    let with = |tried: [Value; 2], state: &str| {
        let mut seen = well();
        for (pod, tried) in seen.pods[1..].iter_mut().zip(tried) {
            pod.page.as_mut().unwrap()["pipelines"][0]["backend"] = json!({"state": state, "tried": tried});
        }
        seen
    };
    let seen = with([json!(false), json!(false)], "ok");
    assert_eq!(told(&seen), Vec::<String>::new(), "it is no fault");
    assert!(matches!(&seen.notes()[..], [note] if note.what.starts_with(said)), "{:?}", seen.notes());
    let report = report(&seen);
    assert!(report.starts_with("Nothing is wrong, as far as can be seen; not all is known yet.\n"), "{report}");
    assert!(report.contains(said) && report.contains("\n  backend: no request to it has ended yet\n"), "{report}");
    // One node knows it, nodes of an earlier version do not say, and whoever has a fault to tell has no doubt.
    for (tried, state) in [
        ([json!(false), json!(true)], "ok"),
        ([Value::Null, Value::Null], "ok"),
        ([json!(false), json!(false)], "failing"),
    ] {
        assert_eq!(with(tried, state).notes(), []);
    }
}

#[test]
fn texts_of_others_stay_in_their_lines() {
    let mut seen = well();
    seen.events.push("a\n\u{1b}[2Jb".to_owned());
    assert!(report(&seen).contains("a  [2Jb\n"));
}

#[test]
fn lines_that_warn_are_kept() {
    let log = "{\"level\":\"INFO\",\"message\":\"a\"}\n{\"level\":\"WARN\",\"message\":\"b\"}\n\nthread panicked\n";
    assert_eq!(warnings(log), ["{\"level\":\"WARN\",\"message\":\"b\"}", "thread panicked"]);
    assert_eq!(warnings(&"x\n".repeat(100)).len(), 20);
}
