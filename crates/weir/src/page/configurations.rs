//! `/api/configuration`: what runs, and what became of the last configurations; `/api/configuration/NUMBER`: one of them, as
//! it was shown.

mod words;

use std::collections::{HashMap, VecDeque};
use std::io::Write as _;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use serde_json::{Map, Value, json};
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::{Changes, SetupError, Text, unix_nanos};
use weir_legible::{Names, line, rfc3339_millis, rfc3339_seconds};
use weir_plan::{Pipeline, PipelineId, Plan, Processing, Protocol};

use super::json::{Refusal, show};
use crate::changed_by::{ByPipeline, ChangedBy};
use crate::host::{Trigger, Version};

/// The path of one of them, before its number.
const PATH: &str = "/api/configuration/";

/// Configurations that are remembered.
const KEPT: usize = 50;
/// Names of pipelines (and who changed each), and characters of an error and of the name of a version, that are kept of
/// each.
const MOST_NAMES: usize = 100;
/// Pipelines that could not be set up of which the cause is kept, and characters of each cause.
const MOST_FAULTS: usize = 10;
const MOST_CAUSE: usize = 500;
const MOST_ERROR: usize = 4000;
const MOST_VERSION: usize = 64;
/// What is kept of configurations as they were shown, all together; the oldest make room.
const MOST_TEXT: usize = 256 << 10;
/// What is kept beside these, all together: names, who changed them, and errors. Of older configurations there is one
/// name of each list then, and the beginning of the error.
const MOST_DETAIL: usize = 256 << 10;
const SHORT_ERROR: usize = 200;

/// What rules say, by pipeline and field.
pub(super) type Texts = HashMap<(PipelineId, String), String>;

/// What is told with a plan, and does not stand in it.
#[derive(Debug)]
pub(crate) struct Provenance {
    /// Who changed its pipelines.
    pub(crate) changers: ByPipeline,
    /// What holds for the process for a while, in words: what the operator overrides.
    pub(crate) overrides: Vec<String>,
}

/// What runs, and what ran. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Configurations(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    pipelines: Vec<Pipeline>,
    changers: ByPipeline,
    /// What the process is told, whatever the pipeline.
    process: Vec<String>,
    /// The newest first.
    history: VecDeque<Event>,
    /// The number of the newest.
    last: u64,
}

/// What became of a configuration.
#[derive(Debug, Default)]
struct Event {
    number: u64,
    unix_ms: u64,
    what: &'static str,
    /// What brought it, and which state of the operator's Secret it is.
    brought_by: &'static str,
    version: Version,
    added: Names,
    changed: Names,
    removed: Names,
    /// Who changed those that are new or not as before, by their names.
    changed_by: Vec<(String, Arc<ChangedBy>)>,
    error: Option<String>,
    /// Pipelines that could not be set up as they are configured, and why.
    faults: Vec<(String, String)>,
    /// The fields of what it has, as they are shown: no secret is kept for longer than it is used.
    text: Option<String>,
}

impl Event {
    /// Nothing but what brought it.
    fn brought_by(trigger: &Trigger) -> Self {
        let short = |name: &String| match name.char_indices().nth(MOST_VERSION) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.clone(),
        };
        let version = trigger.version().map(|Version { revision, resource_version }| Version {
            revision: revision.as_ref().map(short),
            resource_version: resource_version.as_ref().map(short),
        });
        Self { brought_by: trigger.as_str(), version: version.unwrap_or_default(), ..Self::default() }
    }

    /// What its details take, in bytes.
    fn detail(&self) -> usize {
        let Self { added, changed, removed, changed_by, error, faults, .. } = self;
        let names = [added, changed, removed].into_iter().flat_map(|names| &names.named);
        let names: usize = names.map(|name| mem::size_of::<String>() + name.len()).sum();
        let changer = |(name, changer): &(String, Arc<ChangedBy>)| {
            mem::size_of::<(String, ChangedBy)>() + name.len() + changer.text_bytes()
        };
        let fault = |(name, cause): &(String, String)| mem::size_of::<(String, String)>() + name.len() + cause.len();
        let [changers, faults] = [changed_by.iter().map(changer).sum::<usize>(), faults.iter().map(fault).sum()];
        names + changers + faults + error.as_ref().map_or(0, String::len)
    }

    /// Keeps of its details what takes hardly anything.
    fn shorten(&mut self) {
        for names in [&mut self.added, &mut self.changed, &mut self.removed] {
            names.more += names.named.len().saturating_sub(1) as u64;
            names.named.truncate(1);
            names.named.shrink_to_fit();
        }
        self.changed_by = Vec::new();
        self.faults.truncate(1);
        self.faults.shrink_to_fit();
        if let Some(error) = &mut self.error
            && let Some((end, _)) = error.char_indices().nth(SHORT_ERROR)
        {
            *error = format!("{}…", &error[..end]);
        }
    }
}

impl Configurations {
    /// The process begins with this one.
    pub(crate) fn started(&self, plan: &Plan, provenance: Provenance, trigger: &Trigger, faults: &[SetupError]) {
        let ids = plan.pipelines.iter().map(|pipeline| &pipeline.id);
        let (added, changed_by) = (names(ids.clone()), changers_of(ids, &provenance.changers));
        let event = Event { what: "started", added, changed_by, ..Event::brought_by(trigger) };
        self.takes(plan, provenance, Event { faults: causes(faults), ..event });
    }

    /// Another one took its place.
    pub(crate) fn changed(&self, plan: &Plan, provenance: Provenance, changes: &Changes, trigger: &Trigger) {
        let Changes { added, changed, removed, faults } = changes;
        let [of_added, of_changed] = [added, changed].map(|ids| changers_of(ids, &provenance.changers));
        let changed_by = of_added.into_iter().chain(of_changed).collect();
        let (added, changed, removed) = (names(added), names(changed), names(removed));
        let event = Event { what: "changed", added, changed, removed, changed_by, ..Event::brought_by(trigger) };
        self.takes(plan, provenance, Event { faults: causes(faults), ..event });
    }

    /// Another one was there and is not used.
    pub(crate) fn refused(&self, error: &str, trigger: &Trigger) {
        let error = Some(error.chars().take(MOST_ERROR).collect());
        self.remember(Event { what: "refused", error, ..Event::brought_by(trigger) });
    }

    /// The pipelines that run, as they are configured.
    pub(super) fn pipelines(&self) -> Vec<Pipeline> {
        self.lock().pipelines.clone()
    }

    /// The pipeline of this name, as it is configured.
    pub(super) fn pipeline(&self, name: &str) -> Result<Pipeline, Refusal> {
        let mut all = self.pipelines().into_iter();
        all.find(|pipeline| pipeline.id.to_string() == name).ok_or_else(|| {
            let error = format!("there is no pipeline {name:?}: write it as traces/NAME");
            Refusal::new(StatusCode::NOT_FOUND, error)
        })
    }

    /// What conditions of filters say.
    pub(super) fn texts(&self) -> Texts {
        let state = self.lock();
        let texts = state.pipelines.iter().flat_map(|pipeline| {
            let filters = pipeline.processing.filters.iter().enumerate();
            filters.flat_map(move |(number, filter)| {
                filter.conditions.iter().enumerate().map(move |(line, text)| {
                    ((pipeline.id.clone(), format!("filter[{number}].conditions[{line}]")), text.clone())
                })
            })
        });
        texts.collect()
    }

    fn takes(&self, plan: &Plan, Provenance { changers, overrides }: Provenance, event: Event) {
        let process: Vec<_> = words::process(plan).into_iter().chain(overrides).collect();
        let pipelines: Value = plan.pipelines.iter().map(|of| pipeline(of, &changers)).collect();
        let text = format!(r#""process":{},"pipelines":{pipelines}"#, json!(process));
        let mut state = self.lock();
        state.pipelines.clone_from(&plan.pipelines);
        (state.changers, state.process) = (changers, process);
        drop(state);
        self.remember(Event { text: Some(text), ..event });
    }

    fn remember(&self, event: Event) {
        let mut state = self.lock();
        state.last += 1;
        let (number, unix_ms) = (state.last, unix_nanos() / 1_000_000);
        state.history.truncate(KEPT - 1);
        state.history.push_front(Event { number, unix_ms, ..event });
        let (mut room, mut room_of_detail) = (MOST_TEXT, MOST_DETAIL);
        for event in &mut state.history {
            match room.checked_sub(event.text.as_ref().map_or(0, String::len)) {
                Some(rest) => room = rest,
                None => event.text = None,
            }
            match room_of_detail.checked_sub(event.detail()) {
                Some(rest) => room_of_detail = rest,
                None => event.shorten(),
            }
        }
    }

    fn all(&self, body: &mut Text) -> Option<Shown> {
        let state = self.lock();
        let pipelines: Vec<_> = state.pipelines.iter().map(|of| pipeline(of, &state.changers)).collect();
        let history: Vec<_> = state.history.iter().map(event).collect();
        show(body, &json!({"process": state.process, "pipelines": pipelines, "history": history}))
    }

    fn one(&self, number: &str, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let state = self.lock();
        let text = state.history.iter().find(|of| of.number.to_string() == number).and_then(|of| of.text.as_ref());
        let text = text.ok_or_else(|| {
            let error =
                format!("nothing is kept at {PATH}{number}: /api/configuration lists those of which something is");
            Refusal::new(StatusCode::NOT_FOUND, error)
        })?;
        let shown = writeln!(body, r#"{{"number":{number},{text}}}"#);
        Ok(shown.ok().map(|()| Shown::JSON))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page for Configurations {
    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        match asked.path.strip_prefix(PATH).filter(|number| !number.is_empty()) {
            Some(number) => self.one(number, body).unwrap_or_else(|refusal| refusal.show(body)),
            None => self.all(body),
        }
    }
}

fn names<'a>(ids: impl IntoIterator<Item = &'a PipelineId>) -> Names {
    Names::first(MOST_NAMES, ids)
}

/// What could not be set up, by the names of pipelines.
fn causes(faults: &[SetupError]) -> Vec<(String, String)> {
    let cause = |SetupError { pipeline, cause }: &SetupError| (pipeline.to_string(), line(cause, MOST_CAUSE));
    faults.iter().take(MOST_FAULTS).map(cause).collect()
}

/// Who changed these, as far as their names are kept and it is known.
fn changers_of<'a>(
    ids: impl IntoIterator<Item = &'a PipelineId>,
    changers: &ByPipeline,
) -> Vec<(String, Arc<ChangedBy>)> {
    let known = |id: &PipelineId| Some((id.to_string(), Arc::clone(changers.get(id)?)));
    ids.into_iter().take(MOST_NAMES).filter_map(known).collect()
}

fn event(of: &Event) -> Value {
    let Event { number, unix_ms, what, brought_by, version, added, changed, removed, changed_by, .. } = of;
    let Event { error, faults, text, .. } = of;
    let faults: Vec<_> = faults.iter().map(|(pipeline, cause)| json!({"pipeline": pipeline, "cause": cause})).collect();
    let Version { revision, resource_version } = version;
    let changed_by: Map<_, _> =
        changed_by.iter().filter_map(|(name, changer)| Some((name.clone(), changer.value()?))).collect();
    json!({
        "number": number, "at": rfc3339_millis(*unix_ms), "what": what, "by": brought_by, "revision": revision,
        "resource_version": resource_version, "added": added.named, "changed": changed.named, "removed": removed.named,
        "left_out": {"added": added.more, "changed": changed.more, "removed": removed.more}, "changed_by": changed_by,
        "error": error, "faults": faults, "is_kept": text.is_some(),
    })
}

fn pipeline(of: &Pipeline, changers: &ByPipeline) -> Value {
    let output = &of.output;
    let scheme = match (output.protocol, output.tls.is_some()) {
        (Protocol::Grpc, false) => "grpc",
        (Protocol::Grpc, true) => "grpcs",
        (Protocol::Http, false) => "http",
        (Protocol::Http, true) => "https",
    };
    // The path is not shown: it may be secret.
    let backend = if output.is_remote() {
        format!("{scheme}://{}:{}", output.endpoint.host, output.endpoint.port)
    } else {
        output.destination()
    };
    let identity = output.tls.as_ref().and_then(|tls| tls.identity.as_ref());
    let changer = changers.get(&of.id);
    let secrets = changer.and_then(|changer| changer.secret_versions());
    let ends = identity.and_then(|identity| weir_resources::certificate_expires(&identity.cert_pem));
    json!({
        "pipeline": of.id.to_string(), "inputs": words::inputs(&of.input), "rules": rules(&of.processing),
        "backend": backend, "settings": words::settings(of), "secrets": secrets,
        "changed_by": changer.and_then(|changer| changer.value()), "certificate_ends_at": ends.map(rfc3339_seconds),
    })
}

fn rules(processing: &Processing) -> Vec<Value> {
    let Processing { transforms, filters, sections, temporality: _ } = processing;
    let mut rules = Vec::new();
    let mut add = |field: String, texts: &[String]| {
        let rule = |(line, text): (usize, &String)| json!({"field": format!("{field}[{line}]"), "text": text});
        rules.extend(texts.iter().enumerate().map(rule));
    };
    for (number, rule) in transforms.iter().enumerate() {
        add(format!("transform[{number}].conditions"), &rule.conditions);
        add(format!("transform[{number}].statements"), &rule.statements);
    }
    for (number, rule) in filters.iter().enumerate() {
        add(format!("filter[{number}].conditions"), &rule.conditions);
    }
    rules.extend(
        (0..sections.len())
            .map(|number| json!({"field": format!("filters[{number}]"), "text": "a filter of Fluent Bit"})),
    );
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: usize) -> Names {
        Names { named: (0..MOST_NAMES).map(|number| format!("{number:0>bytes$}")).collect(), more: 7 }
    }

    /// With names of that many bytes.
    fn of_names(bytes: usize) -> Event {
        let changer = Arc::new(ChangedBy::File { path: "x".repeat(bytes), unix_seconds: None });
        let changed_by = names(bytes).named.into_iter().map(|name| (name, Arc::clone(&changer))).collect();
        let [added, changed, removed] = [(); 3].map(|()| names(bytes));
        let error = Some("é".repeat(MOST_ERROR));
        Event { what: "changed", added, changed, removed, changed_by, error, ..Event::default() }
    }

    #[test]
    fn what_is_kept_of_all_configurations_together_is_limited() {
        let configurations = Configurations::default();
        (0..2 * KEPT).for_each(|_| configurations.remember(of_names(253)));
        let state = configurations.lock();
        let bytes: usize = state.history.iter().map(Event::detail).sum();
        assert!(state.history.len() == KEPT && bytes < MOST_DETAIL + KEPT * 2_000, "{bytes} bytes");
        let (newest, oldest) = (&state.history[0], &state.history[KEPT - 1]);
        assert_eq!((&newest.removed, newest.changed_by.len()), (&names(253), MOST_NAMES));
        for names in [&oldest.added, &oldest.changed, &oldest.removed] {
            assert_eq!((names.named.len(), names.more), (1, 7 + MOST_NAMES as u64 - 1));
        }
        let error = oldest.error.as_ref().unwrap().chars().count();
        assert_eq!((oldest.changed_by.len(), error), (0, SHORT_ERROR + 1));
    }

    #[test]
    fn nothing_is_left_out_of_what_is_usual() {
        let configurations = Configurations::default();
        let usual = || Event { added: Names::first(MOST_NAMES, ["traces/shop"; 9]), ..Event::default() };
        (0..KEPT).for_each(|_| configurations.remember(usual()));
        configurations.refused(&"x".repeat(1000), &Trigger::Start);
        let state = configurations.lock();
        assert!(state.history.iter().skip(1).all(|event| event.added.named.len() == 9));
        assert_eq!(state.history[0].error.as_ref().unwrap().len(), 1000);
    }
}
