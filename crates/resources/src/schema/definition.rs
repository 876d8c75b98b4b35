//! CustomResourceDefinitions of the kinds that a cluster keeps.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{of_type, status};
use crate::document::Version;
use crate::document::table::Type;
use crate::kinds::{KINDS, Kind, Role};

/// Where an API server has objects converted between versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversionWebhook {
    /// The `clientConfig`: `service` or `url`, and `caBundle`.
    client_config: Value,
}

impl ConversionWebhook {
    /// By a Service of the cluster, port 443.
    pub fn service(namespace: &str, name: &str, path: &str) -> Self {
        let service = json!({"namespace": namespace, "name": name, "path": path, "port": 443});
        Self { client_config: json!({"service": service}) }
    }

    /// At a URL, for an API server that is not in the cluster.
    pub fn url(url: &str) -> Self {
        Self { client_config: json!({"url": url}) }
    }

    /// The same, whose certificate these authorities vouch for.
    #[must_use]
    pub fn trusting(mut self, ca_pem: &str) -> Self {
        self.client_config["caBundle"] = BASE64_STANDARD.encode(ca_pem).into();
        self
    }

    /// `spec.conversion` of a CustomResourceDefinition.
    pub fn stanza(&self) -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": self.client_config, "conversionReviewVersions": ["v1"]},
        })
    }
}

/// The definitions of all kinds that a cluster keeps, with the newer version stored and the older one deprecated.
pub fn custom_resource_definitions(conversion: &ConversionWebhook) -> Vec<Value> {
    let kept = KINDS.iter().filter(|kind| matches!(kind.role, Role::Pipeline(_) | Role::Telemetry));
    kept.map(|kind| definition(kind, conversion)).collect()
}

fn definition(kind: &Kind, conversion: &ConversionWebhook) -> Value {
    let (plural, group) = (kind.plural(), kind.group());
    let (scope, short, categories) = match kind.role {
        Role::Telemetry => ("Namespaced", "tel", ["kyma-modules", "kyma-telemetry"]),
        _ => ("Cluster", short_name(kind.name), ["kyma-telemetry", "kyma-telemetry-pipelines"]),
    };
    let versions: Vec<_> = kind.versions.iter().map(|(_, version)| of_version(kind, *version)).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": kind.name,
                "listKind": format!("{}List", kind.name),
                "plural": plural,
                "singular": kind.name.to_lowercase(),
                "shortNames": [short],
                "categories": categories,
            },
            "versions": versions,
            "conversion": conversion.stanza(),
        },
    })
}

fn short_name(kind: &str) -> &'static str {
    match kind {
        "TracePipeline" => "tp",
        "MetricPipeline" => "mp",
        _ => "lp",
    }
}

fn of_version(kind: &Kind, version: Version) -> Value {
    let stored = version == Version::V1Beta1;
    let mut definition = json!({
        "name": version.name(),
        "served": true,
        "storage": stored,
        "subresources": {"status": {}},
        "additionalPrinterColumns": status::columns(kind, version),
        "schema": {"openAPIV3Schema": of_kind(kind, version)},
    });
    if !stored {
        // As `weir check` says it, so that nobody reads two versions of it.
        let [old, new] = [version, Version::V1Beta1].map(|version| format!("{}/{}", kind.group(), version.name()));
        definition["deprecated"] = true.into();
        definition["deprecationWarning"] = format!("apiVersion: {old} is deprecated; expected {new}").into();
    }
    definition
}

/// The schema of the objects of a kind. It has nothing of `metadata`, which is the business of the API server.
pub fn of_kind(kind: &Kind, version: Version) -> Value {
    let about = match kind.role {
        Role::Pipeline(signal) => format!("Takes {} to one backend.", signal.name()),
        _ => "Says what is added to all telemetry, and how often metrics are fetched.".to_owned(),
    };
    let of = kind.fields.map_or(Type::Any, Type::Object);
    let mut schema = of_type(of, "", version);
    schema["description"] = about.into();
    let of_metadata = json!({"type": "object"});
    let of_status = status::of_kind(kind);
    schema["properties"]["metadata"] = of_metadata;
    schema["properties"]["status"] = of_status;
    if let Some(required) = schema["required"].as_array_mut() {
        required.retain(|key| key == "spec");
        if required.is_empty() {
            schema.as_object_mut().into_iter().for_each(|schema| drop(schema.remove("required")));
        }
    }
    schema
}
