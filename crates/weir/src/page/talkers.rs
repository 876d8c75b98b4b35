//! `/api/talkers`: which pods send most, counted while somebody asks.

use serde_json::json;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::talkers::{Talker, Talkers};
use weir_legible::rfc3339_millis;

use super::json::show;

/// Rows of the page; the others are summed up.
const MOST_ROWS: usize = 1000;

/// See the module.
#[derive(Debug)]
pub(super) struct TalkersPage(pub(super) Talkers);

impl Page for TalkersPage {
    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let figures = self.0.figures();
        let shown = figures.talkers.len().min(MOST_ROWS);
        let (rows, rest) = figures.talkers.split_at(shown);
        let row = |Talker { signal, namespace, pod, service, items, bytes }: &Talker| {
            json!({
                "signal": signal.name(), "namespace": namespace, "pod": pod, "service": service,
                "items": items, "bytes": bytes,
            })
        };
        let left_out = figures.left_out + rest.iter().map(|talker| talker.items).sum::<u64>();
        let answer = json!({
            "since": rfc3339_millis(figures.since_unix_ms), "talkers": rows.iter().map(row).collect::<Vec<_>>(),
            "left_out": left_out,
        });
        show(body, &answer)
    }
}
