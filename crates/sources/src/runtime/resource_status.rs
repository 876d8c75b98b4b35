//! Metrics of the status of resources that configure telemetry, as Kyma's receiver `kymastats` makes them.

use weir_engine::Added;
use weir_otlp::conventions::NAMESPACE_NAME;
use weir_plan::{ResourceStatus, RuntimeData, RuntimeMetric};

use super::cluster::truth;
use super::draft::{Draft, EstimateTooSmall, Number};

const STATE: RuntimeMetric =
    metric("kyma.resource.status.state", "The state of the resource is in the attribute state; the value is always 1");

const CONDITIONS: RuntimeMetric =
    metric("kyma.resource.status.conditions", "Conditions of the resource: 1 True, 0 False, -1 anything else");

const fn metric(name: &'static str, about: &'static str) -> RuntimeMetric {
    RuntimeMetric { name, unit: "1", data: RuntimeData::Gauge, resource: None, about }
}

/// Writes the metrics of a resource.
pub(super) fn write(of: &ResourceStatus, draft: &mut Draft) -> Result<(), EstimateTooSmall> {
    let ResourceStatus { group, version, resource, name, namespace, state, conditions } = of;
    let mut attributes = vec![
        ("k8s.resource.group", group.as_str()),
        ("k8s.resource.kind", resource),
        ("k8s.resource.name", name),
        ("k8s.resource.version", version),
    ];
    if !namespace.is_empty() {
        attributes.push((NAMESPACE_NAME, namespace));
    }
    let of_point =
        [("group", group.as_str()), ("kind", resource), ("name", name), ("namespace", namespace), ("version", version)];
    draft.resource(Added::All, &attributes, 0, |metrics| {
        if let Some(state) = state {
            let pairs: Vec<_> = of_point.into_iter().chain([("state", state.as_str())]).collect();
            metrics.write(&STATE, [(Number::Int(1), &pairs[..])]);
        }
        let conditions: Vec<(i64, Vec<_>)> = conditions
            .iter()
            .map(|condition| {
                let of_condition = [
                    ("reason", condition.reason.as_str()),
                    ("status", condition.status.as_str()),
                    ("type", condition.kind.as_str()),
                ];
                (truth(&condition.status), of_point.into_iter().chain(of_condition).collect())
            })
            .collect();
        metrics.write(&CONDITIONS, conditions.iter().map(|(value, pairs)| (Number::Int(*value), &pairs[..])));
    })
}

#[cfg(test)]
mod tests {
    use weir_plan::{Condition, RuntimeMetrics};

    use super::*;
    use crate::runtime::test_lines::{NOW, lines};

    fn shown(status: &ResourceStatus) -> Vec<String> {
        let mut draft = Draft::new("scope", RuntimeMetrics::default(), NOW, usize::MAX);
        write(status, &mut draft).unwrap();
        lines(&draft.finish())
    }

    #[test]
    fn states_and_conditions_are_points() {
        let condition = |kind: &str, status: &str| Condition {
            kind: kind.into(),
            status: status.into(),
            reason: format!("{kind}Reason"),
        };
        let mut status = ResourceStatus {
            group: "operator.kyma-project.io".into(),
            version: "v1beta1".into(),
            resource: "telemetries".into(),
            name: "default".into(),
            namespace: "kyma-system".into(),
            state: Some("Warning".into()),
            conditions: vec![condition("A", "True"), condition("B", "False"), condition("C", "Unknown")],
        };
        let of_point =
            "group=operator.kyma-project.io,kind=telemetries,name=default,namespace=kyma-system,version=v1beta1";
        let of_condition = |kind: &str, status: &str, value: i64| {
            format!(
                "  kyma.resource.status.conditions 1 gauge{{{of_point},reason={kind}Reason,status={status},type={kind}}} {value}"
            )
        };
        let resource = "All k8s.resource.group=operator.kyma-project.io,k8s.resource.kind=telemetries,\
                        k8s.resource.name=default,k8s.resource.version=v1beta1,k8s.namespace.name=kyma-system";
        assert_eq!(
            shown(&status),
            [
                resource.to_owned(),
                format!("  kyma.resource.status.state 1 gauge{{{of_point},state=Warning}} 1"),
                of_condition("A", "True", 1),
                of_condition("B", "False", 0),
                of_condition("C", "Unknown", -1),
            ]
        );
        status.state = None;
        assert_eq!(shown(&status).len(), 4);
        status.conditions.clear();
        assert!(shown(&status).is_empty());
    }
}
