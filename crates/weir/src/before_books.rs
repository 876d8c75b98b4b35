//! What was lost before it came into any books, by reason: as `/api/now` has it, and in words. No books know of it; what
//! each pipeline would have got of it, about, the engine counts for the self monitor.

use serde::{Serialize, Serializer};
use serde_json::Value;
use weir_engine::view::SourceFigures;

use crate::ask::number;
use crate::tables::{bytes, count, rate};

/// What was lost for one reason, since the start.
#[derive(Serialize)]
pub(crate) struct Lost<'a> {
    /// Where it was collected.
    pub(crate) what: &'static str,
    /// Of scrapes.
    pub(crate) job: Option<&'a str>,
    /// As metrics call it.
    pub(crate) reason: &'static str,
    pub(crate) amount: u64,
    /// Of the amount: `bytes` or `data_points`.
    unit: &'static str,
}

/// Writes a list of those that are not zero.
pub(crate) fn serialize<S: Serializer>(of: &&SourceFigures, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(each(of).filter(|lost| lost.amount > 0))
}

/// Every reason, with what was lost for it or nothing.
pub(crate) fn each(of: &SourceFigures) -> impl Iterator<Item = Lost<'_>> {
    let logs = of.container_logs.iter().flat_map(|logs| logs.lost_bytes.iter().copied());
    let logs = logs.map(|(reason, amount)| Lost { what: "container_logs", job: None, reason, amount, unit: "bytes" });
    let points = |what, job, reason, amount| Lost { what, job, reason, amount, unit: "data_points" };
    let scrapes = of.scrapes.iter().flat_map(move |scrapes| {
        let job = Some(&*scrapes.job);
        scrapes.lost.iter().map(move |(reason, amount)| points("scrapes", job, *reason, *amount))
    });
    let runtime = of.runtime_lost.iter();
    let runtime = runtime.map(move |(reason, amount)| points("runtime_metrics", None, *reason, *amount));
    logs.chain(scrapes).chain(runtime)
}

/// The same of the page `/api/now`, in a sentence, and with `/api/history` how fast it grows; `None` if nothing was lost.
pub(crate) fn words(page: &Value, past: &Value) -> Option<String> {
    let list = |of: &Value| of["before_books"].as_array().cloned().unwrap_or_default();
    let rates = list(past);
    let rate_of = |lost: &Value| {
        let is_same = |of: &&Value| ["what", "job", "reason"].iter().all(|field| of[*field] == lost[*field]);
        rates.iter().find(is_same).and_then(|of| of["amount_per_second"].as_f64()).filter(|rate| *rate > 0.0)
    };
    let all: Vec<_> = list(page).iter().map(|lost| phrase(lost, rate_of(lost))).collect();
    (!all.is_empty()).then(|| format!("Lost before it came into any books: {}.", all.join("; ")))
}

/// `now`: how fast it grows, in its unit, if it does.
fn phrase(lost: &Value, now: Option<f64>) -> String {
    let [what, job, reason] = ["what", "job", "reason"].map(|field| lost[field].as_str().unwrap_or_default());
    let (amount, is_bytes) = (number(&lost["amount"]), lost["unit"] == "bytes");
    let amount = if is_bytes { bytes(amount) } else { count(amount, "data point") };
    let of = if job.is_empty() { reason.to_owned() } else { format!("{job}, {reason}") };
    let unit = if is_bytes { " B" } else { "" };
    let now = now.map_or_else(String::new, |now| format!("; {}{unit}/s now", rate(now)));
    format!("{amount} of {} ({of}{now})", what.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_engine::view::ContainerLogFigures;

    use super::*;

    fn page(of: &SourceFigures) -> Value {
        json!({"before_books": serialize(&of, serde_json::value::Serializer).unwrap()})
    }

    #[test]
    fn what_is_not_zero_is_told_with_its_reason() {
        assert_eq!(words(&page(&SourceFigures::default()), &Value::Null), None);
        let lost_bytes = vec![("removed", 2048), ("overwritten", 0)];
        let of = SourceFigures {
            container_logs: Some(ContainerLogFigures { lost_bytes, ..ContainerLogFigures::default() }),
            runtime_lost: [("no_room", 1)].into(),
            ..SourceFigures::default()
        };
        let page = page(&of);
        let expected = json!([
            {"what": "container_logs", "job": null, "reason": "removed", "amount": 2048, "unit": "bytes"},
            {"what": "runtime_metrics", "job": null, "reason": "no_room", "amount": 1, "unit": "data_points"},
        ]);
        assert_eq!(page["before_books"], expected);
        let said = "Lost before it came into any books: 2.0 KiB of container logs (removed); 1 data point of runtime metrics \
                    (no_room).";
        assert_eq!(words(&page, &Value::Null).as_deref(), Some(said));
        let scrape =
            json!({"what": "scrapes", "job": "static", "reason": "no_memory", "amount": 7, "unit": "data_points"});
        assert_eq!(phrase(&scrape, None), "7 data points of scrapes (static, no_memory)");
        assert_eq!(phrase(&scrape, Some(0.4)), "7 data points of scrapes (static, no_memory; 0.4/s now)");
        let grows = json!({"what": "container_logs", "job": null, "reason": "removed", "amount_per_second": 512.0});
        let is_over = json!({"what": "runtime_metrics", "job": null, "reason": "no_room", "amount_per_second": 0.0});
        let said = "Lost before it came into any books: 2.0 KiB of container logs (removed; 512 B/s now); 1 data point of \
                    runtime metrics (no_room).";
        assert_eq!(words(&page, &json!({"before_books": [is_over, grows]})).as_deref(), Some(said));
    }
}
