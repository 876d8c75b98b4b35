//! Who changed pipelines last, and which versions of Secrets their values are from: the operator reads it from objects and
//! tells nodes, which show it. Nothing that runs depends on it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_plan::PipelineId;

use crate::operator::object::is_our_annotation;
use crate::packed::{pack, unpack};

/// The key of the operator's Secret that has it. Nodes of older versions do not look at it.
pub(crate) const KEY: &str = "changed-by.json.gz";

/// Where it is in an object that is kept.
pub(crate) const KEPT: &str = "changedBy";

/// Of the text: enough for some thousands of pipelines.
const MAX_BYTES: u64 = 1 << 20;
/// An API server takes no longer name of a manager, and a time or an operation is shorter.
const MAX_WORD: usize = 128;
/// A namespace and a name, with a slash between them.
const MAX_SECRET: usize = 2 * 253 + 1;

/// What the newest entry of `metadata.managedFields` says that has something of the specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manager {
    /// Who wrote, as it calls itself: `helm`, `kubectl-client-side-apply`.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// When, in RFC 3339.
    pub time: String,
}

/// Where what nodes get of a pipeline comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Who changed it last, if that is known.
    #[serde(flatten)]
    pub manager: Option<Manager>,
    /// Of each Secret that it refers to, as `NAMESPACE/NAME`, the `resourceVersion` in which it had the values that nodes got,
    /// if that is known; `None` if the operator is of a version that does not say.
    #[serde(default, rename = "secrets", skip_serializing_if = "Option::is_none")]
    pub secret_versions: Option<BTreeMap<String, String>>,
}

/// Of the pipelines that nodes get.
pub(crate) type Origins = BTreeMap<PipelineId, Origin>;

impl Manager {
    /// Nothing if no entry has a part in what the pipeline is: statuses and labels are none.
    pub(crate) fn of(fields: Vec<ManagedFieldsEntry>) -> Option<Self> {
        let counts = |entry: &ManagedFieldsEntry| {
            let is_whole = entry.subresource.as_deref().is_none_or(str::is_empty);
            is_whole && entry.fields_v1.as_ref().is_some_and(|fields| is_of_pipeline(&fields.0))
        };
        let time = |entry: &ManagedFieldsEntry| entry.time.as_ref().map(|time| time.0);
        let newest = fields.into_iter().filter(counts).max_by_key(time)?;
        let time = time(&newest)?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Some(Self { manager: newest.manager?, operation: newest.operation?, time })
    }

    /// The one small line that is kept of an object's `managedFields`, which may be larger than all the rest of it.
    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What is kept of an object.
    pub(crate) fn kept(object: &Value) -> Option<Self> {
        serde_json::from_str(object.get(KEPT)?.as_str()?).ok()
    }
}

impl Origin {
    fn is_short(&self) -> bool {
        let mut words = self.manager.iter().flat_map(|by| [&by.manager, &by.operation, &by.time]);
        let mut versions = self.secret_versions.iter().flatten();
        words.all(|word| word.len() <= MAX_WORD)
            && versions.all(|(secret, version)| secret.len() <= MAX_SECRET && version.len() <= MAX_WORD)
    }
}

/// Annotations of ours change what a pipeline does, too.
fn is_of_pipeline(fields: &Value) -> bool {
    let annotations = fields.pointer("/f:metadata/f:annotations").and_then(Value::as_object);
    let mut keys = annotations.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("f:"));
    fields.get("f:spec").is_some() || keys.any(is_our_annotation)
}

/// As the Secret has it; equal ones become equal bytes. Without the versions of Secrets if that is too long to be read: a
/// few pipelines may refer to many.
pub(crate) fn packed(all: &Origins) -> Vec<u8> {
    let text = |has_versions: bool| {
        let short = |origin: &Origin| Origin { secret_versions: None, ..origin.clone() };
        let kept = |origin: &Origin| if has_versions { origin.clone() } else { short(origin) };
        let texts: BTreeMap<_, _> = all.iter().map(|(id, origin)| (id.to_string(), kept(origin))).collect();
        serde_json::to_vec(&texts).unwrap_or_default()
    };
    let whole = text(true);
    pack(&if whole.len() as u64 > MAX_BYTES { text(false) } else { whole })
}

/// Nothing if it cannot be read, or is longer than it may be.
pub(crate) fn unpacked(packed: &[u8]) -> Option<Origins> {
    let all: BTreeMap<String, Origin> = serde_json::from_slice(&unpack(packed, MAX_BYTES).ok()?).ok()?;
    let short = all.into_iter().filter(|(_, origin)| origin.is_short());
    Some(short.filter_map(|(id, origin)| Some((id.parse().ok()?, origin))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_plan::Signal;

    use super::*;

    #[test]
    fn versions_of_very_many_secrets_do_not_hide_who_changed_pipelines() {
        let manager =
            Manager { manager: "helm".into(), operation: "Apply".into(), time: "2026-11-29T10:00:00Z".into() };
        let secret = |number: usize| (format!("{}/{number}", "n".repeat(400)), "7".to_owned());
        let versions: BTreeMap<_, _> = (0..64).map(secret).collect();
        let all = |count: usize| -> Origins {
            let origin = Origin { manager: Some(manager.clone()), secret_versions: Some(versions.clone()) };
            (0..count).map(|index| (PipelineId::new(Signal::Logs, format!("p{index}")), origin.clone())).collect()
        };
        let read = unpacked(&packed(&all(2))).unwrap();
        assert_eq!(read, all(2));
        let read = unpacked(&packed(&all(50))).unwrap();
        assert_eq!(read.len(), 50);
        assert!(read.values().all(|of| of.manager.is_some() && of.secret_versions.is_none()));
    }

    /// An entry of a second on the same day.
    fn entry(manager: &str, second: u32, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": "Update", "time": format!("2026-11-29T10:00:{second:02}Z"),
            "apiVersion": "telemetry.kyma-project.io/v1beta1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn manager(entries: &[&Value]) -> Option<String> {
        let read = |entry: &&Value| serde_json::from_value::<ManagedFieldsEntry>((*entry).clone()).unwrap();
        Manager::of(entries.iter().map(read).collect()).map(|by| by.manager)
    }

    #[test]
    fn the_newest_that_has_a_part_in_the_pipeline_counts() {
        let spec = json!({ "f:spec": { "f:output": { "f:otlp": {} } } });
        let annotation = |key: &str| json!({ "f:metadata": { "f:annotations": { ".": {}, key: {} } } });
        let (apply, helm) = (entry("kubectl-client-side-apply", 7, &spec), entry("helm", 3, &spec));
        let mut status = entry("telemetry-manager", 9, &json!({ "f:status": { "f:conditions": {} } }));
        status["subresource"] = json!("status");
        let labels = entry("kubectl-label", 9, &json!({ "f:metadata": { "f:labels": {} } }));
        let others = entry("kubectl-annotate", 9, &annotation("f:example.com/team"));
        let ours = entry("kubectl-annotate", 8, &annotation("f:weir.dev/multiline"));
        let all = [&apply, &helm, &status, &labels, &others];
        assert_eq!(manager(&all).as_deref(), Some("kubectl-client-side-apply"));
        assert_eq!(manager(&[&apply, &ours, &helm]).as_deref(), Some("kubectl-annotate"), "it changes the pipeline");
        assert_eq!(manager(&[&status, &labels, &others]), None);
        let mut timeless = apply.clone();
        timeless.as_object_mut().unwrap().remove("time");
        assert_eq!(manager(&[&timeless, &helm]).as_deref(), Some("helm"));
        assert_eq!(manager(&[&timeless]), None);
    }

    #[test]
    fn what_is_packed_is_read_and_anything_else_is_not_known() {
        let by = |manager: &str| Manager {
            manager: manager.to_owned(),
            operation: "Apply".to_owned(),
            time: "2026-11-29T10:00:00Z".to_owned(),
        };
        let of = |manager: &str| Origin { manager: Some(by(manager)), secret_versions: None };
        let id = |name| PipelineId::new(Signal::Logs, name);
        let secret_versions = Some(BTreeMap::from([("shop/backend".to_owned(), "812".to_owned())]));
        let all = Origins::from([
            (id("a"), of("helm")),
            (id("b"), Origin { secret_versions: secret_versions.clone(), ..of("argocd-controller") }),
            (id("c"), Origin { manager: None, secret_versions }),
            (id("d"), Origin { manager: None, secret_versions: Some(BTreeMap::new()) }),
        ]);
        assert_eq!(unpacked(&packed(&all)), Some(all.clone()));
        assert_eq!(Manager::kept(&json!({ KEPT: by("helm").line() })), Some(by("helm")));
        for wrong in [b"".to_vec(), b"hunter2".to_vec(), pack(b"[]"), pack(&vec![b' '; 2 << 20])] {
            assert_eq!(unpacked(&wrong), None);
        }
        let later = pack(br#"{"events/a": {"manager": "m", "operation": "Apply", "time": "t"}}"#);
        assert_eq!(unpacked(&later), Some(Origins::new()), "a later version may know more signals");
        let older = pack(br#"{"logs/a": {"manager": "helm", "operation": "Apply", "time": "2026-11-29T10:00:00Z"}}"#);
        assert_eq!(
            unpacked(&older),
            Some(Origins::from([(id("a"), of("helm"))])),
            "no versions are known, not even of none"
        );
        let version = |text: String| Some(BTreeMap::from([("shop/backend".to_owned(), text)]));
        let long = Origins::from([
            (id("a"), of(&"m".repeat(200))),
            (id("b"), of("helm")),
            (id("c"), Origin { manager: None, secret_versions: version("8".repeat(200)) }),
        ]);
        assert_eq!(unpacked(&packed(&long)).unwrap().into_keys().collect::<Vec<_>>(), [id("b")]);
    }
}
