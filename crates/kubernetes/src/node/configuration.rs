//! What the operator tells the nodes: the Secret, and the copy of it on a node's disk.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};
use weir_plan::PipelineId;

use crate::changed_by::{self, Origin, Origins};
use crate::operator::configuration::{KEY, SETTINGS};
use crate::operator::names::REVISION;
use crate::packed::unpack;

/// What a configuration of files may have.
const MAX_BYTES: u64 = weir_resources::MAX_BYTES;

/// A configuration as the operator wrote it. Two that say the same are equal, whatever the API server calls them, and whoever
/// wrote what they say.
#[derive(Clone)]
pub struct Configuration {
    /// Which one; the operator asks for it.
    pub revision: String,
    /// What the API server calls this state of the Secret; `None` if nobody wrote that down.
    pub resource_version: Option<String>,
    /// The documents that a file would have. They hold secrets.
    pub text: String,
    /// What is no document.
    pub settings: Settings,
    /// Who changed pipelines, and of which versions of Secrets their values are, as far as the operator says.
    pub changed_by: BTreeMap<PipelineId, Origin>,
    packed: Vec<u8>,
}

/// What holds for the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// The level of the log, `error` to `debug`; `None`: as the command line says.
    pub log_level: Option<String>,
    /// Whether nodes read what they print themselves.
    pub collect_agent_logs: bool,
}

/// A configuration on a disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    revision: String,
    /// Older versions have none.
    #[serde(default)]
    resource_version: Option<String>,
    settings: Settings,
    /// In base64.
    packed: String,
    /// As the Secret has it, in base64. Older versions have none.
    #[serde(default)]
    changed_by: Option<String>,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configuration").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl PartialEq for Configuration {
    fn eq(&self, other: &Self) -> bool {
        // The text is what is packed.
        self.revision == other.revision && self.settings == other.settings && self.packed == other.packed
    }
}

impl Eq for Configuration {}

impl Configuration {
    /// Reads the Secret.
    ///
    /// # Errors
    /// What is wrong with it; nothing of its values is in the message.
    pub(super) fn of(secret: Secret) -> Result<Self, String> {
        let (mut data, metadata) = (secret.data.unwrap_or_default(), secret.metadata);
        let revision = metadata.annotations.unwrap_or_default().remove(REVISION).unwrap_or_default();
        let packed = data.remove(KEY).ok_or_else(|| format!("the Secret has no key {KEY}"))?.0;
        let settings = match data.remove(SETTINGS) {
            Some(settings) => serde_json::from_slice(&settings.0)
                .map_err(|_| format!("the key {SETTINGS} of the Secret is not as the operator writes it"))?,
            None => Settings::default(),
        };
        // What cannot be read of that is not known, and keeps nothing from running.
        let changed_by = data.remove(changed_by::KEY).and_then(|packed| changed_by::unpacked(&packed.0));
        Self::new((revision, metadata.resource_version), settings, packed, changed_by)
    }

    fn new(
        (revision, resource_version): (String, Option<String>),
        settings: Settings,
        packed: Vec<u8>,
        changed_by: Option<Origins>,
    ) -> Result<Self, String> {
        let text = unpack(&packed, MAX_BYTES).map_err(|error| format!("the key {KEY} {error}"))?;
        let text = String::from_utf8(text).map_err(|error| format!("the key {KEY} is no text: {error}"))?;
        let changed_by = changed_by.unwrap_or_default();
        Ok(Self { revision, resource_version, text, settings, changed_by, packed })
    }

    /// The copy for the disk. It holds secrets.
    pub fn stored(&self) -> Vec<u8> {
        let (revision, resource_version) = (self.revision.clone(), self.resource_version.clone());
        let (settings, packed) = (self.settings.clone(), BASE64_STANDARD.encode(&self.packed));
        let changed_by = Some(BASE64_STANDARD.encode(changed_by::packed(&self.changed_by)));
        let stored = Stored { revision, resource_version, settings, packed, changed_by };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Reads such a copy.
    ///
    /// # Errors
    /// When it is none.
    pub fn of_stored(bytes: &[u8]) -> Result<Self, String> {
        // The text of the error might show a part of it.
        let stored: Stored = serde_json::from_slice(bytes).map_err(|_| "it is no configuration".to_owned())?;
        let packed = BASE64_STANDARD.decode(stored.packed).map_err(|_| "it is no configuration".to_owned())?;
        let changed_by = stored.changed_by.and_then(|packed| BASE64_STANDARD.decode(packed).ok());
        let changed_by = changed_by.and_then(|packed| changed_by::unpacked(&packed));
        Self::new((stored.revision, stored.resource_version), stored.settings, packed, changed_by)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Arc;

    use k8s_openapi::ByteString;
    use serde_json::json;
    use weir_plan::Signal;

    use super::*;
    use crate::changed_by::Manager;
    use crate::operator::configuration::{self, Part};

    fn changed_by() -> Origins {
        let [manager, operation, time] = ["helm", "Update", "2026-11-29T10:00:00Z"].map(str::to_owned);
        let secret_versions = Some(BTreeMap::from([("shop/backend".to_owned(), "812".to_owned())]));
        let origin = Origin { manager: Some(Manager { manager, operation, time }), secret_versions };
        Origins::from([(PipelineId::new(Signal::Traces, "shop"), origin)])
    }

    fn secret() -> Secret {
        let pipeline = json!({"apiVersion": "a/v1", "kind": "TracePipeline", "metadata": {"name": "shop"}});
        let part = Part { pipeline, secrets: Vec::new(), is_old: false }.into();
        let (mut configuration, _) = configuration::Configuration::new(None, &[&part]);
        configuration.changed_by = Arc::new(changed_by());
        let settings = json!({"logLevel": "debug", "collectAgentLogs": true, "later": 1});
        serde_json::from_value(configuration.manifest("kyma-system", &settings, json!({}))).unwrap()
    }

    #[test]
    fn what_the_operator_writes_is_read_and_kept_on_the_disk() {
        let read = Configuration::of(secret()).unwrap();
        assert_eq!(read.revision.len(), 16);
        assert!(read.text.contains("TracePipeline"));
        assert_eq!(read.settings, Settings { log_level: Some("debug".to_owned()), collect_agent_logs: true });
        assert_eq!(read.changed_by, changed_by());
        let kept = Configuration::of_stored(&read.stored()).unwrap();
        assert_eq!((&kept, &kept.changed_by), (&read, &read.changed_by));
        assert!(Configuration::of_stored(b"{").is_err());
    }

    /// Otherwise a node would take it up anew whenever somebody touches a label of the Secret.
    #[test]
    fn what_the_api_server_calls_it_is_kept_and_makes_no_difference() {
        let of = |version: &str| {
            let mut secret = secret();
            secret.metadata.resource_version = Some(version.to_owned());
            Configuration::of(secret).unwrap()
        };
        assert_eq!(of("7"), of("8"));
        let kept = Configuration::of_stored(&of("7").stored()).unwrap();
        assert_eq!(kept.resource_version.as_deref(), Some("7"));
        let mut old: serde_json::Value = serde_json::from_slice(&of("7").stored()).unwrap();
        old.as_object_mut().unwrap().remove("resource_version").unwrap();
        let old = Configuration::of_stored(old.to_string().as_bytes()).unwrap();
        assert_eq!((&old, old.resource_version.as_deref()), (&of("7"), None), "a copy of an older version is read");
    }

    /// Operators and nodes of two versions are there together while a cluster is updated.
    #[test]
    fn whether_it_says_who_changed_pipelines_makes_no_difference() {
        let with = |value: Option<&[u8]>| {
            let mut secret = secret();
            let data = secret.data.as_mut().unwrap();
            data.remove(changed_by::KEY).unwrap();
            data.extend(value.map(|value| (changed_by::KEY.to_owned(), ByteString(value.to_vec()))));
            Configuration::of(secret).unwrap()
        };
        for other in [with(None), with(Some(b"hunter2"))] {
            assert_eq!((&other, other.changed_by.len()), (&Configuration::of(secret()).unwrap(), 0));
        }
        let mut old: serde_json::Value = serde_json::from_slice(&with(None).stored()).unwrap();
        old.as_object_mut().unwrap().remove("changed_by").unwrap();
        let old = Configuration::of_stored(old.to_string().as_bytes()).unwrap();
        assert_eq!((&old, old.changed_by.len()), (&with(None), 0), "a copy of an older version is read");
    }

    #[test]
    fn a_secret_that_is_wrong_is_refused_without_its_values() {
        let with = |key: &str, value: &[u8]| {
            let mut secret = secret();
            let data: &mut BTreeMap<_, _> = secret.data.get_or_insert_default();
            data.insert(key.to_owned(), ByteString(value.to_vec()));
            Configuration::of(secret).unwrap_err()
        };
        for error in [with(KEY, b"hunter2"), with(SETTINGS, b"hunter2")] {
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(Configuration::of(Secret::default()).unwrap_err().contains("no key"));
        // A small text that becomes a large one.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::copy(&mut std::io::repeat(b' ').take(MAX_BYTES + 1), &mut encoder).unwrap();
        assert!(with(KEY, &encoder.finish().unwrap()).contains("more than"));
    }
}
