//! `weir top --talkers`: which namespaces, pods and services send most.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{BESIDE_ROWS, Room, columns, draw, words};
use crate::ask::{number, seconds_since};
use crate::tables::{bytes, count, cut, time};

pub(super) fn json(counted: &Value) -> Value {
    rows(counted).iter().map(as_json).collect()
}

/// As many as there is room for, the most bytes first. They were counted since the first question.
pub(super) fn text(out: &mut Vec<u8>, counted: &Value, room: Room) -> io::Result<()> {
    let rows = rows(counted);
    let left_out = match number(&counted["left_out"]) {
        0 => String::new(),
        left_out => format!("; {} more are of talkers that are not listed", count(left_out, "item")),
    };
    let talkers = count(rows.len(), "talker");
    let ago = time(seconds_since(&counted["since"]));
    let head = format!("{talkers} since the first question, {ago} ago{left_out}");
    writeln!(out, "{}", cut(head, columns(room)))?;
    let head = ["namespace", "pod", "service", "signal", "items", "bytes", "bytes/item"];
    let rows: Vec<_> = rows.iter().map(row).collect();
    draw(out, head, &rows, room.rows.saturating_sub(BESIDE_ROWS), columns(room))
}

fn rows(counted: &Value) -> &[Value] {
    counted["talkers"].as_array().map_or(&[], Vec::as_slice)
}

fn average(of: &Value) -> u64 {
    number(&of["bytes"]).checked_div(number(&of["items"])).unwrap_or_default()
}

fn as_json(of: &Value) -> Value {
    let mut row = of.clone();
    row["bytes_per_item"] = json!(average(of));
    row
}

fn row(of: &Value) -> [String; 7] {
    let name = |field: &str| Some(words(&of[field])).filter(|name| !name.is_empty()).unwrap_or_else(|| "-".to_owned());
    let [namespace, pod, service, signal] = ["namespace", "pod", "service", "signal"].map(name);
    let items = number(&of["items"]).to_string();
    [namespace, pod, service, signal, items, bytes(number(&of["bytes"])), bytes(average(of))]
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_most_are_first_and_there_are_no_more_rows_than_a_terminal_has() {
        let talker = |pod: usize| {
            json!({"signal": "logs", "namespace": "shop", "pod": format!("cart-{pod}\u{1b}"), "service": "", "items": 4,
                "bytes": 4096})
        };
        let page = json!({"since": Timestamp::now().to_string(), "left_out": 7, "talkers": (0..30).map(talker).collect::<Vec<_>>()});
        let mut out = Vec::new();
        text(&mut out, &page, Room { rows: 8, columns: 80 }).unwrap();
        let expected = "\
30 talkers since the first question, 0s ago; 7 items more are of talkers that a…

NAMESPACE      POD  SERVICE  SIGNAL  ITEMS    BYTES  BYTES/ITEM
shop       cart-0         -    logs      4  4.0 KiB     1.0 KiB
shop       cart-1         -    logs      4  4.0 KiB     1.0 KiB
shop       cart-2         -    logs      4  4.0 KiB     1.0 KiB
and 27 more
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
