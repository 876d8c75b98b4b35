//! Scraping targets, each at its own time within the interval.

use std::collections::HashMap;
use std::io::Write;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use tokio::sync::watch;
use tokio::task::{self, JoinHandle};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout_at};
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::{Inlet, InputKind, MemoryPart, Origin, Permit, Request, Text, Verdict};
use weir_plan::{Plan, Signal};

use super::fetch::{FetchError, Fetched, Fetcher};
use super::known::hash;
use super::page::{Known, PageError, PageRules, Taken, memory};
use super::request::{diagnostics, request};
use super::target::Target;

/// Samples of a page at most. This limit and the next one are those of Kyma's agent.
pub const SAMPLE_LIMIT: usize = 50_000;

/// Bytes of a page at most.
pub const BODY_LIMIT: usize = 20 << 20;

/// A target has at most so long to answer, as in Prometheus, and no longer than the interval.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of all pages takes at most this part of the memory.
const KNOWN_PART: usize = 4;

/// Scrapes the targets of all pipelines, until it is stopped.
#[derive(Debug)]
pub struct Scraper {
    shared: Arc<Shared>,
    running: HashMap<Target, Running>,
    interval: Duration,
}

#[derive(Debug)]
struct Shared {
    inlet: Inlet,
    fetcher: Fetcher,
    known_part: MemoryPart,
    board: TargetBoard,
}

#[derive(Debug)]
struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// How the last scrapes of all targets went. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TargetBoard(Arc<Mutex<HashMap<Target, LastScrape>>>);

/// How the last scrape of a target went.
#[derive(Debug, Clone, PartialEq)]
pub struct LastScrape {
    /// What went wrong, if anything.
    pub error: Option<String>,
    /// How long it took.
    pub took: Duration,
    /// Bytes of the page.
    pub bytes: usize,
    /// What came of the page.
    pub taken: Option<Taken>,
    /// Whether pipelines have secured the samples.
    pub is_secured: bool,
}

/// One target, and what is known of its last page.
struct Loop {
    shared: Arc<Shared>,
    target: Target,
    resource: Vec<u8>,
    interval: Duration,
    known: Known,
    /// Pays for what is known.
    paid: Option<Permit>,
    /// The log says that pages cannot be remembered.
    is_said_forgotten: bool,
}

/// Why a scrape failed.
#[derive(Debug, thiserror::Error)]
enum ScrapeError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("no room in --memory for what becomes of the page")]
    NoMemory,
    #[error("the page made its reader fail ({0}): this is a bug in weir")]
    Work(String),
}

/// An encoded request, and what pays for it. Requests of a few hundred bytes are not paid for.
struct Made {
    bytes: Vec<u8>,
    _permit: Option<Permit>,
}

impl Scraper {
    /// Begins to scrape.
    ///
    /// # Errors
    /// When TLS cannot be used at all.
    pub fn start(plan: &Plan, inlet: Inlet, board: TargetBoard) -> Result<Self, FetchError> {
        let known_part = inlet.memory_part(inlet.memory() / KNOWN_PART);
        let shared = Arc::new(Shared { inlet, fetcher: Fetcher::new()?, known_part, board });
        let mut scraper = Self { shared, running: HashMap::new(), interval: plan.intervals.prometheus };
        scraper.reload(plan);
        Ok(scraper)
    }

    /// Scrapes what this plan asks for. Targets that stay are not disturbed.
    pub fn reload(&mut self, plan: &Plan) {
        let inputs = plan.pipelines.iter().filter_map(|pipeline| pipeline.input.prometheus.as_ref());
        let wanted: Vec<Target> =
            inputs.flat_map(|input| &input.static_targets).filter_map(|url| Target::new(url, "static").ok()).collect();
        if plan.intervals.prometheus != self.interval {
            self.interval = plan.intervals.prometheus;
            self.running.clear();
        }
        self.running.retain(|target, _| wanted.contains(target));
        for target in wanted {
            let (shared, interval) = (&self.shared, self.interval);
            self.running.entry(target).or_insert_with_key(|target| Running::start(shared, target, interval));
        }
    }

    /// Ends all scraping.
    pub async fn stop(mut self) {
        for (_, mut running) in self.running.drain() {
            running.stop.send_replace(true);
            let _ = (&mut running.task).await;
        }
    }
}

impl Running {
    fn start(shared: &Arc<Shared>, target: &Target, interval: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (resource, shared, target) = (target.resource(), Arc::clone(shared), target.clone());
        let scraping =
            Loop { shared, target, resource, interval, known: Known::default(), paid: None, is_said_forgotten: false };
        let task = tokio::spawn(scraping.run(stopped));
        Self { stop, task }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl Loop {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval_at(Instant::now() + self.offset(), self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
            let deadline = Instant::now() + self.interval;
            tokio::select! {
                () = self.scrape(deadline) => {}
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        self.shared.board.forget(&self.target);
    }

    /// When in the interval it is this target's turn, so that not all are scraped at once.
    fn offset(&self) -> Duration {
        let within = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        Duration::from_nanos(hash(self.target.url().to_string().as_bytes()) % within)
    }

    /// Scrapes once. `deadline`: when the next scrape begins.
    async fn scrape(&mut self, deadline: Instant) {
        let (began, scraped) = (Instant::now(), unix_nanos());
        let limits = (BODY_LIMIT, PATIENCE.min(self.interval));
        let fetched = self.shared.fetcher.fetch(self.target.url(), limits, &self.shared.inlet).await;
        let took = began.elapsed();
        let bytes = fetched.as_ref().map_or(0, |fetched| fetched.body.len());
        let made = match fetched {
            Ok(fetched) => self.take(fetched, scraped).await,
            Err(error) => Err(error.into()),
        };
        let (result, metrics) = match made {
            Ok((taken, metrics)) => (Ok(taken), Some(metrics)),
            Err(error) => (Err(error.to_string()), self.gone(scraped).await),
        };
        let about = diagnostics(took, result.as_ref().ok().copied(), scraped);
        let about = Made { bytes: request(&self.resource, &about), _permit: None };
        let mut is_secured = true;
        for (input, made) in [(InputKind::Prometheus, metrics), (InputKind::PrometheusDiagnostics, Some(about))] {
            let Some(made) = made else { continue };
            if self.shared.inlet.is_open(Signal::Metrics, input) {
                is_secured &= self.offer(input, made, deadline).await;
            }
        }
        let (taken, error) = match result {
            Ok(taken) => (Some(taken), None),
            Err(error) => (None, Some(error)),
        };
        self.note(LastScrape { error, took, bytes, taken, is_secured });
    }

    /// Makes a request of a page, and remembers the page as far as there is room for that.
    async fn take(&mut self, fetched: Fetched, scraped: u64) -> Result<(Taken, Made), ScrapeError> {
        let Fetched { body, format, permit } = fetched;
        let work = self.shared.inlet.reserve(memory(&body)).await.ok_or(ScrapeError::NoMemory)?;
        let rules = PageRules { format, sample_limit: SAMPLE_LIMIT, honor_timestamps: true, target_labels: Vec::new() };
        let (mut known, resource) = (mem::take(&mut self.known), self.resource.clone());
        let done = task::spawn_blocking(move || {
            let mut metrics = Vec::new();
            let taken = known.take(&body, &rules, scraped, &mut metrics);
            let bytes = request(&resource, &metrics);
            drop((permit, body, metrics));
            (known, taken, bytes, work)
        });
        let (known, taken, bytes, mut work) = done.await.map_err(|error| ScrapeError::Work(error.to_string()))?;
        // The work has paid for what is known of the page until now.
        self.remember(known);
        work.shrink_to(bytes.capacity());
        Ok((taken?, Made { bytes, _permit: Some(work) }))
    }

    /// Keeps what is known of the page if it can be paid for.
    fn remember(&mut self, known: Known) {
        self.paid = None;
        let (bytes, url) = (known.memory(), self.target.url());
        match self.shared.known_part.try_reserve(bytes) {
            Some(permit) => (self.known, self.paid, self.is_said_forgotten) = (known, Some(permit), false),
            None if !mem::replace(&mut self.is_said_forgotten, true) => tracing::warn!(
                target_url = %url,
                bytes,
                "no room in --memory to remember a page: its counters begin anew with each scrape, and series that go are not noticed"
            ),
            None => {}
        }
    }

    /// A request that says of all series that they are gone. Without memory for it, the next scrape may say so.
    async fn gone(&mut self, scraped: u64) -> Option<Made> {
        let mut permit = self.shared.inlet.reserve(3 * self.known.memory()).await?;
        let mut metrics = Vec::new();
        self.known.end(scraped, &mut metrics);
        let bytes = request(&self.resource, &metrics);
        permit.shrink_to(bytes.capacity());
        (!metrics.is_empty()).then_some(Made { bytes, _permit: Some(permit) })
    }

    /// Offers a request until it is secured or the next scrape begins. Returns whether it is secured.
    async fn offer(&self, input: InputKind, made: Made, deadline: Instant) -> bool {
        let bytes = &made.bytes;
        loop {
            let Some(permit) = self.shared.inlet.reserve(bytes.len()).await else {
                if Instant::now() >= deadline {
                    return false;
                }
                continue;
            };
            let Ok(request) = Request::new(Signal::Metrics, bytes.clone(), permit, Origin::of(input)) else {
                tracing::error!(target_url = %self.target.url(), "made a request that is not valid: this is a bug in weir");
                return false;
            };
            let Ok(verdict) = timeout_at(deadline, self.shared.inlet.offer(request)).await else { return false };
            let after = match verdict {
                Verdict::Secured => return true,
                Verdict::NotServed | Verdict::TooLarge(_) => return false,
                Verdict::Refused(_, after) => after,
                Verdict::NoMemory => Duration::from_secs(1),
            };
            if Instant::now() + after >= deadline {
                return false;
            }
            sleep(after).await;
        }
    }

    fn note(&self, scrape: LastScrape) {
        if !scrape.is_secured {
            let samples = scrape.taken.map_or(0, |taken| taken.samples);
            tracing::warn!(target_url = %self.target.url(), samples, "pipelines have not taken a scrape until the next one");
        }
        let before = self.shared.board.note(&self.target, scrape.clone());
        let was_wrong = before.and_then(|before| before.error);
        let url = self.target.url();
        match (&scrape.error, was_wrong) {
            (Some(error), before) if before.as_ref() != Some(error) => {
                tracing::warn!(target_url = %url, error, "cannot scrape a target; trying again");
            }
            (None, Some(_)) => tracing::info!(target_url = %url, "the target can be scraped again"),
            _ => {}
        }
    }
}

impl TargetBoard {
    /// How the last scrape of each target went, by its address.
    pub fn all(&self) -> Vec<(String, LastScrape)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = all.iter().map(|(target, last)| (target.url().to_string(), last.clone())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    fn note(&self, target: &Target, scrape: LastScrape) -> Option<LastScrape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(target.clone(), scrape)
    }

    fn forget(&self, target: &Target) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(target);
    }
}

/// How each target was scraped last, as a JSON array.
impl Page for TargetBoard {
    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner).len();
        if !body.reserve(count * size_of::<(String, LastScrape)>()) {
            return None;
        }
        let mut json = serde_json::Serializer::pretty(&mut *body);
        json.collect_seq(self.all().into_iter().map(|(url, last)| TargetStatus::new(url, last))).ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}

/// How a target was scraped last.
#[derive(Debug, Serialize)]
struct TargetStatus {
    url: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    seconds: f64,
    bytes: usize,
    samples: usize,
    series_added: usize,
    samples_repeated: usize,
    is_secured: bool,
}

impl TargetStatus {
    fn new(url: String, last: LastScrape) -> Self {
        let LastScrape { error, took, bytes, taken, is_secured } = last;
        let Taken { samples, added, repeated, .. } = taken.unwrap_or_default();
        let state = if error.is_some() { "down" } else { "up" };
        let seconds = took.as_secs_f64();
        Self { url, state, error, seconds, bytes, samples, series_added: added, samples_repeated: repeated, is_secured }
    }
}

fn unix_nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
