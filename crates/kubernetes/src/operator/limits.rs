//! What one pipeline, and all of them together, may ask of the operator and the nodes. Whoever may write pipelines must not
//! be able to keep those of others from running: the oldest go first, and what is left out says so.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_plan::{MEMORY_PER_PIPELINE, PipelineId, Signal};

use super::object::text;
use super::options::Options;
use super::picture::SecretName;
use super::references;
use super::verdict::{Finding, Verdict};

/// The spec of a pipeline, in JSON. Large ones have a few hundred statements.
pub(crate) const MAX_SPEC_BYTES: usize = 256 << 10;
/// The values of Secrets that one pipeline refers to, in base64. Chains of certificates have a few KiB.
const MAX_VALUES_BYTES: usize = 256 << 10;
/// Where the size of a spec is that was too large to keep.
pub(crate) const TOO_LARGE: &str = "tooLarge";
/// Secrets that one pipeline refers to.
const MAX_REFERENCES: usize = 64;
/// Secrets that are watched: fifty of them share a connection to the API server.
const MAX_SECRETS: usize = 1500;
/// What nodes have without a limit, as `weir run` has it.
const MEMORY_WITHOUT_LIMIT: usize = 512 << 20;

/// Pipelines that must not run, and why.
pub(crate) fn exceeding(pipelines: &[(&PipelineId, &Value)], options: &Options) -> BTreeMap<PipelineId, Verdict> {
    let mut by_age = pipelines.to_vec();
    let created = |object: &Value| text(object, "/metadata/creationTimestamp").map(str::to_owned);
    by_age.sort_by_cached_key(|(id, object)| (created(object), (*id).clone()));
    let mut left_out = BTreeMap::new();
    let mut room = Room::new(options);
    for (id, object) in by_age {
        if let Err(finding) = room.admit(id, object) {
            left_out.insert(id.clone(), Verdict::refused(finding));
        }
    }
    left_out
}

/// What is left for younger pipelines.
struct Room<'a> {
    options: &'a Options,
    of_signal: BTreeMap<Signal, usize>,
    of_memory: usize,
    most: usize,
    secrets: BTreeSet<SecretName>,
}

impl<'a> Room<'a> {
    fn new(options: &'a Options) -> Self {
        let most = most_pipelines(options);
        Self { options, of_signal: BTreeMap::new(), of_memory: most, most, secrets: BTreeSet::new() }
    }

    fn admit(&mut self, id: &PipelineId, object: &Value) -> Result<(), Finding> {
        let invalid = |message: String| Err(Finding { reason: "ValidationFailed", message });
        let too_many = |message: String| Err(Finding { reason: "MaxPipelinesExceeded", message });
        if let Some(bytes) = object.get(TOO_LARGE) {
            return invalid(too_large(bytes.as_u64().unwrap_or_default()));
        }
        let references: BTreeSet<_> = references::of(object).into_keys().collect();
        if references.len() > MAX_REFERENCES {
            return invalid(format!("It refers to {} Secrets; at most {MAX_REFERENCES} are allowed", references.len()));
        }
        let count = self.of_signal.entry(id.signal).or_default();
        if let Some(max) = self.options.max_pipelines.filter(|max| *count >= *max) {
            return too_many(format!(
                "Maximum pipeline count limit exceeded: the {max} oldest of this kind run (--max-pipelines)"
            ));
        }
        if self.of_memory == 0 {
            return too_many(format!(
                "Maximum pipeline count limit exceeded: the memory of the nodes is enough for {} pipelines, and the oldest run; \
                 give the nodes more (--node-resources)",
                self.most
            ));
        }
        let more = references.difference(&self.secrets).count();
        if self.secrets.len() + more > MAX_SECRETS {
            return invalid(format!(
                "Pipelines refer to more than {MAX_SECRETS} Secrets, and older ones go first; put values that belong \
                 together into one Secret"
            ));
        }
        *count += 1;
        self.of_memory -= 1;
        self.secrets.extend(references);
        Ok(())
    }
}

/// What is said of a spec with so many bytes.
pub(crate) fn too_large(bytes: u64) -> String {
    let (bytes, most) = (bytes >> 10, MAX_SPEC_BYTES >> 10);
    format!("The spec has {bytes} KiB; at most {most} KiB are allowed: make several pipelines of it")
}

/// What is wrong with the values of Secrets that a pipeline refers to, if anything is.
pub(crate) fn of_values(secrets: &[Value]) -> Result<(), String> {
    let bytes: usize = secrets.iter().map(|secret| secret["data"].to_string().len()).sum();
    if bytes <= MAX_VALUES_BYTES {
        return Ok(());
    }
    let (bytes, most) = (bytes >> 10, MAX_VALUES_BYTES >> 10);
    Err(format!("The values of Secrets that it refers to have {bytes} KiB in base64; at most {most} KiB are allowed"))
}

/// So many pipelines can run on every node.
pub(crate) fn most_pipelines(options: &Options) -> usize {
    memory_of_nodes(options) / MEMORY_PER_PIPELINE
}

/// `--memory` of the process with the least of it, in bytes.
fn memory_of_nodes(options: &Options) -> usize {
    let replicas = options.scale.gateway.iter().map(|replicas| &replicas.resources);
    let limits = [&options.resources].into_iter().chain(replicas).filter_map(|resources| {
        let limit = usize::try_from(weir_units::quantity::size(text(resources, "/limits/memory")?).ok()?).ok()?;
        Some(limit / 4 * 3)
    });
    let said = said(&options.node_args);
    said.or_else(|| limits.min()).unwrap_or(MEMORY_WITHOUT_LIMIT)
}

/// `--memory` among arguments.
fn said(args: &[String]) -> Option<usize> {
    let mut args = args.iter();
    let mut said = None;
    while let Some(arg) = args.next() {
        let value = match arg.strip_prefix("--memory") {
            Some("") => args.next().map(String::as_str),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        said = value.and_then(|value| usize::try_from(weir_units::quantity::size(value).ok()?).ok()).or(said);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_nodes_is_what_their_processes_are_given() {
        let args = |args: &[&str]| said(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        assert_eq!(args(&["--memory", "256MiB"]), Some(256 << 20));
        assert_eq!(args(&["--fsync=never", "--memory=1GiB"]), Some(1 << 30));
        assert_eq!(args(&["--memory-other=1GiB", "--memory"]), None);
    }
}
