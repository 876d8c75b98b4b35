//! `/api/taps`: what passes a pipeline, live. A tap is opened with POST, asked with GET, and closed with DELETE.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use weir_engine::Text;
use weir_engine::admin::{AUDIT, Asked, Page, Readers, Shown};
use weir_engine::taps::{Caught, Edge, Reading, RulePlace, TapFigures, Taps, Way, WayAndTime, Wish};
use weir_legible::rfc3339_millis;
use weir_plan::{Pipeline, PipelineId, Signal};

use super::configurations::Texts;
use super::json::{Refusal, document, parameters, show, whole};
use crate::page::Configurations;

/// How long a tap may be open, in seconds, and how many items a second it may catch.
const MOST_SECONDS: u64 = 900;
const MOST_PER_SECOND: u32 = 200;
/// The path, with what stands before a tap's number.
const PATH: &str = "/api/taps/";
/// What a tap's number, and when it ends, take in an answer.
const NUMBER_BYTES: usize = 128;
/// All pipelines; after a signal and `/`, all of that signal.
const ANY: &str = "*";

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct TapsPage {
    taps: Taps,
    configurations: Configurations,
    /// What was asked for, by the numbers of taps.
    wishes: Arc<Mutex<BTreeMap<u64, Opened>>>,
    readers: Arc<Readers>,
}

/// What a client wants to see.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opened {
    pipeline: String,
    #[serde(default)]
    edge: EdgeName,
    /// Of the edge after one.
    rule: Option<String>,
    text: Option<String>,
    r#where: Option<String>,
    #[serde(default = "ten")]
    items_per_second: u32,
    #[serde(default = "five_minutes")]
    seconds: u64,
    #[serde(default = "super::json::yes")]
    redact: bool,
}

/// An edge as requests and the command line call it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EdgeName {
    /// What the pipeline takes, before its rules
    #[default]
    In,
    /// What its rules remove
    Removed,
    /// What is left after its rules
    Out,
    /// What is left after one of its rules, and before the next one: see --rule
    After,
    /// What comes from clients and sources, before enrichment (PIPELINE must be traces/*, metrics/*, logs/* or *)
    Received,
    /// What clients push and no pipeline takes (PIPELINE must be traces/*, metrics/*, logs/* or *)
    Unclaimed,
}

fn ten() -> u32 {
    10
}

fn five_minutes() -> u64 {
    300
}

impl TapsPage {
    pub(super) fn new(taps: &Taps, configurations: &Configurations) -> Self {
        Self {
            taps: taps.clone(),
            configurations: configurations.clone(),
            wishes: Arc::default(),
            readers: Arc::default(),
        }
    }

    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let number = asked.path.strip_prefix(PATH).filter(|number| !number.is_empty());
        match (number, asked.method) {
            // No tap is opened for whoever cannot be told its number.
            (None, &Method::POST) if !body.reserve(NUMBER_BYTES) => Ok(None),
            (None, &Method::POST) => Ok(show(body, &self.open(asked)?)),
            (None, _) => Ok(show(body, &json!({"taps": self.list()}))),
            (Some(number), &Method::DELETE) => self.close(number, asked).map(Some),
            (Some(_), &Method::POST) => Err(Refusal::wrong("open a tap at /api/taps")),
            (Some(number), _) => self.read(number, asked, body),
        }
    }

    fn open(&self, asked: &Asked<'_>) -> Result<Value, Refusal> {
        let opened: Opened = serde_json::from_slice(asked.body)
            .map_err(|error| Refusal::wrong(format!("cannot read what the tap should show: {error}")))?;
        let wish = opened.wish(&self.configurations)?;
        // Whoever asks for it finds what was wished for.
        let mut wishes = self.wishes();
        let tap = self.taps.open(&wish)?;
        let Opened { pipeline, edge, rule: _, text, r#where, items_per_second, seconds, redact } = &opened;
        let (has_text, edge, condition) = (text.is_some(), format!("{edge:?}").to_lowercase(), r#where.as_deref());
        let rule = wish.edge.rule().map(RulePlace::field);
        tracing::info!(
            target: AUDIT,
            tap,
            from = %asked.from.peer,
            token = asked.from.token,
            pipeline,
            edge,
            rule,
            has_text,
            condition,
            items_per_second,
            seconds,
            redact,
            "a tap is open: somebody looks at telemetry"
        );
        // That has been said of whoever opened it.
        self.readers.note(asked.from, &tap.to_string());
        let figures = self.taps.list();
        wishes.retain(|id, _| figures.iter().any(|figures| figures.id == *id));
        wishes.insert(tap, opened);
        let ends = figures.iter().find(|figures| figures.id == tap).map(|figures| rfc3339_millis(figures.ends_unix_ms));
        Ok(json!({"tap": tap, "ends_at": ends}))
    }

    fn close(&self, number: &str, asked: &Asked<'_>) -> Result<Shown, Refusal> {
        let id = number_of(number)?;
        if !self.taps.close(id) {
            return Err(gone(number));
        }
        tracing::info!(target: AUDIT, tap = id, from = %asked.from.peer, token = asked.from.token, "a tap is closed");
        Ok(Shown { status: StatusCode::NO_CONTENT, ..Shown::JSON })
    }

    fn list(&self) -> Vec<Value> {
        let wishes = self.wishes();
        let known = self.taps.list();
        known.iter().filter_map(|figures| Some(state(figures, wishes.get(&figures.id)?))).collect()
    }

    fn read(&self, number: &str, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let id = number_of(number)?;
        let [after] = parameters(asked.query, ["after"])?;
        let after = whole("after", after)?.unwrap_or_default();
        let wish = self.wishes().get(&id).cloned();
        let Some((Reading { figures, items, ways }, wish)) = self.taps.read(id, after).zip(wish) else {
            return Err(gone(number));
        };
        self.note(id, wish.redact, asked);
        let last = items.last().map_or(after, |item| item.number);
        let way = |(number, told)| {
            let (way, at) = way_of(told);
            (number, way, at)
        };
        let ways = ways.into_iter().map(way).collect();
        let texts = self.configurations.texts();
        let items = Items { caught: items, redacts: wish.redact, texts };
        Ok(show(body, &Answer { state: state(&figures, &wish), last, ways, items }))
    }

    /// Whether a tap hides what looks like a secret. One that is not known does.
    pub(super) fn redacts(&self, tap: u64) -> bool {
        self.wishes().get(&tap).is_none_or(|opened| opened.redact)
    }

    /// The log says who looks at what a tap has caught: its number is known to others than whoever opened it.
    pub(super) fn note(&self, tap: u64, redact: bool, asked: &Asked<'_>) {
        if self.readers.note(asked.from, &tap.to_string()) {
            tracing::info!(
                target: AUDIT,
                tap,
                from = %asked.from.peer,
                token = asked.from.token,
                redact,
                "somebody looks at what a tap has caught"
            );
        }
    }

    fn wishes(&self) -> MutexGuard<'_, BTreeMap<u64, Opened>> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page for TapsPage {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::HEAD, Method::POST, Method::DELETE]
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}

impl Opened {
    fn wish(&self, configurations: &Configurations) -> Result<Wish, Refusal> {
        let edge = self.edge()?;
        let pipelines = self.pipelines(edge, configurations)?;
        if !(1..=MOST_SECONDS).contains(&self.seconds) || !(1..=MOST_PER_SECOND).contains(&self.items_per_second) {
            let error = format!(
                "seconds must be 1 to {MOST_SECONDS} and items_per_second 1 to {MOST_PER_SECOND}, not {} and {}",
                self.seconds, self.items_per_second
            );
            return Err(Refusal::wrong(error));
        }
        let is_given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (text, condition) = (is_given(&self.text), is_given(&self.r#where));
        let (per_second, lasts) = (self.items_per_second, Duration::from_secs(self.seconds));
        Ok(Wish { pipelines, edge, text, condition, per_second, lasts })
    }

    fn edge(&self) -> Result<Edge, Refusal> {
        let rule = self.rule.as_deref().unwrap_or_default();
        if !rule.is_empty() && self.edge != EdgeName::After {
            let error = "a rule is of the edge after: use --edge after with --rule (`edge` and `rule` in the API)";
            return Err(Refusal::wrong(error));
        }
        Ok(match self.edge {
            EdgeName::In => Edge::In,
            EdgeName::Removed => Edge::Removed,
            EdgeName::Out => Edge::Out,
            EdgeName::After if rule.is_empty() => {
                let error = "the edge after needs a rule: --rule transform[0] (`rule` in the API)";
                return Err(Refusal::wrong(error));
            }
            EdgeName::After => Edge::After(RulePlace::named(rule).ok_or_else(|| {
                Refusal::wrong(format!("after which rule? write it as transform[0] or filter[1], not {rule:?}"))
            })?),
            EdgeName::Received => Edge::Received,
            EdgeName::Unclaimed => Edge::Unclaimed,
        })
    }

    fn pipelines(&self, edge: Edge, configurations: &Configurations) -> Result<Vec<Pipeline>, Refusal> {
        let name = self.pipeline.as_str();
        if !edge.is_of_a_pipeline() && !name.ends_with(ANY) {
            let error = format!("this edge is of no pipeline: write traces/*, metrics/*, logs/* or *, not {name:?}");
            return Err(Refusal::wrong(error));
        }
        let is_named = |pipeline: &Pipeline| is_meant(name, &pipeline.id);
        let pipelines = configurations.pipelines().into_iter().filter(is_named).collect::<Vec<_>>();
        if pipelines.is_empty() { Err(nobody(name)) } else { Ok(pipelines) }
    }
}

/// Whether a pipeline is one of those that a name stands for: `traces/shop`, `traces/*` or `*`.
pub(super) fn is_meant(name: &str, id: &PipelineId) -> bool {
    name == ANY || all_of(name) == Some(id.signal.name()) || id.to_string() == name
}

/// A name stands for no pipeline.
pub(super) fn nobody(name: &str) -> Refusal {
    let signal = Signal::ALL.into_iter().find(|signal| all_of(name) == Some(signal.name()));
    Refusal::wrong(match signal {
        Some(signal) => format!("there is no pipeline of {}", signal.name()),
        None if name == ANY => "there is no pipeline".to_owned(),
        None => format!("there is no pipeline {name:?}: write it as traces/NAME, traces/* or * for all"),
    })
}

/// The signal of which a name stands for all pipelines.
fn all_of(name: &str) -> Option<&str> {
    name.strip_suffix(ANY)?.strip_suffix('/')
}

fn number_of(tap: &str) -> Result<u64, Refusal> {
    let nothing = |_| {
        let error = format!("nothing is at {PATH}{tap}: taps have numbers, and /api/taps lists them");
        Refusal::new(StatusCode::NOT_FOUND, error)
    };
    tap.parse().map_err(nothing)
}

fn gone(number: &str) -> Refusal {
    Refusal::new(StatusCode::GONE, format!("there is no tap {number}, or it ended a while ago: open another one"))
}

fn state(figures: &TapFigures, wish: &Opened) -> Value {
    let TapFigures { id, is_open, ends_unix_ms, seen, looked_at, caught } = figures;
    let Opened { pipeline, edge, rule, text, r#where, redact, .. } = wish;
    json!({
        "tap": id, "state": if *is_open { "open" } else { "ended" }, "ends_at": rfc3339_millis(*ends_unix_ms),
        "pipeline": pipeline, "edge": edge, "rule": rule, "text": text, "where": r#where, "redact": redact,
        "seen": seen, "matched": caught, "left_out": seen.saturating_sub(*looked_at),
    })
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    state: Value,
    /// The number of the newest item here: more are asked for after that.
    last: u64,
    /// What has become of all that is kept, by their numbers, and when.
    ways: Vec<(u64, &'static str, Option<String>)>,
    items: Items,
}

/// Items as everybody who asks for some gets them.
pub(super) struct Items {
    pub(super) caught: Vec<Arc<Caught>>,
    pub(super) redacts: bool,
    /// What rules say, by pipeline and field.
    pub(super) texts: Texts,
}

impl Serialize for Items {
    /// Documents are made one after the other.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.caught.iter().map(|caught| self.document(caught)))
    }
}

impl Items {
    fn document(&self, caught: &Caught) -> Value {
        let pipeline = caught.pipeline.as_ref();
        let removed_by = caught.removed_by.as_ref().zip(pipeline).map(|(by, pipeline)| {
            let text = self.texts.get(&(pipeline.clone(), by.field.clone())).map_or("", String::as_str);
            json!({"field": by.field, "text": text})
        });
        let (way, way_at) = way_of(caught.way_and_time());
        json!({
            "seq": caught.number, "at": rfc3339_millis(caught.unix_ms), "pipeline": pipeline.map(ToString::to_string),
            "item": document(caught.signal, &caught.request, self.redacts),
            "way": way, "way_at": way_at, "removed_by": removed_by,
        })
    }
}

/// What has become of an item, and when that became so, if it is known: of what was removed, that is when it passed.
fn way_of(told: Option<WayAndTime>) -> (&'static str, Option<String>) {
    let Some((way, unix_ms)) = told else { return ("removed", None) };
    let name = match way {
        Way::Refused => "refused",
        Way::Pending => "pending",
        Way::Stored => "stored",
        Way::Delivered => "delivered",
        Way::Rejected => "rejected",
        Way::Dropped => "dropped",
        Way::Withdrawn => "withdrawn",
        Way::Split => "split",
        Way::Unclaimed => "unclaimed",
        Way::Received => "received",
    };
    (name, unix_ms.map(rfc3339_millis))
}
