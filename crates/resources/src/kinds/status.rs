//! `status` of a pipeline or a Telemetry, which an operator writes there: what metrics tell of it.
//!
//! It configures nothing. So nothing is reported of it, and what is not of the usual form is left out.

use weir_plan::{Condition, ResourceStatus};

use crate::document::{Fields, Node};
use crate::kinds::{Kind, Role};

/// The status of a document of this kind, if it has one.
pub(crate) fn decode(kind: &Kind, document: &Node<'_>) -> Option<ResourceStatus> {
    if !matches!(kind.role, Role::Pipeline(_) | Role::Telemetry) {
        return None;
    }
    let mut document = document.part()?;
    let mut metadata = document.optional("metadata")?.part()?;
    let mut status = document.optional("status")?.part()?;
    let conditions = status.optional("conditions").map(|node| node.items()).unwrap_or_default();
    // Tools of the Kyma Telemetry module ask for the current version, whatever a document is written in.
    let version = kind.versions.first().and_then(|(api_version, _)| api_version.split_once('/'));
    Some(ResourceStatus {
        group: kind.group().to_owned(),
        version: version.map(|(_, version)| version.to_owned())?,
        resource: kind.plural(),
        name: text(&mut metadata, "name")?,
        namespace: text(&mut metadata, "namespace").unwrap_or_default(),
        state: text(&mut status, "state"),
        conditions: conditions.iter().filter_map(condition).collect(),
    })
}

fn condition(node: &Node<'_>) -> Option<Condition> {
    let mut fields = node.part()?;
    let mut text = |key| text(&mut fields, key);
    Some(Condition { kind: text("type")?, status: text("status")?, reason: text("reason")? })
}

fn text(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    fields.optional(key)?.text().map(str::to_owned)
}
