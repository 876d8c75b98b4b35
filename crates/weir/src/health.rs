//! How data flows: looks at the engine's figures again and again, logs what changes, and keeps what is known for pages.
//! What is a trouble is decided in `weir-observe`.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::view::{BackendFigures, BackendState, Lack, PipelineFigures, Snapshot, View};
use weir_legible::{LeftOut, Unsteady, Warnings, rfc3339_seconds};
use weir_observe::{
    Backend, BeforeBooks, Change, Clients, Disk, EarlyLoss, Input, Inputs, Kept, Look, Moment, Monitor, Rhythm, Roles,
    State, Trouble, TurnedAway, Verdict, Waiting, message,
};
use weir_plan::{PipelineId, Signal};

/// Changes that are remembered. Each takes little more than the words of its backend, which are 500 characters at most.
const MOST_CHANGES: usize = 100;

/// What pages call a pipeline that cannot be set up, while nothing is wrong with how its data flows.
const SETUP_FAILED: &str = "setup_failed";

/// What is known of all pipelines. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdicts(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    now: BTreeMap<PipelineId, Verdict>,
    /// Why some cannot be set up as they are configured.
    setup_errors: BTreeMap<PipelineId, String>,
    /// What changed and when, in seconds since the Unix epoch; the oldest first.
    changes: VecDeque<(u64, Change)>,
}

impl Verdicts {
    /// What is known of one. All is well as long as nothing is known.
    pub(crate) fn of(&self, pipeline: &PipelineId) -> Verdict {
        self.lock().now.get(pipeline).cloned().unwrap_or_default()
    }

    fn set(&self, monitor: &Monitor, setup_errors: BTreeMap<PipelineId, String>, at: u64, changes: Vec<Change>) {
        let mut known = self.lock();
        known.setup_errors = setup_errors;
        known.now = monitor.verdicts().map(|(id, verdict)| (id.clone(), verdict.clone())).collect();
        known.changes.extend(changes.into_iter().map(|change| (at, change)));
        let excess = known.changes.len().saturating_sub(MOST_CHANGES);
        known.changes.drain(..excess);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks until it is aborted.
pub(crate) fn watch(view: View, every: Duration, verdicts: Verdicts) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (start, rhythm) = (Instant::now(), Rhythm::of(every));
        let (mut monitor, mut told) = (Monitor::new(rhythm), StateLog::default());
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Without memory for a snapshot nothing is seen this time.
            let Some(snapshot) = view.snapshot() else { continue };
            let (looks, setup_errors) = (looks(&snapshot), setup_errors(&snapshot));
            drop(snapshot);
            let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let changes = monitor.look(Moment { since_start: start.elapsed(), unix_seconds }, &looks);
            told.tell(&changes, &monitor, 2 * rhythm.long());
            verdicts.set(&monitor, setup_errors, unix_seconds, changes);
        }
    })
}

fn looks(snapshot: &Snapshot) -> Vec<(PipelineId, Look)> {
    let disk = disk(snapshot);
    snapshot.pipelines.iter().map(|of| (of.id.clone(), look(snapshot, of, disk))).collect()
}

fn setup_errors(snapshot: &Snapshot) -> BTreeMap<PipelineId, String> {
    snapshot.pipelines.iter().filter_map(|of| Some((of.id.clone(), of.setup_error.clone()?))).collect()
}

/// What is said of a pipeline that cannot be set up.
pub(crate) fn not_set_up(cause: &str) -> String {
    format!(
        "It cannot be set up as it is configured: {cause}. What it does meanwhile is in \
         docs/reload.md#when-a-pipeline-cannot-be-set-up."
    )
}

/// `None` if nothing is known of it.
fn disk(snapshot: &Snapshot) -> Option<Disk> {
    let journal = snapshot.journal.as_ref()?;
    let (free_bytes, used_bytes) = (journal.disk_free_bytes?, journal.disk_bytes);
    let backlogs = snapshot.pipelines.iter().filter_map(|of| of.backlog);
    Some(backlogs.fold(Disk { free_bytes, used_bytes, ..Disk::default() }, |disk, backlog| Disk {
        kept_bytes: disk.kept_bytes.saturating_add(backlog.bytes),
        left_bytes: disk.left_bytes.saturating_add(backlog.limit_bytes.saturating_sub(backlog.bytes)),
        ..disk
    }))
}

fn look(snapshot: &Snapshot, pipeline: &PipelineFigures, disk: Option<Disk>) -> Look {
    let (books, signal) = (&pipeline.books, pipeline.id.signal);
    Look {
        accepted: books.accepted,
        delivered: books.delivered,
        dropped: books.dropped.values().sum(),
        rejected: books.rejected.values().sum(),
        before_books: before_books(pipeline),
        refused: pipeline.refused_items,
        waiting: waiting(pipeline, disk),
        backend: backend(&pipeline.backend),
        last_refusal: pipeline.backend.last_refusal.clone(),
        clients: if pipeline.is_pushed_to { clients(snapshot, signal) } else { Clients::default() },
        inputs: Inputs {
            pushed: if pipeline.is_pushed_to { pushed(snapshot, signal) } else { Input::Off },
            collected: if pipeline.is_collected_for { collected(snapshot, signal) } else { Input::Off },
        },
    }
}

fn before_books(pipeline: &PipelineFigures) -> BeforeBooks {
    use weir_engine::EarlyLoss as Loss;

    let last = pipeline.before_books.last.map_or(EarlyLoss::Other, |last| match last {
        Loss::Removed => EarlyLoss::Removed,
        Loss::Overwritten => EarlyLoss::Overwritten,
        Loss::Unreadable => EarlyLoss::Unreadable,
        Loss::OverLimit => EarlyLoss::OverLimit,
        Loss::NoMemory => EarlyLoss::NoMemory,
        Loss::NoCpu => EarlyLoss::NoCpu,
        Loss::NoRoom => EarlyLoss::NoRoom,
        Loss::TooLarge => EarlyLoss::TooLarge,
    });
    BeforeBooks { items: pipeline.before_books.items, last }
}

fn waiting(pipeline: &PipelineFigures, disk: Option<Disk>) -> Waiting {
    let (items, oldest) = (pipeline.books.pending, pipeline.oldest_age);
    match pipeline.backlog {
        Some(backlog) => Waiting {
            items,
            bytes: pipeline.pending_bytes,
            room_bytes: backlog.limit_bytes,
            room_time: Some(backlog.limit_age),
            oldest,
            disk,
        },
        None => {
            let bytes = pipeline.held_bytes as u64;
            let room_bytes = pipeline.share_bytes as u64;
            Waiting { items, bytes, room_bytes, room_time: None, oldest, disk: None }
        }
    }
}

fn backend(figures: &BackendFigures) -> Backend {
    match figures.state {
        BackendState::Ok => Backend::Takes,
        BackendState::Failing => Backend::AsksForTime(figures.words()),
        BackendState::Silent | BackendState::Unreachable => Backend::IsAway(figures.words()),
        BackendState::Unsent => Backend::IsNotAsked(format!("not asked, as requests fail here: {}", figures.words())),
        BackendState::Refused => Backend::Refuses(figures.words()),
    }
}

fn clients(snapshot: &Snapshot, signal: Signal) -> Clients {
    let transports = || snapshot.receivers.transports.iter();
    let turned_away =
        |lack: Lack| -> u64 { transports().map(|of| of.turned_away[lack as usize][signal as usize]).sum() };
    Clients {
        requests: transports().map(|of| of.answers[signal as usize].count()).sum(),
        turned_away: TurnedAway {
            no_memory: turned_away(Lack::Memory),
            pipelines_full: turned_away(Lack::Pipelines),
            disk: turned_away(Lack::Disk),
            busy: turned_away(Lack::Turns),
        },
    }
}

/// What clients push, for all pipelines of the signal.
fn pushed(snapshot: &Snapshot, signal: Signal) -> Input {
    let accepted: u64 = snapshot.receivers.transports.iter().map(|of| of.accepted[signal as usize]).sum();
    Input::Counted(accepted.saturating_add(clients(snapshot, signal).turned_away.all()))
}

/// What an agent in this process collects. Metrics come as long as there is anything to tell of.
fn collected(snapshot: &Snapshot, signal: Signal) -> Input {
    match &snapshot.sources.container_logs {
        Some(logs) if signal == Signal::Logs => Input::Counted(logs.records),
        None if signal == Signal::Logs => Input::Off,
        Some(_) | None => Input::Steady,
    }
}

/// What its data is called.
fn items_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "spans",
        Signal::Metrics => "data points",
        Signal::Logs => "log records",
    }
}

/// What the log was told: of a pipeline that comes and goes not each change, and of many pipelines only so much.
#[derive(Debug, Default)]
struct StateLog {
    /// Those that changed lately.
    pipelines: BTreeMap<PipelineId, Lately>,
    warnings: Warnings,
}

/// What the log was told of a pipeline that changed lately.
#[derive(Debug, Default)]
struct Lately {
    unsteady: Unsteady,
    /// The state before the last change.
    before: State,
    /// The worst that was told.
    worst: State,
}

impl StateLog {
    /// Logs how those are that have changed. One that is gone has no line any more.
    fn tell(&mut self, changes: &[Change], monitor: &Monitor, period: Duration) {
        for Change { pipeline, before, .. } in changes {
            let lately = self.pipelines.entry(pipeline.clone()).or_default();
            lately.unsteady.changes();
            lately.before = *before;
        }
        let (warnings, now) = (&self.warnings, Instant::now());
        self.pipelines.retain(|pipeline, lately| {
            if let Some(verdict) = monitor.verdict(pipeline)
                && let Some(left_out) = lately.due(verdict.state(), period, now)
                && warnings.may_say_with(verdict.state().as_str(), left_out, now)
            {
                say(pipeline, lately.before, verdict, left_out);
            }
            !lately.unsteady.is_calm() && monitor.verdict(pipeline).is_some()
        });
        say_left_out(&self.warnings.left_out(now));
    }
}

impl Lately {
    /// How many changes had no line before the one that is due now.
    fn due(&mut self, state: State, period: Duration, now: Instant) -> Option<u64> {
        let is_worse = state > self.worst;
        self.worst = self.worst.max(state);
        if is_worse { self.unsteady.due_at_once(now) } else { self.unsteady.due(period, now) }
    }
}

impl Drop for StateLog {
    fn drop(&mut self) {
        say_left_out(&self.warnings.all_left_out());
    }
}

fn say(pipeline: &PipelineId, before: State, verdict: &Verdict, left_out: u64) {
    match &verdict.trouble {
        Some(trouble) => {
            let (state, about) = (trouble.state.as_str(), message(trouble, items_of(pipeline.signal)));
            tracing::warn!(%pipeline, state, about, left_out, "data does not flow as it should");
        }
        None => tracing::info!(%pipeline, before = before.as_str(), left_out, "data flows again"),
    }
}

/// Logs of how many pipelines there was more to say. That data flows again is nothing to warn of.
fn say_left_out(left_out: &[LeftOut]) {
    let is_healthy = |left_out: &LeftOut| left_out.reason == State::Healthy.as_str();
    let (healthy, troubles): (Vec<_>, Vec<_>) = left_out.iter().copied().partition(is_healthy);
    for LeftOut { messages, .. } in healthy {
        tracing::info!(left_out = messages, "data of more pipelines flows again than the log names in a minute");
    }
    weir_engine::say_left_out(&troubles);
}

/// `/health/pipelines`.
#[derive(Debug)]
pub(crate) struct HealthOfPipelines(Verdicts);

impl HealthOfPipelines {
    pub(crate) fn of(verdicts: &Verdicts) -> Self {
        Self(verdicts.clone())
    }
}

#[derive(Serialize)]
struct Shows<'a> {
    pipeline: String,
    state: &'static str,
    /// Whose data it is about.
    roles: Roles,
    #[serde(skip_serializing_if = "Option::is_none")]
    setup_error: Option<&'a str>,
    /// All that is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(flatten)]
    trouble: Option<TroubleShown<'a>>,
}

#[derive(Serialize)]
struct TroubleShown<'a> {
    since: String,
    amounts: weir_observe::Amounts,
    kept: Kept,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    may_be_slow: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fails_here: bool,
    backend: &'a str,
}

impl Page for HealthOfPipelines {
    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let known = self.0.lock();
        let shown =
            known.now.iter().map(|(id, verdict)| shows(id, verdict, known.setup_errors.get(id).map(String::as_str)));
        show_list(body, shown)
    }
}

fn show_list(body: &mut Text, list: impl Iterator<Item = impl Serialize>) -> Option<Shown> {
    let mut json = serde_json::Serializer::pretty(&mut *body);
    serde::Serializer::collect_seq(&mut json, list).ok()?;
    body.write_all(b"\n").ok()?;
    Some(Shown::JSON)
}

fn shows<'a>(id: &PipelineId, verdict: &'a Verdict, setup_error: Option<&'a str>) -> Shows<'a> {
    let shown = |trouble: &'a Trouble| TroubleShown {
        since: rfc3339_seconds(trouble.since),
        amounts: trouble.amounts,
        kept: trouble.kept,
        may_be_slow: trouble.may_be_slow,
        fails_here: trouble.fails_here,
        backend: &trouble.words,
    };
    let trouble = verdict.trouble.as_deref();
    let said = [setup_error.map(not_set_up), trouble.map(|trouble| message(trouble, items_of(id.signal)))];
    let state = match verdict.state() {
        State::Healthy if setup_error.is_some() => SETUP_FAILED,
        state => state.as_str(),
    };
    Shows {
        pipeline: id.to_string(),
        state,
        roles: verdict.roles,
        setup_error,
        message: said.into_iter().flatten().collect::<Vec<_>>().join(" "),
        trouble: trouble.map(shown),
    }
}

/// `/health/changes`: the last changes since the start of the process, also those for which the log had no line.
#[derive(Debug)]
pub(crate) struct ChangesOfPipelines(Verdicts);

impl ChangesOfPipelines {
    pub(crate) fn of(verdicts: &Verdicts) -> Self {
        Self(verdicts.clone())
    }
}

#[derive(Serialize)]
struct ChangeShown {
    at: String,
    pipeline: String,
    before: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Page for ChangesOfPipelines {
    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let known = self.0.lock();
        let shown = known.changes.iter().map(|(at, Change { pipeline, before, trouble })| ChangeShown {
            at: rfc3339_seconds(*at),
            pipeline: pipeline.to_string(),
            before: before.as_str(),
            state: trouble.as_ref().map_or(State::Healthy, |trouble| trouble.state).as_str(),
            message: trouble.as_ref().map(|trouble| message(trouble, items_of(pipeline.signal))).unwrap_or_default(),
        });
        show_list(body, shown)
    }
}
