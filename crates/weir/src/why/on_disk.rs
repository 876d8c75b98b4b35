//! What `weir why --item` finds among all that waits on the disk: the process searches it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use weir_loadtest::output::printed;

use super::backend_said;
use crate::ask::{Admin, number};
use crate::tables::{bytes, count, legible};
use crate::tap::{Line, is_asked_for};

/// How often it is asked whether the search is over.
const EVERY: Duration = Duration::from_millis(100);
/// A search has much less time than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to look for.
pub(super) struct Sought<'a> {
    pub(super) pipeline: &'a str,
    pub(super) text: &'a str,
    /// Where an earlier search ended.
    pub(super) from: Option<&'a str>,
}

/// What came of it.
pub(super) struct OnDisk {
    /// Items with the text.
    pub(super) items: u64,
    /// Whether everything was looked at that waits there.
    pub(super) is_all: bool,
}

/// Has the process search what waits on its disk, if anything does. Items that are `known` were told already.
pub(super) fn find(
    admin: &Admin,
    now: &Value,
    sought: &Sought<'_>,
    known: &BTreeSet<String>,
) -> anyhow::Result<OnDisk> {
    let waits = waits(now, sought.pipeline);
    if waits.is_empty() {
        return Ok(OnDisk { items: 0, is_all: true });
    }
    let wish = json!({"pipeline": sought.pipeline, "text": sought.text, "from": sought.from});
    let found = match search(admin, &wish) {
        Ok(found) => found,
        Err(error) if sought.from.is_some() => return Err(error),
        // Somebody else searches, or the process is of an older version.
        Err(error) => {
            writeln!(io::stderr(), "What waits on the disk is not looked through: {error:#}")?;
            say_what_writes_it(&waits)?;
            return Ok(OnDisk { items: 0, is_all: false });
        }
    };
    let items: Vec<_> = found["items"].as_array().into_iter().flatten().collect();
    for item in items.iter().filter(|item| !known.contains(&name_of(item))) {
        printed(writeln!(io::stdout(), "{}", Line::waiting(item)))?;
    }
    writeln!(io::stderr(), "{}", legible(&said(&found)))?;
    for of in waits.iter().filter(|of| items.iter().any(|item| item["pipeline"] == of["pipeline"])) {
        say_what_it_waits_for(of)?;
    }
    let is_all = is_all(&found);
    if !is_all {
        say_what_writes_it(&waits)?;
    }
    Ok(OnDisk { items: items.len() as u64, is_all })
}

/// What tells an item apart, wherever the process shows it.
pub(super) fn name_of(item: &Value) -> String {
    format!("{} {}", item["pipeline"], item["item"])
}

/// The pipelines that are asked for and have something on the disk, configured or not.
fn waits<'a>(now: &'a Value, pipeline: &str) -> Vec<&'a Value> {
    let has_disk = !now["journal"].is_null();
    let list = |name: &str| now[name].as_array().into_iter().flatten();
    let configured = list("pipelines").filter(|of| number(&of["backlog"]["items"]) > 0);
    let orphans = list("orphans").filter(|of| has_disk && number(&of["books"]["pending"]) > 0);
    configured.chain(orphans).filter(|of| is_asked_for(of, pipeline)).collect()
}

/// Begins a search, and waits for its end.
fn search(admin: &Admin, wish: &Value) -> anyhow::Result<Value> {
    let path = format!("/api/searches/{}", admin.post("/api/searches", wish)?["search"]);
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let found = runtime.block_on(async { timeout(PATIENCE, end_of(admin, &path)).await });
    found.context("the process does not say what it has found")?
}

async fn end_of(admin: &Admin, path: &str) -> anyhow::Result<Value> {
    loop {
        let found = admin.get(path)?;
        if found["state"] != "searching" {
            return Ok(found);
        }
        sleep(EVERY).await;
    }
}

/// Whether nothing of what waits was left out.
fn is_all(found: &Value) -> bool {
    let left_out = ["damaged_records", "left_out_records", "left_out_items"];
    found["stopped_by"].is_null() && left_out.iter().all(|name| number(&found[*name]) == 0)
}

/// What was looked through, in sentences.
fn said(found: &Value) -> String {
    let of = |name: &str| number(&found[name]);
    let items = found["items"].as_array().map_or(0, Vec::len);
    let (records, size) = (count(of("records"), "record"), bytes(of("bytes")));
    let mut said = format!("Looked through {records} on the disk ({size}): {} with it.", count(items, "item"));
    let left_out = [
        (of("damaged_records"), "record", "damaged"),
        (of("left_out_records"), "record", "left out without memory or time for it"),
        (of("left_out_items"), "item", "left out because of size, or because more are not shown"),
    ];
    for (number, noun, what) in left_out.into_iter().filter(|(number, ..)| *number > 0) {
        let is = if number == 1 { "is" } else { "are" };
        said += &format!(" {} {is} {what}.", count(number, noun));
    }
    let why = match found["stopped_by"].as_str() {
        None => return said,
        Some("bytes") => "it has read as much as one search may",
        Some("time") => "its time was over",
        Some("found") => "no more items are shown",
        Some("memory") => "the process has no memory for more now",
        Some("disk") => "the disk does not answer",
        Some(_) => "the process ends",
    };
    said += &format!(" That is not all, because {why}");
    match found["goes_on_at"].as_str() {
        Some(place) => said + &format!(": with --from {place}, the next search goes on there."),
        None => said + ".",
    }
}

/// Why what is on the disk is not delivered.
fn say_what_it_waits_for(of: &Value) -> io::Result<()> {
    let name = legible(of["pipeline"].as_str().unwrap_or("-"));
    match backend_said(of) {
        Some(said) => writeln!(io::stderr(), "{name}: {said}"),
        None if of["backend"].is_null() => writeln!(io::stderr(), "{name}: It is not configured any more."),
        None => Ok(()),
    }
}

/// Says how much is on the disk, and what writes all of it.
fn say_what_writes_it(waits: &[&Value]) -> io::Result<()> {
    for of in waits {
        let name = of["pipeline"].as_str().unwrap_or("-");
        let items = of["backlog"]["items"].as_u64().unwrap_or_else(|| number(&of["books"]["pending"]));
        // Only traces are exported as text.
        let format = if name.starts_with("traces/") { "" } else { " --format protobuf" };
        let words = format!(
            "On the disk for {name}: {}. `weir journal export DATA_DIR --pipeline {name}{format}` writes all of them.",
            count(items, "item")
        );
        writeln!(io::stderr(), "{}", legible(&words))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_looked_for_by_its_pipelines() {
        let now = json!({"journal": {}, "pipelines": [
                {"pipeline": "traces/a", "backlog": {"items": 7}},
                {"pipeline": "traces/b", "backlog": {"items": 0}},
                {"pipeline": "logs/a", "backlog": null},
            ], "orphans": [{"pipeline": "logs/gone", "books": {"pending": 3}}]});
        let names = |now: &Value, pipeline: &str| {
            let waits = waits(now, pipeline).into_iter().filter_map(|of| of["pipeline"].as_str());
            waits.collect::<Vec<_>>().join(" ")
        };
        for (pipeline, found) in [("*", "traces/a logs/gone"), ("traces/*", "traces/a"), ("traces/b", "")] {
            assert_eq!(names(&now, pipeline), found, "{pipeline}");
        }
        let without_disk = json!({"journal": null, "orphans": now["orphans"]});
        assert_eq!(names(&without_disk, "*"), "", "it is in memory");
    }

    #[test]
    fn how_much_was_looked_at_is_said() {
        let mut found = json!({"records": 10, "bytes": 2048, "items": [{}], "damaged_records": 0, "left_out_records": 0,
            "left_out_items": 0, "stopped_by": null, "goes_on_at": null});
        assert_eq!(said(&found), "Looked through 10 records on the disk (2.0 KiB): 1 item with it.");
        assert!(is_all(&found));
        found["damaged_records"] = json!(1);
        assert!(said(&found).ends_with(" 1 record is damaged.") && !is_all(&found), "{}", said(&found));
        found["stopped_by"] = json!("bytes");
        found["goes_on_at"] = json!("3.17");
        let ending = "That is not all, because it has read as much as one search may: with --from 3.17, the next search goes \
                      on there.";
        assert!(said(&found).ends_with(ending) && !is_all(&found), "{}", said(&found));
    }
}
