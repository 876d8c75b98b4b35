//! What tells an API server of the webhooks: two configurations, and a part of each CustomResourceDefinition.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::{Address, MUTATE, Options, VALIDATE};

const GROUP: &str = "telemetry.kyma-project.io";
/// The configuration of the webhook that validates.
pub(super) const VALIDATING: &str = "telemetry-validating-webhook.kyma-project.io";
/// The configuration of the webhook that writes defaults.
pub(super) const MUTATING: &str = "telemetry-mutating-webhook.kyma-project.io";
/// Both, with their kinds.
pub(crate) const CONFIGURATIONS: [(&str, &str); 2] =
    [("ValidatingWebhookConfiguration", VALIDATING), ("MutatingWebhookConfiguration", MUTATING)];
/// As whom the API server knows us.
const MANAGER: &str = "weir-webhook";

/// The names of the CustomResourceDefinitions whose objects are converted.
pub(super) fn definitions(options: &Options) -> Vec<String> {
    let definitions = weir_resources::schema::custom_resource_definitions(&options.conversion());
    definitions
        .iter()
        .filter_map(|definition| definition.pointer("/metadata/name")?.as_str().map(str::to_owned))
        .collect()
}

/// The configurations of the webhooks that validate and write defaults, for a server that these authorities vouch for.
pub fn configurations(options: &Options, authorities: &str) -> [Value; 2] {
    let webhook = |name: &str, path: &str| {
        let mut client = match &options.address {
            Address::Service(service) => {
                json!({"service": {"namespace": options.namespace, "name": service, "path": path, "port": 443}})
            }
            Address::Host(host, port) => json!({"url": format!("https://{host}:{port}{path}")}),
        };
        client["caBundle"] = BASE64_STANDARD.encode(authorities).into();
        json!({
            "name": name,
            "clientConfig": client,
            "rules": [{
                "apiGroups": [GROUP],
                "apiVersions": ["v1beta1", "v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["tracepipelines", "metricpipelines", "logpipelines"],
                "scope": "Cluster",
            }],
            "failurePolicy": "Fail",
            "matchPolicy": "Exact",
            "sideEffects": "None",
            "timeoutSeconds": 15,
            "admissionReviewVersions": ["v1"],
        })
    };
    let configuration = |(kind, name): (&str, &str), webhook: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [webhook],
        })
    };
    [
        configuration(CONFIGURATIONS[0], webhook("validation.weir.dev", VALIDATE)),
        configuration(CONFIGURATIONS[1], webhook("defaults.weir.dev", MUTATE)),
    ]
}

/// Tells the API server of the server and its authorities, as far as it does not know. All of it is tried; the first
/// failure is reported.
pub(super) async fn register(client: &Client, options: &Options, authorities: &str) -> Result<(), kube::Error> {
    let mut result = Ok(());
    for configuration in configurations(options, authorities) {
        result = result.and(configure(client, &configuration).await);
    }
    let conversion = json!({"spec": {"conversion": options.conversion().trusting(authorities).stanza()}});
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in definitions(options) {
        result = result.and(convert_by(&api, &name, &conversion).await);
    }
    result
}

/// The custom metrics API, of which there can be one in a cluster.
const METRICS: &str = "v1beta2.custom.metrics.k8s.io";

/// What sends those who ask for custom metrics here, if they are served.
fn api_service(options: &Options, authorities: &str) -> Option<Value> {
    let (Address::Service(service), Some(_)) = (&options.address, &options.pending) else { return None };
    Some(json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": METRICS},
        "spec": {
            "group": "custom.metrics.k8s.io",
            "version": "v1beta2",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": options.namespace, "name": service, "port": 443},
            "caBundle": BASE64_STANDARD.encode(authorities),
        },
    }))
}

/// Tells the API server who serves custom metrics, if they are served and it does not know.
pub(super) async fn register_metrics(client: &Client, options: &Options, authorities: &str) -> Result<(), kube::Error> {
    let Some(wanted) = api_service(options, authorities) else { return Ok(()) };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let found = api.get_opt(METRICS).await?;
    if found.is_some_and(|found| covers(&serde_json::to_value(&found).unwrap_or_default(), &wanted)) {
        return Ok(());
    }
    api.patch(METRICS, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&wanted)).await?;
    tracing::info!(name = METRICS, "told the API server who serves custom metrics");
    Ok(())
}

async fn configure(client: &Client, wanted: &Value) -> Result<(), kube::Error> {
    let text = |pointer| wanted.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", text("/kind")));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let name = text("/metadata/name");
    match api.get_opt(name).await? {
        Some(found) if covers(&serde_json::to_value(&found).unwrap_or_default(), wanted) => return Ok(()),
        // Webhooks of an older installation, which nobody answers any more, would refuse everything beside ours.
        Some(_) => {
            let alone = json!({"webhooks": wanted["webhooks"]});
            api.patch(name, &PatchParams::default(), &Patch::Merge(&alone)).await?
        }
        None => api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(wanted)).await?,
    };
    tracing::info!(name, "told the API server of a webhook");
    Ok(())
}

async fn convert_by(api: &Api<CustomResourceDefinition>, name: &str, wanted: &Value) -> Result<(), kube::Error> {
    let found = api.get(name).await?;
    if covers(&serde_json::to_value(&found).unwrap_or_default(), wanted) {
        return Ok(());
    }
    api.patch(name, &PatchParams::default(), &Patch::Merge(alone(wanted.clone()))).await?;
    tracing::info!(name = found.name_any(), "told the API server who converts");
    Ok(())
}

/// A patch that leaves one address, whatever there was before.
fn alone(mut conversion: Value) -> Value {
    let client = conversion.pointer_mut("/spec/conversion/webhook/clientConfig").and_then(Value::as_object_mut);
    if let Some(client) = client {
        for address in ["service", "url"] {
            client.entry(address).or_insert(Value::Null);
        }
    }
    conversion
}

/// Whether a value says all that is wanted; it may say more.
fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| found.get(key).is_some_and(|found| covers(found, wanted)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| covers(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_add_is_left_alone_and_what_they_take_away_is_not() {
        let wanted = json!({"a": {"b": "c"}, "l": [{"d": 1}]});
        assert!(covers(&json!({"a": {"b": "c", "x": 1}, "l": [{"d": 1, "e": 2}], "y": 0}), &wanted));
        for found in [json!({"a": {"b": "c"}}), json!({"a": {}, "l": [{"d": 1}]}), json!({"a": {"b": "c"}, "l": []})] {
            assert!(!covers(&found, &wanted), "{found}");
        }
    }

    #[test]
    fn an_api_server_is_told_where_and_by_whom_the_server_is_known() {
        let [validating, mutating] = configurations(&Options::in_namespace("n"), "CA");
        for (configuration, path) in [(&validating, "/validate"), (&mutating, "/mutate")] {
            let client = &configuration["webhooks"][0]["clientConfig"];
            let service = json!({"namespace": "n", "name": "telemetry-manager-webhook", "path": path, "port": 443});
            assert_eq!(*client, json!({"service": service, "caBundle": "Q0E="}));
        }
    }
}
