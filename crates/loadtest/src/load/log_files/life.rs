//! One container in one pod: what it writes, and when.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::args::{FateArgs, Format};
use super::chain::{Chain, Held};
use super::kubelet::Counter;
use super::manifest::{ContainerEntry, Pod, StreamEntry};
use super::text::{Clock, Piece, Texts};
use crate::lines::{LineId, Stream};

/// What all containers are told to do.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) directory: PathBuf,
    pub(super) namespace: String,
    pub(super) seed: u64,
    pub(super) pace: Pace,
    pub(super) lines: u64,
    pub(super) format: Format,
    pub(super) stderr: f64,
    pub(super) partial: f64,
    pub(super) parts: u16,
    pub(super) tear: Option<Duration>,
    pub(super) holes: f64,
    pub(super) fate: Arc<FateArgs>,
}

/// How fast a container writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pace {
    Free,
    /// Lines per second.
    Lines(f64),
    /// Bytes per second.
    Bytes(f64),
}

/// What the containers of one thread share.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) texts: Texts,
    pub(super) clock: Clock,
    pub(super) block: Vec<u8>,
}

/// A container that writes.
#[derive(Debug)]
pub(super) struct Life {
    orders: Arc<Orders>,
    pod: Pod,
    chain: Chain,
    rng: fastrand::Rng,
    pub(super) started: Instant,
    /// Lines of each stream of which something was written.
    begun: [u64; 2],
    split: [u64; 2],
    /// Of lines that were begun.
    parts: VecDeque<Part>,
    torn: Vec<u8>,
    torn_until: Instant,
}

/// A part of a line.
#[derive(Debug, Clone, Copy)]
struct Part {
    stream: Stream,
    sequence: u64,
    from: usize,
    to: usize,
}

/// Most bytes of a block, unless a single line has more.
const BLOCK: usize = 64 << 10;
/// More than what any runtime writes around a text.
const AROUND: usize = 128;
/// Rates are kept in steps of this length.
const STEP: Duration = Duration::from_millis(1);
/// Of 256 parts, after how many something may come between it and the next: a rotation, or time.
const PAUSES: u8 = 8;

impl Life {
    /// Starts the container with this number.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub(super) fn start(orders: Arc<Orders>, number: u32, counter: Counter) -> anyhow::Result<Self> {
        // Far apart in the seeds too: neighbours of a seed have nothing in common.
        let mut rng = fastrand::Rng::with_seed(orders.seed ^ (u64::from(number) << 32));
        let pod = Pod::new(&orders.namespace, number, &mut rng);
        let chain = Chain::create(orders.directory.join(pod.path()), Arc::clone(&orders.fate), counter)?;
        let started = Instant::now();
        Ok(Self {
            orders,
            pod,
            chain,
            rng,
            started,
            begun: [0; 2],
            split: [0; 2],
            parts: VecDeque::new(),
            torn: Vec::new(),
            torn_until: started,
        })
    }

    /// Does what is due: the rest of a torn line, a rotation, a restart, a block of lines.
    pub(super) fn turn(&mut self, now: Instant, bench: &mut Bench) -> anyhow::Result<()> {
        if !self.torn.is_empty() {
            if now < self.torn_until {
                return self.chain.tend(now, true);
            }
            self.mend()?;
        }
        self.chain.tend(now, false)?;
        if self.chain.restart_is_due(now) {
            self.finish(bench)?;
            self.chain.restart()?;
        }
        self.write(now, bench, false)?;
        self.chain.tend(now, !self.torn.is_empty())
    }

    /// The container ends: all lines and rotations that were begun are finished.
    pub(super) fn end(&mut self, bench: &mut Bench) -> anyhow::Result<()> {
        self.finish(bench)?;
        self.chain.settle()
    }

    /// Writes the rest of all lines that were begun.
    fn finish(&mut self, bench: &mut Bench) -> anyhow::Result<()> {
        self.mend()?;
        while !self.parts.is_empty() {
            self.write(self.started, bench, true)?;
            self.mend()?;
        }
        Ok(())
    }

    /// Whether all lines were written.
    pub(super) fn is_done(&self) -> bool {
        self.left() == 0 && self.parts.is_empty() && self.torn.is_empty()
    }

    /// When [`Self::turn`] has something to do; none when it never has.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        if !self.torn.is_empty() {
            return Some(self.torn_until);
        }
        let write = match self.orders.pace {
            Pace::Free if !self.is_done() => Some(now),
            _ if !self.parts.is_empty() => Some(now + STEP),
            _ if self.left() == 0 => None,
            Pace::Free => None,
            // A block was not enough.
            _ if self.owes(now, 0) => Some(now),
            Pace::Lines(rate) => Some(self.at((self.lines() + 1) as f64 / rate).max(now + STEP)),
            Pace::Bytes(rate) => Some(self.at((self.chain.books.bytes + 1) as f64 / rate).max(now + STEP)),
        };
        let restart = self.chain.next_restart().map(|at| at.max(now + STEP));
        [write, restart, self.chain.next(now)].into_iter().flatten().min()
    }

    /// Removes the directory of the pod.
    pub(super) fn remove(&mut self) -> anyhow::Result<()> {
        self.chain.remove()
    }

    /// What was written, for the manifest.
    pub(super) fn entry(&self) -> ContainerEntry {
        let books = &self.chain.books;
        let stream = |stream: Stream| {
            let index = stream as usize;
            let deleted = &books.deleted[index];
            StreamEntry {
                stream,
                lines: self.begun[index],
                split_lines: self.split[index],
                deleted_lines: deleted.len(),
                deleted: deleted.ranges(),
            }
        };
        ContainerEntry {
            pod: self.pod.clone(),
            bytes: books.bytes,
            restarts: books.restarts,
            rotations: books.rotations,
            files: books.files,
            files_deleted: books.files_deleted,
            inodes_reused: books.inodes_reused,
            streams: Stream::ALL.map(stream).into(),
        }
    }

    fn at(&self, seconds: f64) -> Instant {
        self.started + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(3600))
    }

    fn lines(&self) -> u64 {
        self.begun.iter().sum()
    }

    fn left(&self) -> u64 {
        self.orders.lines.saturating_sub(self.lines())
    }

    /// Whether the pace wants another line after `pending` bytes that are not written yet.
    fn owes(&self, now: Instant, pending: usize) -> bool {
        let seconds = now.saturating_duration_since(self.started).as_secs_f64();
        match self.orders.pace {
            Pace::Free => true,
            Pace::Lines(rate) => (self.lines() + 1) as f64 <= seconds * rate,
            Pace::Bytes(rate) => ((self.chain.books.bytes + pending as u64) as f64) < seconds * rate,
        }
    }

    /// Writes a block of what is owed, or of the parts of lines that were begun.
    fn write(&mut self, now: Instant, bench: &mut Bench, only_begun: bool) -> anyhow::Result<()> {
        let mut held = Held::default();
        let mut last_piece = 0;
        bench.block.clear();
        bench.clock.set(Timestamp::now());
        while bench.block.is_empty() || bench.block.len() + bench.texts.length() + AROUND <= BLOCK {
            if self.parts.is_empty() {
                if only_begun || self.left() == 0 || !self.owes(now, bench.block.len()) {
                    break;
                }
                self.begin(bench.texts.length());
            }
            let Some(part) = self.parts.pop_front() else { break };
            last_piece = bench.block.len();
            self.write_part(part, bench);
            let (first, _) = held[part.stream as usize].unwrap_or((part.sequence, 0));
            held[part.stream as usize] = Some((first, part.sequence));
            if !self.parts.is_empty() && self.rng.u8(..) < PAUSES {
                break;
            }
        }
        let whole = bench.block.len();
        let cut = match self.orders.tear {
            Some(pause) if whole > 0 => {
                self.torn_until = Instant::now() + pause;
                last_piece + (whole - last_piece) / 2
            }
            _ => whole,
        };
        self.torn.extend_from_slice(&bench.block[cut..]);
        if whole == 0 {
            return Ok(());
        }
        self.chain.append(&bench.block[..cut], &held)?;
        // Only where the next line would begin: a hole within a line is another line.
        if self.torn.is_empty() && self.orders.holes > 0.0 && self.rng.f64() < self.orders.holes {
            self.chain.leave_hole()?;
        }
        Ok(())
    }

    fn write_part(&self, part: Part, bench: &mut Bench) {
        let id = LineId { container: self.pod.number, stream: part.stream, sequence: part.sequence };
        let text = bench.texts.stamped(id);
        let last = part.to == text.len();
        let piece = Piece { text: &text[part.from..part.to], stream: part.stream, last };
        self.orders.format.write(&mut bench.block, &mut bench.clock, piece);
    }

    /// Begins the next line, or one of each stream whose parts take turns.
    fn begin(&mut self, length: usize) {
        let stream = if self.rng.f64() < self.orders.stderr { Stream::Stderr } else { Stream::Stdout };
        if self.orders.partial == 0.0 || self.rng.f64() >= self.orders.partial {
            let sequence = self.next_sequence(stream);
            self.parts.push_back(Part { stream, sequence, from: 0, to: length });
            return;
        }
        let both = self.left() >= 2 && self.orders.stderr > 0.0 && self.orders.stderr < 1.0;
        let streams: &[Stream] = if both { &Stream::ALL } else { &[stream] };
        let mut queues: Vec<VecDeque<Part>> = streams.iter().map(|stream| self.split(*stream, length)).collect();
        while queues.iter().any(|queue| !queue.is_empty()) {
            self.parts.extend(queues.iter_mut().filter_map(VecDeque::pop_front));
        }
    }

    /// A line in parts, of which many are tiny.
    fn split(&mut self, stream: Stream, length: usize) -> VecDeque<Part> {
        let sequence = self.next_sequence(stream);
        self.split[stream as usize] += 1;
        let mut cuts: Vec<usize> = (1..self.orders.parts).map(|_| self.rng.usize(1..length)).collect();
        cuts.extend([0, length]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|cut| Part { stream, sequence, from: cut[0], to: cut[1] }).collect()
    }

    fn next_sequence(&mut self, stream: Stream) -> u64 {
        self.begun[stream as usize] += 1;
        self.begun[stream as usize]
    }

    /// Writes the second half of a torn line.
    fn mend(&mut self) -> anyhow::Result<()> {
        if self.torn.is_empty() {
            return Ok(());
        }
        self.chain.append(&self.torn, &Held::default())?;
        self.torn.clear();
        Ok(())
    }
}
