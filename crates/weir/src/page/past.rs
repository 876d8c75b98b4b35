//! `/api/history`: the last hour, in memory, when losses began, and how fast they grow. `?since=TIME` leaves out points of
//! before, in RFC 3339; `?pipeline=traces/shop` leaves out all others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde::{Serialize, Serializer};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::view::{PipelineFigures, View};
use weir_legible::rfc3339_seconds;
use weir_observe::{History, Moment, Point, Totals};
use weir_plan::PipelineId;

use super::json::{Refusal, parameters, show};
use super::losses::Losses;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);

/// The past takes one part in so many of what the memory is, beside it, and no more than is good for 70 pipelines.
const OF_MEMORY: usize = 256;
const MOST_BYTES: usize = 4 << 20;

/// What happened. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Past(Arc<Mutex<Remembered>>);

#[derive(Debug)]
struct Remembered {
    history: History,
    losses: Losses,
}

impl Past {
    /// `memory`: the whole budget, in bytes.
    pub(crate) fn within(memory: usize) -> Self {
        let history = History::new((memory / OF_MEMORY).min(MOST_BYTES));
        Self(Arc::new(Mutex::new(Remembered { history, losses: Losses::default() })))
    }

    /// Looks until it is aborted.
    pub(crate) fn record(&self, view: View) -> JoinHandle<()> {
        let past = self.clone();
        tokio::spawn(async move {
            let (start, mut ticks) = (Instant::now(), interval(EVERY));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // Without memory for a snapshot, this second becomes a part of the next one.
                let Some(snapshot) = view.snapshot() else { continue };
                let all: Vec<_> = snapshot.pipelines.iter().map(|of| (of.id.clone(), totals(of))).collect();
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                past.lock().losses.look(Moment { since_start: start.elapsed(), unix_seconds: now }, &snapshot);
                drop(snapshot);
                past.lock().history.record(now, &all);
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn totals(of: &PipelineFigures) -> Totals {
    let books = &of.books;
    Totals {
        accepted: books.accepted,
        delivered: books.delivered,
        lost: books.dropped.values().sum::<u64>() + books.rejected.values().sum::<u64>(),
        pending: books.pending,
    }
}

#[derive(Serialize)]
struct Shape<'a> {
    /// Seconds of a point.
    step_seconds: u32,
    /// When the newest points ended.
    ends_at: String,
    /// Pipelines for which there is no room.
    left_out: usize,
    #[serde(serialize_with = "lines")]
    pipelines: Wanted<'a>,
    #[serde(serialize_with = "losses")]
    losses: (&'a Losses, Option<&'a str>),
    /// How fast that grows which was lost before it came into any books, for all pipelines.
    #[serde(serialize_with = "before_books")]
    before_books: &'a Losses,
}

struct Wanted<'a> {
    history: &'a History,
    pipeline: Option<&'a str>,
    /// Points, the newest.
    most: usize,
}

#[derive(Serialize)]
struct Line {
    pipeline: String,
    /// Accepted, delivered, lost items of each point, and those that were pending at its end; the oldest first.
    points: Vec<[u32; 4]>,
}

fn lines<S: Serializer>(wanted: &Wanted<'_>, to: S) -> Result<S::Ok, S::Error> {
    let is_wanted = |id: &PipelineId| wanted.pipeline.is_none_or(|name| id.to_string() == name);
    let lines = wanted.history.lines().filter(|(id, _)| is_wanted(id)).map(|(id, points)| {
        let before = points.len().saturating_sub(wanted.most);
        let numbers = |of: Point| [of.accepted, of.delivered, of.lost, of.pending];
        Line { pipeline: id.to_string(), points: points.skip(before).map(numbers).collect() }
    });
    to.collect_seq(lines)
}

fn losses<S: Serializer>((losses, pipeline): &(&Losses, Option<&str>), to: S) -> Result<S::Ok, S::Error> {
    losses.lines(*pipeline, to)
}

fn before_books<S: Serializer>(losses: &&Losses, to: S) -> Result<S::Ok, S::Error> {
    losses.lines_before_books(to)
}

impl Past {
    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let [since, pipeline] = parameters(asked.query, ["since", "pipeline"])?;
        let since = since.map(seconds).transpose()?;
        // Some clients escape the only character of its name that can be.
        let pipeline = pipeline.map(|name| name.replace("%2F", "/").replace("%2f", "/"));
        let Remembered { history, losses } = &*self.lock();
        if let Some(name) = pipeline.as_ref().filter(|name| !history.lines().any(|(id, _)| id.to_string() == **name)) {
            return Err(unknown(name, history.left_out()));
        }
        let points = |since| history.ends().saturating_sub(since).div_ceil(u64::from(history.step()));
        let most = since.map_or(usize::MAX, |since| usize::try_from(points(since)).unwrap_or(usize::MAX));
        let shape = Shape {
            step_seconds: history.step(),
            ends_at: rfc3339_seconds(history.ends()),
            left_out: history.left_out(),
            pipelines: Wanted { history, pipeline: pipeline.as_deref(), most },
            losses: (losses, pipeline.as_deref()),
            before_books: losses,
        };
        Ok(show(body, &shape))
    }
}

impl Page for Past {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}

/// A time in a query, in seconds since the Unix epoch. Nothing is known of what was before that.
fn seconds(since: &str) -> Result<u64, Refusal> {
    // Some clients escape its colons.
    let since = percent_decode_str(since).decode_utf8_lossy();
    let wrong = |_| Refusal::wrong(format!("since must be a time such as 2026-09-21T14:14:10Z, not {since:?}"));
    let time = since.parse::<Timestamp>().map_err(wrong)?;
    Ok(u64::try_from(time.as_second()).unwrap_or_default())
}

fn unknown(name: &str, left_out: usize) -> Refusal {
    let why = match left_out {
        0 => "write it as traces/NAME".to_owned(),
        left_out => format!("write it as traces/NAME; {left_out} pipelines have no room in the history"),
    };
    Refusal::new(StatusCode::NOT_FOUND, format!("there is no history of a pipeline {name:?}: {why}"))
}
