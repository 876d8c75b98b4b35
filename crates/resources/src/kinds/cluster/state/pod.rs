//! The state of a pod and its containers.

use weir_plan::{ContainerState, PodState, RunState};

use super::{amounts, items, number, part, word};
use crate::document::{Fields, Node};

/// States of a container, which are the keys of mappings.
const STATES: [&str; 3] = ["running", "terminated", "waiting"];

pub(super) fn decode(document: &mut Fields<'_>) -> PodState {
    let (mut spec, mut status) = (part(document, "spec"), part(document, "status"));
    let statuses = status.as_mut().map(|status| items(status, "containerStatuses")).unwrap_or_default();
    let statuses: Vec<_> = statuses.iter().filter_map(run_state).collect();
    let containers = spec.as_mut().map(|spec| items(spec, "containers")).unwrap_or_default();
    let mut of_status = |key| status.as_mut().map(|status| word(status, key)).unwrap_or_default();
    PodState {
        phase: of_status("phase"),
        reason: of_status("reason"),
        node: spec.as_mut().map(|spec| word(spec, "nodeName")).unwrap_or_default(),
        containers: containers.iter().filter_map(|node| container(node, &statuses)).collect(),
    }
}

fn container(node: &Node<'_>, statuses: &[(String, RunState)]) -> Option<ContainerState> {
    let mut fields = node.part()?;
    let name = word(&mut fields, "name");
    let mut resources = part(&mut fields, "resources");
    let mut of = |key| resources.as_mut().map(|resources| amounts(resources, key)).unwrap_or_default();
    let (requests, limits) = (of("requests"), of("limits"));
    let run = statuses.iter().find(|(of, _)| *of == name).map(|(_, run)| run.clone());
    Some(ContainerState { name, requests, limits, run })
}

/// How the container of this name runs.
fn run_state(node: &Node<'_>) -> Option<(String, RunState)> {
    let mut fields = node.part()?;
    let mut states = part(&mut fields, "state");
    let mut found = STATES.into_iter().filter_map(|name| Some((name, states.as_mut()?.optional(name)?)));
    let (state, reason) = match found.next() {
        Some((name, node)) => (name, node.part().map(|mut fields| word(&mut fields, "reason")).unwrap_or_default()),
        None => ("", String::new()),
    };
    let run = RunState {
        container_id: word(&mut fields, "containerID"),
        image: word(&mut fields, "image"),
        ready: fields.optional("ready").and_then(|node| node.boolean()).unwrap_or(false),
        restarts: number(&mut fields, "restartCount").unwrap_or_default(),
        state,
        reason,
    };
    Some((word(&mut fields, "name"), run))
}
