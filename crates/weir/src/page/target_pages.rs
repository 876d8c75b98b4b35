//! `/api/pages`: the page of a scrape target as the target sends it now. POST has it read, GET shows it. The target is named
//! by its id in `/targets` and never by an address: nobody has anything fetched that is not scraped anyway.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use weir_engine::Text;
use weir_engine::admin::{AUDIT, Asked, Page, Readers, Shown};
use weir_sources::scrape::{RawPage, TargetBoard, Viewing};

use super::json::{Refusal, show};
use super::redact::redact;

/// The path, with what stands before the number of a page.
const PATH: &str = "/api/pages/";
/// A page that was read is kept for so long.
const KEPT: Duration = Duration::from_secs(60);
/// What the number of a page takes in an answer.
const NUMBER_BYTES: usize = 64;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct TargetPages {
    board: TargetBoard,
    readers: Arc<Readers>,
    wanted: Arc<Mutex<WantedPages>>,
}

/// One page at a time is read or kept.
#[derive(Debug, Default)]
struct WantedPages {
    /// As many as there have been.
    last_number: u64,
    last: Option<WantedPage>,
}

/// A page that somebody wants to see.
#[derive(Debug)]
struct WantedPage {
    number: u64,
    wish: Wish,
    url: String,
    /// `None`: it is being read.
    page: Option<RawPage>,
    /// Reads it, and forgets it.
    task: AbortHandle,
}

/// What a client wants to see.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// The id of a target.
    target: u64,
    #[serde(default = "super::json::yes")]
    redact: bool,
}

impl TargetPages {
    pub(super) fn new(board: &TargetBoard) -> Self {
        Self { board: board.clone(), readers: Arc::default(), wanted: Arc::default() }
    }

    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let number = asked.path.strip_prefix(PATH).filter(|number| !number.is_empty());
        match (number, asked.method) {
            // Whoever cannot be told the number is not read a page.
            (None, &Method::POST) if !body.reserve(NUMBER_BYTES) => Ok(None),
            (None, &Method::POST) => Ok(show(body, &json!({"page": self.open(asked)?}))),
            (Some(number), &Method::GET | &Method::HEAD) => self.see(number, asked, body),
            _ => Err(Refusal::wrong("have a page read with POST at /api/pages, and get it at /api/pages/NUMBER")),
        }
    }

    /// Begins to read a page. Returns its number.
    fn open(&self, asked: &Asked<'_>) -> Result<u64, Refusal> {
        let wish: Wish = serde_json::from_slice(asked.body)
            .map_err(|error| Refusal::wrong(format!("cannot read which target is meant: {error}")))?;
        let viewing = self.board.viewing(wish.target).ok_or_else(|| {
            let error = format!("there is no target {}: /targets has the id of each", wish.target);
            Refusal::new(StatusCode::NOT_FOUND, error)
        })?;
        let mut wanted = self.wanted();
        if wanted.last.as_ref().is_some_and(WantedPage::is_under_way) {
            let error = "the page of a target is being read, and one is read at a time: try again in a moment";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error));
        }
        let url = viewing.url().to_string();
        self.note(asked, &url, wish.redact);
        wanted.last_number += 1;
        let number = wanted.last_number;
        let task = tokio::spawn(self.clone().read(number, viewing)).abort_handle();
        if let Some(before) = wanted.last.replace(WantedPage { number, wish, url, page: None, task }) {
            before.task.abort();
        }
        Ok(number)
    }

    async fn read(self, number: u64, viewing: Viewing) {
        let page = viewing.read().await;
        if let Some(one) = self.wanted().last.as_mut().filter(|one| one.number == number) {
            one.page = Some(page);
        }
        tokio::time::sleep(KEPT).await;
        drop(self.wanted().last.take_if(|one| one.number == number));
    }

    fn see(&self, number: &str, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let wanted = self.wanted();
        let one = wanted.last.as_ref().filter(|one| one.number.to_string() == number).ok_or_else(|| {
            let error = format!("there is no page {number}, or not any more: have it read again");
            Refusal::new(StatusCode::GONE, error)
        })?;
        let Some(page) = &one.page else {
            return Ok(show(body, &json!({"page": one.number, "state": "reading", "url": one.url})));
        };
        // The number may be known to others than whoever had it read.
        self.note(asked, &one.url, one.wish.redact);
        Ok(show(body, &one.document(page)))
    }

    /// The log says who looks: a page is telemetry.
    fn note(&self, asked: &Asked<'_>, url: &str, redact: bool) {
        if self.readers.note(asked.peer, &format!("{url} {redact}")) {
            tracing::info!(target: AUDIT, from = %asked.peer, target_url = url, redact, "somebody looks at the page of a target");
        }
    }

    fn wanted(&self) -> MutexGuard<'_, WantedPages> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Page for TargetPages {
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

impl WantedPage {
    fn is_under_way(&self) -> bool {
        self.page.is_none() && !self.task.is_finished()
    }

    fn document(&self, page: &RawPage) -> Value {
        let mut text = Value::String(page.text().into_owned());
        if self.wish.redact {
            redact(&mut text);
        }
        let mut document = json!({
            "page": self.number, "state": "read", "target": self.wish.target, "url": self.url, "redact": self.wish.redact,
            "status": page.status.map(|status| status.as_u16()), "content_type": page.content_type, "error": page.error,
            "took_seconds": page.took.as_secs_f64(), "bytes": page.bytes, "left_out_bytes": page.left_out(),
        });
        // Where it stands above, it would be copied.
        document["text"] = text;
        document
    }
}
