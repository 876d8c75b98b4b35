//! An examination as text: first what is wrong, then everything that was seen.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use serde_json::Value;
use weir_legible::line;

use super::findings::amounts;
use super::{Examination, Part, PodSeen, Resource, Totals};

/// Writes the report.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(seen: &Examination, out: &mut impl Write) -> io::Result<()> {
    let mut text = String::new();
    // Writing to a text never fails.
    let _ = all(seen, &mut text);
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn all(seen: &Examination, out: &mut String) -> fmt::Result {
    judgement(out, seen)?;
    head(out, "Cluster")?;
    let unknown = || "unknown".to_owned();
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(unknown);
    writeln!(out, "API server {}, namespace {}", or_unknown(&seen.api_server), seen.namespace)?;
    writeln!(out, "operator that leads: {}", or_unknown(&seen.leader))?;
    writeln!(out, "configuration of the nodes: revision {}", or_unknown(&seen.revision))?;
    head(out, "Pipelines and Telemetry")?;
    seen.resources.iter().try_for_each(|resource| self::resource(out, resource))?;
    none(out, seen.resources.is_empty())?;
    head(out, "Data, since the nodes started")?;
    let totals = seen.totals();
    totals.iter().try_for_each(|(pipeline, totals)| books(out, pipeline, totals))?;
    none(out, totals.is_empty())?;
    head(out, "Pods")?;
    seen.pods.iter().try_for_each(|pod| self::pod(out, pod))?;
    none(out, seen.pods.is_empty())?;
    head(out, "Certificates of pipelines and of the webhooks")?;
    for certificate in &seen.certificates {
        let left = certificate.ends.duration_since(seen.now);
        let left = left.map_or_else(|_| "expired".to_owned(), |left| format!("{} days left", left.as_secs() / 86_400));
        writeln!(out, "{}: {}, {left}", certificate.what, certificate.subject)?;
    }
    none(out, seen.certificates.is_empty())?;
    head(out, "Warnings among events")?;
    seen.events.iter().try_for_each(|event| writeln!(out, "{}", one_line(event)))?;
    none(out, seen.events.is_empty())?;
    head(out, "Warnings and errors in logs")?;
    let logs: Vec<_> = seen.pods.iter().filter(|pod| !pod.log.is_empty()).collect();
    for pod in &logs {
        writeln!(out, "{}:", pod.name)?;
        pod.log.iter().try_for_each(|line| writeln!(out, "  {}", one_line(line)))?;
    }
    none(out, logs.is_empty())?;
    if !seen.unread.is_empty() {
        head(out, "What could not be read")?;
        seen.unread.iter().try_for_each(|what| writeln!(out, "{}", one_line(what)))?;
    }
    Ok(())
}

/// What is wrong, and then what nobody knows.
fn judgement(out: &mut String, seen: &Examination) -> fmt::Result {
    let (findings, notes) = (seen.findings(), seen.notes());
    match findings.len() {
        0 if !seen.unread.is_empty() => {
            writeln!(out, "Nothing is wrong with what could be read; some of it could not, see below.")?;
        }
        0 if !notes.is_empty() => writeln!(out, "Nothing is wrong, as far as can be seen; not all is known yet.")?,
        0 => writeln!(out, "All is well, as far as can be seen.")?,
        1 => writeln!(out, "1 thing is wrong.")?,
        count => writeln!(out, "{count} things are wrong.")?,
    }
    for (index, finding) in findings.iter().enumerate() {
        writeln!(out, "\n{:>3}. {}\n     {}", index + 1, one_line(&finding.what), finding.advice)?;
    }
    notes.iter().try_for_each(|note| writeln!(out, "\n  -  {}\n     {}", one_line(&note.what), note.advice))
}

fn head(out: &mut String, title: &str) -> fmt::Result {
    writeln!(out, "\n{title}\n{}", "-".repeat(title.len()))
}

fn none(out: &mut String, is_empty: bool) -> fmt::Result {
    if is_empty { writeln!(out, "none") } else { Ok(()) }
}

fn resource(out: &mut String, resource: &Resource) -> fmt::Result {
    let Resource { kind, name, generation, state, conditions } = resource;
    let state = state.as_ref().map(|state| format!(", {state}")).unwrap_or_default();
    writeln!(out, "{kind} {name}, generation {generation}{state}")?;
    for condition in conditions {
        let super::ConditionSeen { kind, status, reason, message, last_transition_time, .. } = condition;
        writeln!(out, "  {kind:<24} {status:<8} {reason}, since {last_transition_time}")?;
        if status != "True" {
            writeln!(out, "    {}", one_line(message))?;
        }
    }
    Ok(())
}

fn books(out: &mut String, pipeline: &str, totals: &Totals) -> fmt::Result {
    let Totals { delivered, pending, dropped, rejected, sick, .. } = totals;
    write!(out, "{pipeline}: delivered {delivered}, pending {pending}")?;
    writeln!(out, ", dropped {}, rejected {}", amounts(dropped), amounts(rejected))?;
    if totals.is_backend_unknown() {
        writeln!(out, "  backend: no request to it has ended yet")?;
    }
    sick.iter().try_for_each(|(node, words)| writeln!(out, "  backend, as {node} sees it: {}", one_line(words)))
}

fn pod(out: &mut String, pod: &PodSeen) -> fmt::Result {
    let PodSeen { name, part, node, image, ready, ending, restarts, last_end, page, .. } = pod;
    let part = if *part == Part::Operator { "operator" } else { "node" };
    let ready = match (ending, ready) {
        (true, _) => "ending",
        (_, true) => "ready",
        _ => "not ready",
    };
    let end = last_end.as_ref().map(|end| format!(", the last time after {end}")).unwrap_or_default();
    let restarts = if *restarts == 0 { String::new() } else { format!(", started again {restarts} times{end}") };
    let pending = page.as_ref().map(|page| format!(", pending {}", pending(page))).unwrap_or_default();
    writeln!(out, "{name} ({part}) on {node}: {ready}{restarts}{pending}, image {image}")
}

/// What a node owes for all pipelines together: a workload that is not needed any more stays until it is nothing.
fn pending(page: &Value) -> u64 {
    let pipelines = page["pipelines"].as_array().into_iter().flatten();
    pipelines.filter_map(|pipeline| pipeline["pending"].as_u64()).fold(0, u64::saturating_add)
}

/// Texts come from elsewhere: none of them may look like a part of the report, or control a terminal.
fn one_line(text: &str) -> String {
    line(text, usize::MAX)
}
