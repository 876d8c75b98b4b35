//! `weir journal export`: what waits for a pipeline, as OTLP.
//!
//! An entry that cannot be read or translated is named on standard error and skipped, and the exit code says that one
//! is missing.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use weir_journal::{Depth, Entry, Exported};
use weir_otlp::{Error, Limits, Signal, to_json};
use weir_plan::PipelineId;

use super::{ExportArgs, ExportFormat, Journal, report, unreadable};

/// What is in the journal was checked against the gateway's limits before it was written.
const LIMITS: Limits = Limits { max_depth: u32::MAX, max_items: u32::MAX };

pub(super) fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let to_terminal = args.output.is_none() && io::stdout().is_terminal();
    if to_terminal && args.format == ExportFormat::Protobuf {
        bail!("cannot write protobuf to a terminal: redirect it, or name a file with --output");
    }
    let journal = Journal::open(&args.dir, !to_terminal)?;
    let queue = find_queue(&journal, &args.pipeline)?;
    let is_traces = queue.parse::<PipelineId>().is_ok_and(|id| id.signal == Signal::Traces);
    if args.format == ExportFormat::Json && !is_traces {
        bail!("cannot write {queue} as JSON: only traces can be; use --format protobuf");
    }
    let mut export = Export::new(args.format, Out::open(args)?);
    let exported = weir_journal::export(&journal.fs, &queue, &mut |entry, payload| export.entry(entry, payload));
    journal.fs.clear();
    let written = match exported {
        Ok(exported) => export.out.finish().map(|()| exported),
        Err(error) if export.write_failed => Err(error),
        Err(error) => return Err(error).with_context(|| unreadable(&journal.path)),
    };
    match written {
        Ok(exported) => Ok(export.summarise(&queue, &exported)),
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error).with_context(|| match &args.output {
            Some(file) => format!("cannot write to {}", file.display()),
            None => "cannot write to standard output".to_owned(),
        }),
    }
}

/// The queue of a pipeline that is given with or without its signal.
fn find_queue(journal: &Journal, pipeline: &str) -> anyhow::Result<String> {
    let queues = journal.inspect(Depth::Headers)?.queues;
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let is_meant =
        |name: &&&str| **name == pipeline || name.parse::<PipelineId>().is_ok_and(|id| id.is_called(pipeline));
    let meant: Vec<&str> = names.iter().filter(is_meant).copied().collect();
    let place = journal.path.display();
    match (meant.as_slice(), names.as_slice()) {
        ([only], _) => Ok((*only).to_owned()),
        ([], []) => bail!("nothing waits for pipeline {pipeline:?} in {place}, or for any other"),
        ([], _) => {
            bail!("nothing waits for pipeline {pipeline:?} in {place}; something waits for: {}", names.join(", "))
        }
        _ => bail!("{pipeline:?} may be any of several pipelines; write one of: {}", meant.join(", ")),
    }
}

struct Export {
    format: ExportFormat,
    out: Out,
    /// The output does not take more.
    write_failed: bool,
    entries: u64,
    items: u64,
    /// Entries that are no OTLP requests.
    refused: u64,
    unknown_fields: u64,
}

impl Export {
    fn new(format: ExportFormat, out: Out) -> Self {
        Self { format, out, write_failed: false, entries: 0, items: 0, refused: 0, unknown_fields: 0 }
    }

    fn entry(&mut self, entry: &Entry, payload: &[u8]) -> io::Result<()> {
        let written = match self.format {
            ExportFormat::Json => match to_json(Signal::Traces, payload, &LIMITS) {
                Ok(json) => {
                    self.unknown_fields += json.unknown_fields;
                    self.out.write(&[&json.text, b"\n"])
                }
                Err(error) => {
                    self.refuse(&error);
                    return Ok(());
                }
            },
            ExportFormat::Protobuf => self.out.write(&[&varint(payload.len()), payload]),
        };
        self.write_failed = written.is_err();
        self.entries += 1;
        self.items += u64::from(entry.items);
        written
    }

    fn refuse(&mut self, error: &Error) {
        self.refused += 1;
        if self.refused == 1 {
            tracing::error!(
                %error,
                "an entry is not an OTLP request and is left out; --format protobuf has it as it is"
            );
        }
    }

    /// Says what was exported, and what was not.
    fn summarise(&self, queue: &str, exported: &Exported) -> ExitCode {
        let Exported { damage, elsewhere, .. } = exported;
        for report in damage {
            tracing::error!("damaged and left out: {report}");
        }
        for report in elsewhere {
            tracing::warn!("damaged, but nothing is missing here for it: {report}");
        }
        if self.unknown_fields > 0 {
            tracing::warn!(
                fields = self.unknown_fields,
                "fields that this version has no names for are not in the JSON; --format protobuf has them"
            );
        }
        let left_out = self.refused + report::places(damage);
        tracing::info!(pipeline = queue, entries = self.entries, items = self.items, left_out, "exported");
        if left_out == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Where the export goes.
enum Out {
    Stdout(BufWriter<StdoutLock<'static>>),
    File(BufWriter<File>),
}

impl Out {
    fn open(args: &ExportArgs) -> anyhow::Result<Self> {
        let Some(path) = &args.output else {
            return Ok(Self::Stdout(BufWriter::new(io::stdout().lock())));
        };
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self::File(BufWriter::new(file)))
    }

    fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let out: &mut dyn Write = match self {
            Self::Stdout(out) => out,
            Self::File(out) => out,
        };
        parts.iter().try_for_each(|part| out.write_all(part))
    }

    /// Flushes everything. A file is synced to disk, because the journal may be deleted next.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File(out) => {
                out.flush()?;
                // A device or a pipe has no disk below it.
                let file = out.get_ref();
                if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
            }
        }
    }
}

/// A length as protobuf writes it.
fn varint(length: usize) -> Vec<u8> {
    let mut rest = length;
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = (rest & 0x7f).to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
