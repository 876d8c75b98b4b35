//! `weir top --memory`: whether a request would be taken now, who holds which part, and what each pipeline holds. As
//! JSON the journal is there, too, which is in the heading of each view otherwise.

use std::cmp::Reverse;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::{BESIDE_ROWS, Room, columns, draw, heading, words};
use crate::ask::number;
use crate::tables::{bytes, count, cut, legible};

const HOLDS: [&str; 6] = ["pipeline", "in memory", "share", "on disk", "limit", "pending"];
/// Lines of what a request finds.
const ADMISSION_ROWS: usize = 2;
/// Lines beside the rows of a second table: an empty line, and its head.
const BESIDE_MORE_ROWS: usize = 2;

pub(super) fn json(page: &Value) -> Value {
    let part = |of: &Value| json!({"part": of["holder"], "used_bytes": of["used_bytes"], "bytes": of["bytes"]});
    let pipeline = |of: &Value| {
        json!({"pipeline": of["pipeline"], "memory_bytes": in_memory(of), "share_bytes": of["share_bytes"],
            "backlog_bytes": of["backlog"]["bytes"], "backlog_limit_bytes": of["backlog"]["limit_bytes"],
            "pending": of["books"]["pending"]})
    };
    let memory = &page["memory"];
    let admission = json!({"total_bytes": memory["total_bytes"], "admission": memory["admission"],
        "journal": page["journal"]});
    let holder = |of: &Value| json!({"payload_holder": of["holder"], "used_bytes": of["used_bytes"]});
    let (parts, holders) = (parts(page).map(part), holders(page).map(holder));
    let pipelines = most_first(page).into_iter().map(pipeline);
    [admission].into_iter().chain(parts).chain(holders).chain(pipelines).collect()
}

/// What a request finds, the parts, and as many pipelines as there is room for after them.
pub(super) fn text(out: &mut Vec<u8>, page: &Value, room: Room) -> io::Result<()> {
    let [sum, request] = admission(&page["memory"]);
    [heading(page), sum, request].into_iter().try_for_each(|line| writeln!(out, "{}", cut(line, columns(room))))?;
    let mut parts: Vec<_> = parts(page).map(part).collect();
    // After payloads, which are the first part.
    let at = parts.len().min(1);
    parts.splice(at..at, holders(page).filter(|of| number(&of["used_bytes"]) > 0).map(holder));
    let most = room.rows.saturating_sub(BESIDE_ROWS + ADMISSION_ROWS);
    draw(out, ["part", "in use", "size"], &parts, most, columns(room))?;
    let pipelines: Vec<_> = most_first(page).into_iter().map(pipeline).collect();
    match most.saturating_sub(parts.len() + BESIDE_MORE_ROWS) {
        0 if parts.len() > most => Ok(()),
        0 => writeln!(out, "and {}", count(pipelines.len(), "pipeline")),
        left => draw(out, HOLDS, &pipelines, left, columns(room)),
    }
}

/// All the memory, in numbers that add up, and what is free in it for a request that comes now.
fn admission(memory: &Value) -> [String; ADMISSION_ROWS] {
    let of = &memory["admission"];
    let [set_aside, used, free] = ["set_aside_bytes", "used_bytes", "free_bytes"].map(|field| number(&of[field]));
    let total = number(&memory["total_bytes"]);
    let sum = format!("{set_aside} B set aside + {used} B used + {free} B free = {total} B");
    let [fits, largest] = ["fits_bytes", "largest_bytes"].map(|field| bytes(number(&of[field])));
    // Processes of older versions have the reason alone.
    let request = match of["refused_because"].as_str().or_else(|| of["refused"].as_str()) {
        Some(why) => format!("Even a small request would be refused: {}", legible(why)),
        None => format!("A request of up to {fits} fits now; the largest that is taken at all is {largest}"),
    };
    let waiting = match number(&of["waiting"]) {
        0 => String::new(),
        waiting => format!("; waiting for room: {waiting}"),
    };
    [sum, request + &waiting]
}

fn parts(page: &Value) -> impl Iterator<Item = &Value> {
    let all = page["memory"]["parts"].as_array().into_iter().flatten();
    all.filter(|of| number(&of["bytes"]) > 0)
}

/// Who has what of the payloads. Processes of older versions do not say it.
fn holders(page: &Value) -> impl Iterator<Item = &Value> {
    page["memory"]["payload_holders"].as_array().into_iter().flatten()
}

/// Pipelines; what holds most stands first.
fn most_first(page: &Value) -> Vec<&Value> {
    let mut pipelines: Vec<_> = page["pipelines"].as_array().into_iter().flatten().collect();
    pipelines.sort_by_key(|of| Reverse(in_memory(of).saturating_add(number(&of["backlog"]["bytes"]))));
    pipelines
}

/// Bytes that wait for the backend in memory. With a data directory these are what has not had its turn yet.
fn in_memory(of: &Value) -> u64 {
    match &of["backlog"] {
        Value::Null => number(&of["held_bytes"]),
        backlog => number(&of["pending_bytes"]).saturating_sub(number(&backlog["bytes"])),
    }
}

fn part(of: &Value) -> [String; 3] {
    let used = of["used_bytes"].as_u64().map_or_else(|| "-".to_owned(), bytes);
    [words(&of["holder"]).replace('_', " "), used, bytes(number(&of["bytes"]))]
}

fn holder(of: &Value) -> [String; 3] {
    [format!("- {}", words(&of["holder"])), bytes(number(&of["used_bytes"])), "-".to_owned()]
}

fn pipeline(of: &Value) -> [String; 6] {
    let backlog = &of["backlog"];
    let size = |is_so: bool, of: &Value| if is_so { bytes(number(of)) } else { "-".to_owned() };
    [
        words(&of["pipeline"]),
        bytes(in_memory(of)),
        size(backlog.is_null(), &of["share_bytes"]),
        size(!backlog.is_null(), &backlog["bytes"]),
        size(!backlog.is_null(), &backlog["limit_bytes"]),
        number(&of["books"]["pending"]).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(parts: usize, pipelines: usize) -> Value {
        let parts: Vec<_> = (0..parts)
            .map(|number| json!({"holder": format!("part_{number}"), "bytes": 2048, "used_bytes": null}))
            .chain([json!({"holder": "series", "bytes": 0, "used_bytes": 0})])
            .collect();
        let pipelines: Vec<_> = (0..pipelines)
            .map(|number| {
                json!({"pipeline": format!("logs/{number}"), "held_bytes": 1024 * number, "share_bytes": 4096,
                    "backlog": null, "books": {"pending": number}})
            })
            .collect();
        json!({"version": "1", "uptime_seconds": 3.0, "health": "ready", "connections": 1, "journal": null,
            "memory": {"total_bytes": 4096, "parts": parts,
                "payload_holders": [{"holder": "clients", "used_bytes": 500}, {"holder": "sources", "used_bytes": 0}],
                "admission": {"set_aside_bytes": 2048, "used_bytes": 500, "free_bytes": 1548, "fits_bytes": 512,
                    "largest_bytes": 1024, "waiting": 0, "refused": null, "refused_because": null}},
            "pipelines": pipelines})
    }

    #[test]
    fn parts_are_above_the_pipelines_that_hold_most() {
        let mut out = Vec::new();
        text(&mut out, &page(1, 3), Room { rows: 13, columns: 80 }).unwrap();
        let expected = "\
weir 1, up 3s, ready: 0 B of 4.0 KiB memory in use, 0 B on the disk, 1 clients
2048 B set aside + 500 B used + 1548 B free = 4096 B
A request of up to 512 B fits now; the largest that is taken at all is 1.0 KiB

PART       IN USE     SIZE
part 0          -  2.0 KiB
- clients   500 B        -

PIPELINE  IN MEMORY    SHARE  ON DISK  LIMIT  PENDING
logs/2      2.0 KiB  4.0 KiB        -      -        2
logs/1      1.0 KiB  4.0 KiB        -      -        1
and 1 more
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let with_disk = json!({"pending_bytes": 10, "backlog": {"bytes": 4}});
        assert_eq!((in_memory(&with_disk), json(&page(1, 3)).as_array().unwrap().len()), (6, 7));
    }

    #[test]
    fn the_room_of_the_disk_is_in_the_heading() {
        let mut page = page(0, 0);
        page["journal"] = json!({"disk_bytes": 2048, "disk_free_bytes": 3072});
        let expected =
            "weir 1, up 3s, ready: 0 B of 4.0 KiB memory in use, 2.0 KiB on the disk (room for 3.0 KiB), 1 clients";
        assert_eq!(heading(&page), expected);
        assert_eq!(json(&page)[0]["journal"]["disk_free_bytes"], 3072);
        page["journal"]["disk_free_bytes"] = json!(0);
        assert!(heading(&page).contains("(room for 0 B)"), "a full disk is no unknown one");
        page["journal"]["disk_free_bytes"] = Value::Null;
        assert!(heading(&page).ends_with("2.0 KiB on the disk, 1 clients"));
    }

    #[test]
    fn it_is_said_why_a_small_request_would_be_refused() {
        let mut page = page(0, 0);
        page["memory"]["admission"]["refused"] = json!("no_memory");
        page["memory"]["admission"]["refused_because"] = json!("hardly any memory is\u{1b} free");
        page["memory"]["admission"]["waiting"] = json!(7);
        let [_, request] = admission(&page["memory"]);
        let expected = "Even a small request would be refused: hardly any memory is  free; waiting for room: 7";
        assert_eq!(request, expected);
        assert_eq!(json(&page)[0]["admission"]["refused"], "no_memory");
    }

    /// Nothing scrolls out of a small terminal.
    #[test]
    fn there_are_no_more_rows_than_a_terminal_has() {
        for (parts, pipelines, rows) in [(12, 1, 24), (12, 50, 24), (12, 50, 8), (0, 0, 8), (4, 2, 12), (3, 9, 10)] {
            let mut out = Vec::new();
            text(&mut out, &page(parts, pipelines), Room { rows, columns: 80 }).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.lines().count() < rows, "{rows} rows:\n{out}");
        }
    }
}
