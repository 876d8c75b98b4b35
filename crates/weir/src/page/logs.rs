//! `/logs`: how container logs are read. `?first=100` asks for the containers that are furthest behind, and sums of
//! all.

use std::io::Write as _;

use serde::Serializer as _;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_sources::tail::Board;

use super::json::{Refusal, parameters, show, whole};

/// See the module.
#[derive(Debug)]
pub(crate) struct LogsPage(pub(crate) Board);

impl LogsPage {
    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let [first] = parameters(asked.query, ["first"])?;
        let first = whole("first", first)?;
        if !self.0.reserve(body) {
            return Ok(None);
        }
        Ok(match first {
            Some(first) => show(body, &self.0.furthest_behind(usize::try_from(first).unwrap_or(usize::MAX))),
            None => self.show_all(body),
        })
    }

    /// Each container, as an array that people can read.
    fn show_all(&self, body: &mut Text) -> Option<Shown> {
        let mut json = serde_json::Serializer::pretty(&mut *body);
        json.collect_seq(self.0.containers_now()).ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}

impl Page for LogsPage {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}
