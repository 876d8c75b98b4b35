//! `/api/searches`: an item among all that waits on the disk. POST begins a search, GET shows what it has found.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_engine::Text;
use weir_engine::admin::{AUDIT, Asked, Page, Readers, Shown};
use weir_engine::taps::{Findings, MOST_SEARCHED, Search, Sought, Stop};
use weir_journal::Bookmark;
use weir_plan::PipelineId;

use super::json::{Refusal, show};
use super::last_one::{LastOne, One};
use super::taps::{Items, is_meant, nobody};
use crate::page::Configurations;

/// The path, with what stands before the number of a search.
const PATH: &str = "/api/searches/";
/// A search may be told to read less, but not less than this.
const LEAST_BYTES: u64 = 1 << 20;
/// What the number of a search takes in an answer.
const NUMBER_BYTES: usize = 64;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Searches {
    configurations: Configurations,
    readers: Arc<Readers>,
    last: LastOne<Wish, Findings>,
}

/// What a client looks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    pipeline: String,
    text: String,
    /// Where an earlier search ended.
    from: Option<String>,
    #[serde(default = "most_searched")]
    max_bytes: u64,
    #[serde(default = "super::json::yes")]
    redact: bool,
}

fn most_searched() -> u64 {
    MOST_SEARCHED
}

impl Wish {
    fn sought(&self) -> Result<Sought, Refusal> {
        let max = self.max_bytes;
        if !(LEAST_BYTES..=MOST_SEARCHED).contains(&max) {
            return Err(Refusal::wrong(format!("max_bytes must be {LEAST_BYTES} to {MOST_SEARCHED}, not {max}")));
        }
        let place = |from: &String| {
            let no_place = || Refusal::wrong(format!("{from:?} is no place where a search has ended"));
            Bookmark::parse(from).ok_or_else(no_place)
        };
        let from = self.from.as_ref().map(place).transpose()?.unwrap_or_default();
        Ok(Sought { text: self.text.clone(), from, most_bytes: max })
    }
}

impl Searches {
    pub(super) fn new(configurations: &Configurations) -> Self {
        Self { configurations: configurations.clone(), readers: Arc::default(), last: LastOne::default() }
    }

    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let number = asked.path.strip_prefix(PATH).filter(|number| !number.is_empty());
        match (number, asked.method) {
            // Nothing is searched for whoever cannot be told the number.
            (None, &Method::POST) if !body.reserve(NUMBER_BYTES) => Ok(None),
            (None, &Method::POST) => Ok(show(body, &json!({"search": self.begin(asked)?}))),
            (Some(number), &Method::GET | &Method::HEAD) => self.see(number, asked, body),
            _ => {
                let error = "begin a search with POST at /api/searches, and get it at /api/searches/NUMBER";
                Err(Refusal::wrong(error))
            }
        }
    }

    /// Begins a search. Returns its number.
    fn begin(&self, asked: &Asked<'_>) -> Result<u64, Refusal> {
        let wish: Wish = serde_json::from_slice(asked.body)
            .map_err(|error| Refusal::wrong(format!("cannot read what is to be looked for: {error}")))?;
        let search = self.search(&wish, asked)?;
        let (pipeline, redact) = (wish.pipeline.clone(), wish.redact);
        let number = self.last.begin(wish, search.run()).ok_or_else(|| {
            let error = "another search is just ending: try again in a moment";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error)
        })?;
        tracing::info!(
            target: AUDIT,
            search = number,
            from = %asked.from.peer,
            token = asked.from.token,
            pipeline,
            redact,
            "somebody searches telemetry that waits on the disk"
        );
        // That has been said of whoever began it.
        self.readers.note(asked.from, &number.to_string());
        Ok(number)
    }

    /// There is none beside another one.
    fn search(&self, wish: &Wish, asked: &Asked<'_>) -> Result<Search, Refusal> {
        let name = wish.pipeline.as_str();
        let search = asked.view.search(&wish.sought()?, &|id: &PipelineId| is_meant(name, id)).ok_or_else(|| {
            let error = "nothing waits on a disk: this process has no data directory";
            Refusal::new(StatusCode::NOT_FOUND, error)
        })??;
        let is_known = || self.configurations.pipelines().iter().any(|pipeline| is_meant(name, &pipeline.id));
        if search.pipelines().is_empty() && !is_known() {
            return Err(nobody(name));
        }
        Ok(search)
    }

    fn see(&self, number: &str, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let one = self.last.see(number).ok_or_else(|| {
            let error = format!("there is no search {number}, or not any more: begin another one");
            Refusal::new(StatusCode::GONE, error)
        })?;
        let Some(found) = &one.done else {
            return Ok(show(body, &json!({"search": one.number, "state": "searching"})));
        };
        self.note(asked, &one);
        let texts = self.configurations.texts();
        let items = Items { caught: found.items.clone(), redacts: one.wish.redact, texts };
        Ok(show(body, &Answer { state: state(&one, found), items }))
    }

    /// The number may be known to others than whoever began it.
    fn note(&self, asked: &Asked<'_>, one: &One<Wish, Findings>) {
        if self.readers.note(asked.from, &one.number.to_string()) {
            tracing::info!(
                target: AUDIT,
                search = one.number,
                from = %asked.from.peer,
                token = asked.from.token,
                redact = one.wish.redact,
                "somebody looks at what a search of the disk has found"
            );
        }
    }
}

impl Page for Searches {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::HEAD, Method::POST]
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    state: Value,
    items: Items,
}

fn state(One { number, wish, .. }: &One<Wish, Findings>, found: &Findings) -> Value {
    json!({
        "search": number, "state": "ended", "pipeline": wish.pipeline, "text": wish.text, "redact": wish.redact,
        "stopped_by": found.stopped.map(name_of), "goes_on_at": found.next.map(|next| next.to_string()),
        "records": found.records, "bytes": found.bytes, "damaged_records": found.damaged_records,
        "left_out_records": found.left_out_records, "left_out_items": found.left_out_items,
    })
}

fn name_of(stop: Stop) -> &'static str {
    match stop {
        Stop::Bytes => "bytes",
        Stop::Time => "time",
        Stop::Found => "found",
        Stop::Memory => "memory",
        Stop::Disk => "disk",
        Stop::Closed => "closed",
    }
}
