//! `/api/pages`: the page of a scrape target as the target sends it now. POST has it read, GET shows it. The target is named
//! by its id in `/targets` and never by an address: nobody has anything fetched that is not scraped anyway.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_engine::Text;
use weir_engine::admin::{AUDIT, Asked, Page, Readers, Shown};
use weir_sources::scrape::{RawPage, TargetBoard};

use super::json::{Refusal, show};
use super::last_one::{LastOne, One};
use super::redact::redact;

/// The path, with what stands before the number of a page.
const PATH: &str = "/api/pages/";
/// What the number of a page takes in an answer.
const NUMBER_BYTES: usize = 64;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct TargetPages {
    board: TargetBoard,
    readers: Arc<Readers>,
    last: LastOne<Wanted, RawPage>,
}

/// A page that somebody wants to see.
#[derive(Debug)]
struct Wanted {
    wish: Wish,
    url: String,
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
        Self { board: board.clone(), readers: Arc::default(), last: LastOne::default() }
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
        let (url, redact) = (viewing.url().to_string(), wish.redact);
        let wanted = Wanted { wish, url: url.clone() };
        let number = self.last.begin(wanted, async move { viewing.read().await }).ok_or_else(|| {
            let error = "the page of a target is being read, and one is read at a time: try again in a moment";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error)
        })?;
        self.note(asked, &url, redact);
        Ok(number)
    }

    fn see(&self, number: &str, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let one = self.last.see(number).ok_or_else(|| {
            let error = format!("there is no page {number}, or not any more: have it read again");
            Refusal::new(StatusCode::GONE, error)
        })?;
        let Wanted { wish, url } = &*one.wish;
        let Some(page) = &one.done else {
            return Ok(show(body, &json!({"page": one.number, "state": "reading", "url": url})));
        };
        // The number may be known to others than whoever had it read.
        self.note(asked, url, wish.redact);
        Ok(show(body, &document(&one, page)))
    }

    /// The log says who looks: a page is telemetry.
    fn note(&self, asked: &Asked<'_>, url: &str, redact: bool) {
        if self.readers.note(asked.from, &format!("{url} {redact}")) {
            tracing::info!(
                target: AUDIT,
                from = %asked.from.peer,
                token = asked.from.token,
                target_url = url,
                redact,
                "somebody looks at the page of a target"
            );
        }
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

fn document(one: &One<Wanted, RawPage>, page: &RawPage) -> Value {
    let Wanted { wish, url } = &*one.wish;
    let mut text = Value::String(page.text().into_owned());
    if wish.redact {
        redact(&mut text);
    }
    let mut document = json!({
        "page": one.number, "state": "read", "target": wish.target, "url": url, "redact": wish.redact,
        "status": page.status.map(|status| status.as_u16()), "content_type": page.content_type, "error": page.error,
        "took_seconds": page.took.as_secs_f64(), "bytes": page.bytes, "left_out_bytes": page.left_out(),
    });
    // Where it stands above, it would be copied.
    document["text"] = text;
    document
}
