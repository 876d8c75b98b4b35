//! `weir top --changes`: what the self monitor said, the newest first.

use std::io::{self, Write};

use serde_json::Value;

use super::{Room, columns, heading, rows_and_words, words};
use crate::tables::{cut, legible};

pub(super) fn json(changes: &Value) -> Value {
    newest_first(changes).cloned().collect()
}

/// As many as there is room for, with what was said beneath.
pub(super) fn text(out: &mut Vec<u8>, page: &Value, changes: &Value, room: Room) -> io::Result<()> {
    writeln!(out, "{}", cut(heading(page), columns(room)))?;
    let rows: Vec<_> = newest_first(changes).map(row).collect();
    let none =
        rows.is_empty().then(|| "The self monitor has told of nothing since the start of the process.".to_owned());
    let said = none.into_iter().chain(newest_first(changes).filter_map(said));
    rows_and_words(out, ["at", "pipeline", "before", "state"], &rows, said, room)
}

fn newest_first(changes: &Value) -> impl Iterator<Item = &Value> {
    changes.as_array().into_iter().flatten().rev()
}

fn row(of: &Value) -> [String; 4] {
    ["at", "pipeline", "before", "state"].map(|field| words(&of[field]))
}

/// Nothing is said of data that flows again.
fn said(of: &Value) -> Option<String> {
    Some(format!("{} {}: {}", words(&of["at"]), words(&of["pipeline"]), legible(of["message"].as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page() -> Value {
        json!({"version": "1", "uptime_seconds": 3.0, "health": "ready", "connections": 1, "journal": null,
            "memory": {"total_bytes": 1024, "parts": []}})
    }

    #[test]
    fn the_newest_stands_first_and_what_was_said_beneath() {
        let changes = json!([
            {"at": "2026-11-27T18:03:10Z", "pipeline": "traces/a", "before": "healthy", "state": "nothing_delivered",
                "message": "Nothing was\u{1b} delivered."},
            {"at": "2026-11-27T18:04:10Z", "pipeline": "traces/a", "before": "nothing_delivered", "state": "healthy"},
        ]);
        let mut out = Vec::new();
        text(&mut out, &page(), &changes, Room::ENDLESS).unwrap();
        let expected = "\
weir 1, up 3s, ready: 0 B of 1.0 KiB memory in use, 0 B on the disk, 1 clients

AT                    PIPELINE             BEFORE              STATE
2026-11-27T18:04:10Z  traces/a  nothing_delivered            healthy
2026-11-27T18:03:10Z  traces/a            healthy  nothing_delivered

2026-11-27T18:03:10Z traces/a: Nothing was  delivered.
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(json(&changes)[0], changes[1]);
    }

    #[test]
    fn it_is_said_that_nothing_changed() {
        let mut out = Vec::new();
        text(&mut out, &page(), &json!([]), Room { rows: 8, columns: 80 }).unwrap();
        let said = "\nThe self monitor has told of nothing since the start of the process.\n";
        assert!(String::from_utf8(out).unwrap().ends_with(said));
    }
}
