//! `weir top --logs`: how far the logs of each container are read, those that are stuck first.

use std::cmp::Reverse;
use std::io::{self, Write};

use serde_json::Value;

use super::{Room, columns, rows_and_words, words};
use crate::ask::{number, sum};
use crate::tables::{bytes, count, cut, legible, time, whole_seconds};

const HEAD: [&str; 7] = ["container", "behind", "behind for", "files", "removed, held", "lost", "stuck for"];

pub(super) fn json(containers: &Value) -> Value {
    stuck_first(containers).into_iter().cloned().collect()
}

/// As many as there is room for, with what the stuck ones wait for and what was lost beneath.
pub(super) fn text(out: &mut Vec<u8>, containers: &Value, room: Room) -> io::Result<()> {
    let lines = stuck_first(containers);
    let all = || lines.iter().copied();
    let behind = all().map(|of| number(&of["bytes_behind"])).fold(0, u64::saturating_add);
    let stuck = all().filter(|of| is_stuck(of));
    let (containers, bytes) = (count(lines.len(), "container"), bytes(behind));
    let head = format!("{containers}, {bytes} not safe yet, {} stuck", stuck.clone().count());
    writeln!(out, "{}", cut(head, columns(room)))?;
    let rows: Vec<_> = all().map(row).collect();
    let losers = all().filter(|of| sum(&of["lost_bytes"]) > 0);
    rows_and_words(out, HEAD, &rows, stuck.map(waits).chain(losers.map(lost)), room)
}

fn stuck_first(containers: &Value) -> Vec<&Value> {
    let mut lines: Vec<_> = containers.as_array().into_iter().flatten().collect();
    lines.sort_by_key(|of| (!is_stuck(of), Reverse(number(&of["bytes_behind"]))));
    lines
}

fn is_stuck(of: &Value) -> bool {
    of["stuck"].is_object()
}

fn name(of: &Value) -> String {
    ["namespace", "pod", "container"].map(|field| words(&of[field])).join("/")
}

fn row(of: &Value) -> [String; 7] {
    let size = |size: u64| if size == 0 { "-".to_owned() } else { bytes(size) };
    let behind = number(&of["bytes_behind"]);
    let age = || time(of["seconds_behind"].as_f64().map_or(0, whole_seconds));
    [
        name(of),
        size(behind),
        if behind == 0 { "-".to_owned() } else { age() },
        number(&of["files"]).to_string(),
        size(number(&of["removed_open_bytes"])),
        size(sum(&of["lost_bytes"])),
        of["stuck"]["seconds"].as_u64().map_or_else(|| "-".to_owned(), time),
    ]
}

fn waits(of: &Value) -> String {
    format!("{}: waits for {}", name(of), words(&of["stuck"]["waits_for"]))
}

/// How much was lost, by the reason.
fn lost(of: &Value) -> String {
    let reasons = of["lost_bytes"].as_object().into_iter().flatten().filter(|(_, lost)| number(lost) > 0);
    let reasons: Vec<_> = reasons.map(|(reason, lost)| format!("{} ({reason})", bytes(number(lost)))).collect();
    format!("{}: lost {}", name(of), legible(&reasons.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_stuck_stands_first_with_what_it_waits_for() {
        let container = |name: &str, behind: u64, stuck: Value| {
            json!({"namespace": "shop", "pod": name, "container": "app", "files": 2, "bytes_behind": behind,
                "seconds_behind": 61.5, "removed_open_bytes": 0, "lost_bytes": {"removed": 0, "overwritten": 0},
                "stuck": stuck})
        };
        let mut loses = container("till", 0, Value::Null);
        loses["lost_bytes"]["removed"] = json!(3072);
        loses["removed_open_bytes"] = json!(1024);
        let stuck = json!({"seconds": 75, "waits_for": "the\u{1b} disk"});
        let page = json!([loses, container("cart", 4096, Value::Null), container("sold", 1024, stuck)]);
        let mut out = Vec::new();
        text(&mut out, &page, Room::ENDLESS).unwrap();
        let expected = "\
3 containers, 5.0 KiB not safe yet, 1 stuck

CONTAINER       BEHIND  BEHIND FOR  FILES  REMOVED, HELD     LOST  STUCK FOR
shop/sold/app  1.0 KiB       1m01s      2              -        -      1m15s
shop/cart/app  4.0 KiB       1m01s      2              -        -          -
shop/till/app        -           -      2        1.0 KiB  3.0 KiB          -

shop/sold/app: waits for the  disk

shop/till/app: lost 3.0 KiB (removed)
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(json(&page)[0], page[2]);
    }
}
