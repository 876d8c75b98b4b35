//! Reasons to doubt the figures of a trial.

use std::collections::BTreeMap;

use super::super::Settings;
use super::super::trial::Trial;
use crate::load::LoadReport;

/// Share of a core above which it counts as full.
const FULL: f64 = 0.95;
/// Share of the judge's cores above which a gateway that is less busy may have waited for them.
const NEARLY_FULL: f64 = 0.9;
/// CPU of strangers on the test's cores, in cores, above which figures are doubted.
const STRANGERS: f64 = 0.05;
/// Whether the judge, or something else on this machine, limited the figures.
#[expect(clippy::cast_precision_loss, reason = "numbers of cores are small")]
pub(crate) fn about_judge(settings: &Settings, trial: &Trial) -> Vec<String> {
    let mut doubts: Vec<String> = trial.load.bottleneck.iter().cloned().collect();
    let (before, after) = (&trial.before, &trial.after);
    let layout = &settings.layout;
    let judge = after.judge_cores.busy_since(before.judge_cores);
    let gateway = after.gateway_cores.busy_since(before.gateway_cores);
    if !layout.is_apart() {
        doubts.push("gateway and judge shared a single core: rates are those of both together".to_owned());
    } else if judge > NEARLY_FULL && gateway < FULL && judge > gateway {
        doubts.push(format!(
            "the judge was the limit, or close to it: its cores were {:.0} % busy, the gateway's {:.0} %",
            judge * 100.0,
            gateway * 100.0
        ));
    }
    let mut busy = after.judge_cores.processes_since(before.judge_cores) * layout.judge.len() as f64;
    if layout.is_apart() {
        busy += after.gateway_cores.processes_since(before.gateway_cores) * layout.gateway.len() as f64;
    }
    let ours = (after.gateway_cpu_seconds - before.gateway_cpu_seconds)
        + (after.sinks_cpu_seconds - before.sinks_cpu_seconds)
        + (after.own_cpu_seconds - before.own_cpu_seconds)
        + trial.load.cpu_seconds;
    let strangers = busy - ours / trial.measured_seconds();
    if strangers > STRANGERS {
        doubts.push(format!("other processes used {strangers:.2} cores on this machine: rates and latencies suffer"));
    }
    doubts
}

/// Whether the system's own counts say something else than the judge's.
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
pub(crate) fn about_counts(settings: &Settings, trial: &Trial) -> Vec<String> {
    let items = settings.signal().items();
    let mut doubts = Vec::new();
    let acked = trial.warmup.acked_items + trial.load.acked_items;
    let unknown = trial.warmup.unknown_items + trial.load.unknown_items;
    let received: u64 = trial.sinks.iter().map(|sink| sink.received).sum();
    let mut compare = |what: &str, own: Option<f64>, judged: u64, slack: u64| {
        if let Some(own) = own.filter(|own| (own - judged as f64).abs() > slack as f64) {
            doubts.push(format!("the system says it {what} {own:.0} {items}, the judge counted {judged}"));
        }
    };
    let view = &trial.settled.self_view;
    compare("accepted", view.accepted, acked, unknown);
    // What the system delivers while it shuts down comes after its last word.
    if view.pending.unwrap_or(0.0) == 0.0 && view.queue_size.unwrap_or(0.0) == 0.0 {
        // What was recorded and then not answered is sent again, and was sent once by the system's count.
        let twice = trial.sinks.iter().map(|sink| sink.duplicates).sum();
        compare("exported", view.sent, received, twice);
    }
    if unknown > 0 {
        doubts.push(format!("{unknown} {items} got no whole answer: {}", listed(&trial.load.errors)));
    }
    doubts
}

/// Whether clients were refused without being told when to come back.
pub(crate) fn about_refusals(trial: &Trial) -> Option<String> {
    let LoadReport { refused_without_hint, refused, .. } = &trial.load;
    (*refused_without_hint > 0)
        .then(|| format!("{refused_without_hint} refused requests had no retry hint: {}", listed(refused)))
}

/// How often what happened.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(what, count)| format!("{count} x {what}")).collect::<Vec<_>>().join(", ")
}
