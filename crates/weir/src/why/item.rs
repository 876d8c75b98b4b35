//! `weir why --item`: the way of single items, from what is kept of them, on the disk too, and while they pass.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use weir_engine::taps;
use weir_loadtest::output::{is_read, printed};

use super::WhyArgs;
use super::on_disk::{self, Sought, name_of};
use crate::ask::{Admin, moment, number};
use crate::tables::{legible, time};
use crate::tap::{self, Line};

/// Looks for an item in samples of what was lost, in recent items, in what waits on the disk, and in what passes from
/// now on.
pub(super) fn find(args: &WhyArgs, admin: &Admin, text: &str) -> anyhow::Result<ExitCode> {
    if text.is_empty() {
        bail!("--item needs a trace id, a span id or some text: the empty text is in everything");
    }
    let pipeline = args.pipeline.as_deref().unwrap_or("*");
    let lost = find_among_lost(admin, pipeline, text)?;
    let now = admin.get("/api/now")?;
    let asked_for = asked_for(&now, pipeline);
    let (kept, known) = find_among_recent(admin, &asked_for, text)?;
    let sought = Sought { pipeline, text, from: args.from.as_deref() };
    let on_disk = on_disk::find(admin, &now, &sought, &known)?;
    let wish = |pipeline: &str, edge: &str| {
        let seconds = args.duration.as_secs().max(1);
        json!({"pipeline": pipeline, "edge": edge, "text": text, "items_per_second": 100, "seconds": seconds})
    };
    // Whichever pipeline should have it, what none takes is beside all of them.
    let wishes = [wish(pipeline, "in"), wish("*", "unclaimed")];
    writeln!(io::stderr(), "Looking for {} at what passes from now on; Ctrl-C ends.", time(args.duration.as_secs()))?;
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let mut found = Found::default();
    let pages = runtime.block_on(tap::follow(admin, &wishes, &mut |page| found.show(page)))?;
    let advice = match pipeline.ends_with('*') {
        true => "name one pipeline, or look for a text that fewer items have",
        false => "look for a text that fewer items have",
    };
    writeln!(io::stderr(), "{}", tap::said(&pages, found.number, advice))?;
    found.say_what_is_open()?;
    if found.number + kept + lost + on_disk.items == 0 {
        let nothing = if !on_disk.is_all || tap::left_out(&pages) > 0 {
            "nothing with it is in what was looked at"
        } else {
            "nothing with it passed a pipeline, or came in that no pipeline takes: its sender has not sent it, or not here, \
             or it is spelled in another way"
        };
        writeln!(io::stderr(), "{nothing}")?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks among samples of what was lost; says how many have the text.
fn find_among_lost(admin: &Admin, pipeline: &str, text: &str) -> anyhow::Result<u64> {
    let mut lost = 0;
    for sample in tap::lost_samples(admin, pipeline)?.iter().filter(|sample| has_text(sample, text)) {
        let [of, code, message] =
            ["pipeline", "code", "message"].map(|field| sample[field].as_str().unwrap_or_default());
        let how = match sample["way"] == "rejected" {
            true => "its backend refused a request with it for good",
            false => "a request with it was given up",
        };
        printed(writeln!(io::stdout(), "{}", legible(&format!("{of}: {how}: {code} {message}"))))?;
        lost += 1;
    }
    Ok(lost)
}

/// The pipelines that are asked for.
fn asked_for<'a>(now: &'a Value, pipeline: &str) -> Vec<&'a Value> {
    let all = now["pipelines"].as_array().into_iter().flatten();
    all.filter(|of| tap::is_asked_for(of, pipeline)).collect()
}

/// Looks among the few items that are kept of what has passed, or was on the disk; says how many have the text, and
/// which of them are on the disk.
fn find_among_recent(admin: &Admin, pipelines: &[&Value], text: &str) -> anyhow::Result<(u64, BTreeSet<String>)> {
    let (mut found, mut on_disk) = (Found::default(), BTreeSet::new());
    for name in pipelines.iter().filter_map(|of| of["pipeline"].as_str()) {
        let encoded = utf8_percent_encode(text, NON_ALPHANUMERIC);
        // A pipeline may have gone meanwhile.
        let Ok(recent) = admin.get(&format!("/api/recent?pipeline={name}&text={encoded}")) else { continue };
        // Some are in several lists.
        let items = tap::recent_items(&recent);
        on_disk.extend(items.values().filter(|item| item["way"] == "stored").map(name_of));
        found.show(&json!({"items": items.values().collect::<Vec<_>>()}))?;
    }
    Ok((found.number, on_disk))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    number: u64,
    /// How many of these no pipeline takes.
    unclaimed: u64,
    /// What was said of items that go further, by their taps and their numbers there.
    under_way: BTreeMap<(u64, u64), Line>,
}

impl Found {
    /// A line for each item, and another one when more has become of it. Whether there is a reader.
    fn show(&mut self, page: &Value) -> anyhow::Result<bool> {
        let tap = number(&page["tap"]);
        for item in page["items"].as_array().into_iter().flatten() {
            self.number += 1;
            self.unclaimed += u64::from(item["way"] == "unclaimed");
            if !self.tell((tap, number(&item["seq"])), Line::of(item))? {
                return Ok(false);
            }
        }
        for of in page["ways"].as_array().into_iter().flatten() {
            let (id, way) = ((tap, number(&of[0])), of[1].as_str().unwrap_or("-"));
            let Some(line) = self.under_way.get(&id).filter(|line| line.way != way) else { continue };
            // Processes of older versions do not say when.
            let line = line.gone_on(moment(&of[2]).unwrap_or_else(Timestamp::now), way);
            if !self.tell(id, line)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tell(&mut self, id: (u64, u64), line: Line) -> anyhow::Result<bool> {
        let is_read = is_read(writeln!(io::stdout(), "{line}"))?;
        match line.way.as_str() {
            "pending" | "stored" => drop(self.under_way.insert(id, line)),
            _ => drop(self.under_way.remove(&id)),
        }
        Ok(is_read)
    }

    /// Says of what the end is not told, and where its pipeline is missing.
    fn say_what_is_open(&self) -> io::Result<()> {
        let mut said = io::stderr().lock();
        match self.under_way.len() {
            0 => {}
            pending => writeln!(said, "{pending} are still pending: `weir why PIPELINE` says what they wait for")?,
        }
        match self.unclaimed {
            0 => Ok(()),
            unclaimed => writeln!(
                said,
                "{unclaimed} were answered OK and dropped, because no pipeline takes them: look at the namespaces of \
                 `input.otlp`"
            ),
        }
    }
}

/// Whether a request that was lost has the text, or the id.
fn has_text(sample: &Value, text: &str) -> bool {
    let Some(request) = sample["otlp"].as_str().and_then(decoded) else { return false };
    taps::needles(text).is_ok_and(|needles| taps::has_any(&request, &needles))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_through_is_what_a_tap_of_this_name_sees() {
        let now =
            json!({"pipelines": [{"pipeline": "traces/a"}, {"pipeline": "traces/b"}, {"pipeline": "logs/a"}, {}]});
        let names = |wanted: &str| {
            let of = asked_for(&now, wanted).into_iter();
            of.filter_map(|of| of["pipeline"].as_str()).collect::<Vec<_>>().join(" ")
        };
        for (wanted, found) in [
            ("*", "traces/a traces/b logs/a"),
            ("traces/*", "traces/a traces/b"),
            ("metrics/*", ""),
            ("traces/a", "traces/a"),
            ("traces*", ""),
            ("traces/a*", ""),
            ("/*", ""),
        ] {
            assert_eq!(names(wanted), found, "{wanted}");
        }
    }
}
