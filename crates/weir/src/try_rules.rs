//! `weir try`: what the pipelines of a configuration make of a sample, or of recent items of a running process.

mod recent;

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::Bytes;
use serde_json::{Deserializer, Value, json};
use similar::{ChangeTag, TextDiff};
use weir_engine::{Preview, RuleReport, Step, preview};
use weir_enrich::{PodList, Pods};
use weir_loadtest::output::printed;
use weir_otlp::{Limits, Signal};
use weir_resources::Loaded;

use crate::cli::{TryArgs, TryFormat};
use crate::configuration;
use crate::tables::{count, legible_json};

/// Largest sample; it is held in memory several times.
const MAX_SAMPLE_BYTES: u64 = 16 << 20;
/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Prints what becomes of the sample in each pipeline.
pub(crate) fn run(args: &TryArgs) -> anyhow::Result<ExitCode> {
    let input = match &args.input {
        Some(input) if !args.recent => input,
        _ => return recent::run(args),
    };
    if input == Path::new("-") && args.paths.iter().any(|path| path == Path::new("-")) {
        bail!("cannot read both the configuration and the sample from the standard input: name a file for one of them");
    }
    let Some(Loaded { mut plan, cluster, .. }) = configuration::for_command(&args.paths)? else {
        return Ok(ExitCode::FAILURE);
    };
    let pods: Arc<dyn Pods> = Arc::new(PodList::new(cluster));
    if let Some(name) = &args.pipeline {
        plan.pipelines.retain(|pipeline| pipeline.id.is_called(name));
        if plan.pipelines.is_empty() {
            bail!("cannot find a pipeline named {name:?} in the configuration");
        }
    }
    let (mut failed, mut first) = (false, true);
    let colours = io::stdout().is_terminal();
    for (signal, request) in read(input)? {
        if !plan.pipelines.iter().any(|pipeline| pipeline.id.signal == signal) {
            tracing::warn!(
                signal = signal.name(),
                bytes = request.len(),
                advice = "configure one, or leave this part out",
                "the configuration has no pipeline for this part of the sample"
            );
        }
        let previews = preview(&plan, &pods, signal, request.clone(), args.peer).map_err(anyhow::Error::msg)?;
        for preview in &previews {
            failed |= preview.rules.iter().any(|rule| rule.errors > 0);
            let mut output = Output { out: Vec::new(), colours, format: args.format };
            // People see where the next one begins.
            if !std::mem::take(&mut first) && args.format == TryFormat::Diff {
                writeln!(output.out)?;
            }
            output.show(signal, &request, preview)?;
            printed(io::stdout().write_all(&output.out))?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The requests of a sample, those of the same signal that follow each other as one.
fn read(input: &Path) -> anyhow::Result<Vec<(Signal, Bytes)>> {
    let is_standard = input == Path::new("-");
    let name = if is_standard { "on the standard input".to_owned() } else { input.display().to_string() };
    let unreadable = || format!("cannot read the sample {name}");
    let mut text = Vec::new();
    let from: Box<dyn Read> = match is_standard {
        true => Box::new(io::stdin()),
        false => Box::new(fs::File::open(input).with_context(unreadable)?),
    };
    from.take(MAX_SAMPLE_BYTES + 1).read_to_end(&mut text).with_context(unreadable)?;
    if text.len() as u64 > MAX_SAMPLE_BYTES {
        bail!("cannot use the sample {name}: it is larger than {} MiB", MAX_SAMPLE_BYTES >> 20);
    }
    let mut requests: Vec<(Signal, Vec<u8>)> = Vec::new();
    let mut documents = Deserializer::from_slice(&text).into_iter::<Value>();
    let mut start = 0;
    while let Some(document) = documents.next() {
        let document = document.with_context(|| format!("the sample {name} is not JSON"))?;
        let line = text[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        let Some(signal) = signal_of(&document) else {
            bail!(
                "the sample {name}: the document near line {line} has none of resourceSpans, resourceMetrics and resourceLogs"
            );
        };
        let here = &text[start..documents.byte_offset()];
        let request = weir_otlp::from_json(signal, here, &Limits::default(), usize::MAX)
            .with_context(|| format!("the sample {name}: the document near line {line} is not OTLP"))?;
        start = documents.byte_offset();
        match requests.last_mut() {
            Some((last, bytes)) if *last == signal => bytes.extend_from_slice(&request),
            _ => requests.push((signal, request)),
        }
    }
    if requests.is_empty() {
        bail!("the sample {name} is empty: an OTLP/JSON document is needed");
    }
    Ok(requests.into_iter().map(|(signal, bytes)| (signal, bytes.into())).collect())
}

fn signal_of(document: &Value) -> Option<Signal> {
    let has = |names: [&str; 2]| names.iter().any(|name| document.get(name).is_some());
    Signal::ALL.into_iter().find(|signal| match signal {
        Signal::Traces => has(["resourceSpans", "resource_spans"]),
        Signal::Metrics => has(["resourceMetrics", "resource_metrics"]),
        Signal::Logs => has(["resourceLogs", "resource_logs"]),
    })
}

fn document(signal: Signal, request: &[u8]) -> anyhow::Result<Value> {
    let json = weir_otlp::to_json(signal, request, &Limits::default())?;
    Ok(serde_json::from_slice(&json.text)?)
}

/// What is printed of one pipeline.
struct Output {
    out: Vec<u8>,
    colours: bool,
    format: TryFormat,
}

impl Output {
    fn show(&mut self, signal: Signal, before: &[u8], preview: &Preview) -> anyhow::Result<()> {
        let mut before_document = document(signal, before)?;
        if self.format == TryFormat::Json {
            return Ok(writeln!(self.out, "{}", as_json(signal, &before_document, preview)?)?);
        }
        self.summary(signal, before, preview)?;
        let mut changed = false;
        for Step { name, request, items } in &preview.steps {
            let after = document(signal, request)?;
            if after == before_document {
                continue;
            }
            changed = true;
            if *items == 0 {
                writeln!(self.out, "  {name} leaves nothing")?;
                break;
            }
            writeln!(self.out, "  {name} changes:")?;
            self.diff(&format!("{before_document:#}"), &format!("{after:#}"))?;
            before_document = after;
        }
        if !changed {
            writeln!(self.out, "  nothing changes")?;
        }
        Ok(())
    }

    fn summary(&mut self, signal: Signal, before: &[u8], preview: &Preview) -> io::Result<()> {
        let total = weir_otlp::count(signal, before);
        let item = match signal {
            Signal::Traces => "span",
            Signal::Metrics => "data point",
            Signal::Logs => "log record",
        };
        let (pipeline, total, out) = (&preview.pipeline, count(total, item), preview.items);
        match &preview.request {
            None => writeln!(self.out, "{pipeline}: takes none of {total}")?,
            Some(_) => writeln!(self.out, "{pipeline}: {total} in, {out} out")?,
        }
        for (reason, removed) in &preview.filtered {
            writeln!(self.out, "  {removed} removed: {reason}")?;
        }
        self.rules(&preview.rules)
    }

    fn rules(&mut self, rules: &[RuleReport]) -> io::Result<()> {
        for RuleReport { field, text, matched, filtered, errors, cause } in rules {
            let removed = if *filtered > 0 { format!(", {filtered} removed") } else { String::new() };
            writeln!(self.out, "  {field}: {matched} matched{removed}, {errors} failed: {text}")?;
            if let Some(cause) = cause {
                writeln!(self.out, "    {}", self.painted("31", cause))?;
            }
        }
        Ok(())
    }

    fn diff(&mut self, before: &str, after: &str) -> io::Result<()> {
        let diff = TextDiff::from_lines(before, after);
        for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
            let header = hunk.header().to_string();
            writeln!(self.out, "{}", self.painted("36", &header))?;
            for change in hunk.iter_changes() {
                // Whoever sent it, a terminal obeys none of it.
                let line = legible_json(change.value().trim_end_matches('\n'));
                match change.tag() {
                    ChangeTag::Delete => writeln!(self.out, "{}", self.painted("31", &format!("-{line}")))?,
                    ChangeTag::Insert => writeln!(self.out, "{}", self.painted("32", &format!("+{line}")))?,
                    ChangeTag::Equal => writeln!(self.out, " {line}")?,
                }
            }
        }
        Ok(())
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn as_json(signal: Signal, before: &Value, preview: &Preview) -> anyhow::Result<Value> {
    let rules: Vec<Value> = preview.rules.iter().map(rule_as_json).collect();
    let filtered: serde_json::Map<_, _> =
        preview.filtered.iter().map(|(reason, items)| ((*reason).to_owned(), json!(items))).collect();
    let after = preview.request.as_deref().map(|after| document(signal, after)).transpose()?;
    let step = |Step { name, request, items }: &Step| -> anyhow::Result<Value> {
        Ok(json!({"step": name, "items": items, "after": document(signal, request)?}))
    };
    let steps = preview.steps.iter().map(step).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "pipeline": preview.pipeline.to_string(), "items": preview.items, "filtered": filtered, "rules": rules,
        "before": before, "steps": steps, "after": after,
    }))
}

fn rule_as_json(rule: &RuleReport) -> Value {
    let RuleReport { field, text, matched, filtered, errors, cause } = rule;
    json!({
        "field": field, "text": text, "matched": matched, "filtered": filtered, "errors": errors, "cause": cause,
    })
}
