//! A worker: one connection, one request in flight, one buffer that is stamped and sent again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{Connection, Outcome, Target};
use super::payload::{Shape, Stamp, Template};
use super::report::{Progress, Tally};
use crate::codec::Compression;
use crate::grpc;
use crate::runtime::unix_nanos;

/// What all workers share.
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) shape: Shape,
    pub(crate) template: Template,
    pub(crate) schedule: Schedule,
    pub(crate) timeout: Duration,
    pub(crate) retry: bool,
    pub(crate) trace_seed: u64,
    pub(crate) progress: Progress,
}

/// Which request is due when, and which ids it carries.
pub(crate) struct Schedule {
    pub(crate) start: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Time between two requests; zero sends as fast as answers come.
    pub(crate) interval: Duration,
    pub(crate) first_id: u64,
    pub(crate) batch: u64,
    /// Number of items to send in all.
    pub(crate) total: Option<u64>,
    pub(crate) next: AtomicU64,
}

/// One request to send.
struct Slot {
    due: Instant,
    first_id: u64,
    items: u64,
}

impl Schedule {
    /// The next request, or none when enough was sent.
    fn next(&self) -> Option<Slot> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let offset = index.checked_mul(self.batch)?;
        let items = match self.total {
            Some(total) => self.batch.min(total.checked_sub(offset)?),
            None => self.batch,
        };
        let first_id = self.first_id.checked_add(offset)?;
        first_id.checked_add(items)?;
        let due = if self.interval.is_zero() {
            Instant::now()
        } else {
            let index = u32::try_from(index).ok()?;
            self.start.checked_add(self.interval.checked_mul(index)?)?
        };
        let in_time = self.deadline.is_none_or(|deadline| due < deadline && Instant::now() < deadline);
        (items > 0 && in_time).then_some(Slot { due, first_id, items })
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn no_later(&self, instant: Instant) -> Instant {
        self.deadline.map_or(instant, |deadline| instant.min(deadline))
    }

    /// When an answer to a request sent now is no longer awaited.
    fn answer_by(&self, timeout: Duration) -> Instant {
        let limit = Instant::now() + timeout;
        self.deadline.map_or(limit, |deadline| limit.min(deadline + GRACE))
    }
}

/// Pause after a failed connection attempt and after a refusal without a hint.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause a refusal can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long answers are awaited after a stop or past the deadline.
const GRACE: Duration = Duration::from_secs(5);

/// Sends until the schedule ends or `stop` turns true.
///
/// # Errors
/// A request cannot be built; what goes wrong on the network is an outcome, not an error.
pub(crate) async fn run(plan: Arc<Plan>, stop: watch::Receiver<bool>) -> anyhow::Result<Tally> {
    let mut worker = Worker {
        plan: &plan,
        stop,
        connection: None,
        buffer: BytesMut::from(plan.template.bytes()),
        tally: Tally::default(),
    };
    // Connect first: a request that cannot be sent takes no ids.
    while worker.connect().await? {
        let Some(slot) = plan.schedule.next() else { break };
        // The server may have retired the connection during the pause.
        if !worker.pause_until(slot.due).await || !worker.connect().await? {
            break;
        }
        worker.deliver(&slot).await?;
    }
    Ok(worker.tally)
}

struct Worker<'a> {
    plan: &'a Plan,
    stop: watch::Receiver<bool>,
    connection: Option<Connection>,
    buffer: BytesMut,
    tally: Tally,
}

impl Worker<'_> {
    /// Makes sure there is a connection; false when the run ended before there was one.
    ///
    /// # Errors
    /// Nobody answered for the time that one request may take, and never did before, whichever worker asked: the address
    /// is wrong. A server that was there once may come back.
    async fn connect(&mut self) -> anyhow::Result<bool> {
        let patience = Instant::now() + self.plan.timeout;
        while !self.is_connected().await {
            if self.plan.schedule.is_over() || *self.stop.borrow() {
                return Ok(false);
            }
            match self.plan.target.connect().await {
                Ok(connection) => self.connection = Some(connection),
                Err(error) if self.was_never_there() && Instant::now() >= patience => {
                    return Err(error.context("gave up, because nobody ever answered (is the endpoint right?)"));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot connect, trying again");
                    self.tally.connect_failures += 1;
                    self.pause_until(Instant::now() + PAUSE).await;
                }
            }
        }
        Ok(true)
    }

    fn was_never_there(&self) -> bool {
        self.tally.requests == 0 && !self.plan.progress.is_answered()
    }

    async fn is_connected(&mut self) -> bool {
        match &mut self.connection {
            Some(connection) => connection.is_open().await,
            None => false,
        }
    }

    /// False when the run was stopped first.
    async fn pause_until(&mut self, until: Instant) -> bool {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => false,
            () = tokio::time::sleep_until(until) => true,
        }
    }

    /// Sends one request; with `--retry`, until it is acknowledged or the run ends.
    async fn deliver(&mut self, slot: &Slot) -> anyhow::Result<()> {
        self.tally.lateness.record(nanos(slot.due.elapsed()), 1);
        let raw = self.stamped(slot)?;
        let body = self.encoded(&raw)?;
        loop {
            self.tally.requests += 1;
            self.tally.sent_items += slot.items;
            self.tally.bytes += body.len() as u64;
            let outcome = self.send(body.clone()).await;
            self.tally.settle(&outcome, slot.first_id, slot.items, &self.plan.progress);
            let proceed = match &outcome {
                Outcome::Acked { .. } => {
                    self.tally.latency.record(nanos(slot.due.elapsed()), 1);
                    break;
                }
                Outcome::Refused { hint, .. } => {
                    let pause = hint.unwrap_or(PAUSE).min(LONGEST_PAUSE);
                    self.pause_until(self.plan.schedule.no_later(Instant::now() + pause)).await
                }
                Outcome::Unknown(_) => {
                    self.connection = None;
                    true
                }
            };
            if !self.plan.retry || !proceed || self.plan.schedule.is_over() || !self.connect().await? {
                break;
            }
        }
        drop(body);
        // The transport may still hold the bytes of a request that was answered before it was read.
        self.buffer = raw.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        Ok(())
    }

    /// The request with its ids and times in place.
    fn stamped(&mut self, slot: &Slot) -> anyhow::Result<Bytes> {
        let stamp = Stamp {
            first_id: slot.first_id,
            unix_nanos: unix_nanos().saturating_sub(nanos(slot.due.elapsed())),
            trace_seed: self.plan.trace_seed,
        };
        if slot.items == self.plan.template.items() {
            let mut buffer = std::mem::take(&mut self.buffer);
            self.plan.template.stamp(&mut buffer, stamp);
            return Ok(buffer.freeze());
        }
        let short = self.plan.template_of(u32::try_from(slot.items).context("a batch fits 32 bits")?)?;
        let mut bytes = short.bytes().to_vec();
        short.stamp(&mut bytes, stamp);
        Ok(bytes.into())
    }

    /// The body as it goes over the wire.
    fn encoded(&self, raw: &Bytes) -> anyhow::Result<Bytes> {
        let target = &self.plan.target;
        if target.compression == Compression::None {
            return Ok(raw.clone());
        }
        let compressed = target.compression.compress(raw).context("cannot compress request")?;
        if target.http {
            return Ok(compressed.into());
        }
        let mut framed = grpc::prefix(compressed.len(), true)?.to_vec();
        framed.extend_from_slice(&compressed);
        Ok(framed.into())
    }

    async fn send(&mut self, body: Bytes) -> Outcome {
        let Some(connection) = &mut self.connection else { return Outcome::Unknown("not connected".to_owned()) };
        let stop = &mut self.stop;
        let given_up = async {
            let limit = self.plan.schedule.answer_by(self.plan.timeout);
            tokio::select! {
                () = tokio::time::sleep_until(limit) => (),
                () = async { if stop.wait_for(|stop| *stop).await.is_ok() { tokio::time::sleep(GRACE).await } } => (),
            }
        };
        tokio::select! {
            biased;
            outcome = connection.send(&self.plan.target, body) => outcome,
            () = given_up => Outcome::Unknown("no answer in time".to_owned()),
        }
    }
}

impl Plan {
    /// A request of `items` items, framed for the target.
    pub(crate) fn template_of(&self, items: u32) -> anyhow::Result<Template> {
        template(&self.shape, items, &self.target)
    }
}

/// A request of `items` items as `target` wants it: compressed bodies are framed after compression.
pub(crate) fn template(shape: &Shape, items: u32, target: &Target) -> anyhow::Result<Template> {
    let template = Template::new(shape, items);
    if target.http || target.compression != Compression::None {
        return Ok(template);
    }
    template.with_grpc_prefix()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
