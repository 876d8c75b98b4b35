//! What holds for every request. That enriching twice is enriching once is checked in all of them (ENRICH-2).

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;
use prost::Message as _;
use weir_enrich::{Enricher, Noise};
use weir_otlp::Signal;
use weir_otlp::splice::splice;
use weir_plan::ServiceEnrichment;

use crate::generate;
use crate::model::{self, says_nothing};
use crate::support::{NOW, ROOM, cart, enrich, enricher, full_enrichment, key_value};

fn modes() -> impl Strategy<Value = ServiceEnrichment> {
    prop_oneof![Just(ServiceEnrichment::KymaLegacy), Just(ServiceEnrichment::Otel)]
}

fn noise() -> impl Strategy<Value = Noise> {
    prop_oneof![Just(Noise::Keep), Just(Noise::Drop)]
}

fn known(mode: ServiceEnrichment) -> Enricher {
    enricher(&full_enrichment(mode), &[cart()])
}

/// ENRICH-1: what is kept of a resource is what it said, in its order, and before what is added.
fn check_resource(before: Option<&Resource>, after: Option<&Resource>, mode: ServiceEnrichment) {
    let own = before.map_or(&[][..], |resource| &resource.attributes);
    let enriched = &after.unwrap().attributes;
    let kept: Vec<_> = enriched.iter().filter(|attribute| own.contains(attribute)).collect();
    let in_order: Vec<_> = own.iter().filter(|attribute| enriched.contains(attribute)).collect();
    assert_eq!(kept, in_order);
    for attribute in own {
        let internal = attribute.key.starts_with("kyma.");
        let doubtful =
            attribute.key == "service.name" || mode == ServiceEnrichment::Otel && attribute.key.starts_with("service.");
        let stays = enriched.contains(attribute);
        assert!(
            stays || internal || doubtful || says_nothing(&attribute.value.clone().and_then(|value| value.value)),
            "{attribute:?} is gone from {enriched:?}"
        );
        assert!(!(stays && internal), "{attribute:?} is still there");
    }
    let mut keys: Vec<_> = enriched.iter().map(|attribute| &attribute.key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), enriched.len(), "a key stands twice in {enriched:?}");
}

fn string(key: &str, value: &str) -> KeyValue {
    key_value(key, Some(Value::StringValue(value.into())))
}

fn is_proxy(span: &Span) -> bool {
    span.attributes.contains(&string("component", "proxy"))
}

proptest! {
    #[test]
    fn traces_change_in_resources_only(request in generate::traces(), mode in modes(), peer in any::<bool>()) {
        let address = peer.then_some("10.0.0.1");
        let (bytes, _) = enrich(&known(mode), Signal::Traces, &request.encode_to_vec(), address, Noise::Keep);
        let enriched = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
        let mut expected = request.clone();
        for (before, after) in expected.resource_spans.iter_mut().zip(&enriched.resource_spans) {
            check_resource(before.resource.as_ref(), after.resource.as_ref(), mode);
            let proxied = before.scope_spans.iter().flat_map(|scope| &scope.spans).any(is_proxy);
            let model = model::enriched(before.resource.as_ref(), mode, peer, proxied);
            prop_assert_eq!(model::map(after.resource.as_ref()), model);
            before.resource.clone_from(&after.resource);
        }
        prop_assert_eq!(enriched, expected);
    }

    #[test]
    fn noise_goes_whole_and_alone(request in generate::traces(), mode in modes()) {
        let request = request.encode_to_vec();
        let spans = |bytes: &[u8]| -> Vec<_> {
            let request = ExportTraceServiceRequest::decode(bytes).unwrap();
            let scopes = request.resource_spans.into_iter().flat_map(|holder| holder.scope_spans);
            scopes.flat_map(|scope| scope.spans).collect()
        };
        let (kept, none) = enrich(&known(mode), Signal::Traces, &request, None, Noise::Keep);
        let (rest, gone) = enrich(&known(mode), Signal::Traces, &request, None, Noise::Drop);
        prop_assert_eq!(none, 0);
        prop_assert_eq!(spans(&rest).len() + gone as usize, spans(&request).len());
        if gone == 0 {
            prop_assert_eq!(kept, rest);
        }
    }

    /// Removing noise before or after enrichment is the same: it is decided on the enriched resource.
    #[test]
    fn one_pass_is_as_good_as_two(traces in generate::traces(), logs in generate::logs(), mode in modes()) {
        let enricher = known(mode);
        let once = enrich(&enricher, Signal::Traces, &traces.encode_to_vec(), Some("10.0.0.1"), Noise::Drop);
        let (kept, _) = enrich(&enricher, Signal::Traces, &traces.encode_to_vec(), Some("10.0.0.1"), Noise::Keep);
        let arrival = enricher.arrival(Some("10.0.0.1".parse().unwrap()), NOW);
        let changes = enricher.edits(Signal::Traces, &kept, &arrival, Noise::Drop, ROOM).unwrap();
        let gone = changes.noise;
        prop_assert_eq!((splice(Signal::Traces, &kept, changes.edits).unwrap(), gone), once);

        let (bytes, gone) = enrich(&enricher, Signal::Logs, &logs.encode_to_vec(), Some("10.0.0.1"), Noise::Drop);
        let left = ExportLogsServiceRequest::decode(&bytes[..]).unwrap();
        let records = |request: &ExportLogsServiceRequest| {
            request.resource_logs.iter().flat_map(|holder| &holder.scope_logs).map(|scope| scope.log_records.len()).sum::<usize>()
        };
        prop_assert_eq!(records(&left) + gone as usize, records(&logs));
    }

    #[test]
    fn log_records_change_as_said(request in generate::logs(), mode in modes()) {
        let (bytes, _) = enrich(&known(mode), Signal::Logs, &request.encode_to_vec(), None, Noise::Keep);
        let enriched = ExportLogsServiceRequest::decode(&bytes[..]).unwrap();
        let mut expected = request.clone();
        for (before, after) in expected.resource_logs.iter_mut().zip(&enriched.resource_logs) {
            check_resource(before.resource.as_ref(), after.resource.as_ref(), mode);
            before.resource.clone_from(&after.resource);
            for (before, after) in before.scope_logs.iter_mut().zip(&after.scope_logs) {
                let istio = |own: &[KeyValue]| own.contains(&string("kyma.module", "istio"));
                if before.log_records.iter().any(|record| istio(&record.attributes)) {
                    before.scope.clone_from(&after.scope);
                }
                for (before, after) in before.log_records.iter_mut().zip(&after.log_records) {
                    if before.observed_time_unix_nano == 0 {
                        before.observed_time_unix_nano = NOW;
                    }
                    if istio(&before.attributes) {
                        prop_assert_eq!(after.severity_number, 9);
                        before.clone_from(after);
                    }
                }
            }
        }
        prop_assert_eq!(enriched, expected);
    }

    #[test]
    fn damaged_requests_do_not_panic(
        mut bytes in prop_oneof![
            generate::traces().prop_map(|request| request.encode_to_vec()),
            generate::logs().prop_map(|request| request.encode_to_vec()),
        ],
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        mode in modes(),
        noise in noise(),
    ) {
        for (at, byte) in damage {
            let length = bytes.len();
            bytes.get_mut(at % length.max(1)).into_iter().for_each(|old| *old = byte);
        }
        let enricher = known(mode);
        let arrival = enricher.arrival(None, NOW);
        for signal in Signal::ALL {
            if let Ok(changes) = enricher.edits(signal, &bytes, &arrival, noise, ROOM) {
                drop(splice(signal, &bytes, changes.edits));
            }
        }
    }
}
