//! Scraping targets, each at its own time within the interval.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_engine::{Inlet, MemoryPart, Permit};
use weir_legible::{LeftOut, Warnings};
use weir_otlp::conventions::POD_UID;
use weir_plan::{CollectionIntervals, Plan, Scrapables};

use super::discovery::{Discovered, discover};
use super::failure::FetchError;
use super::fetch::Fetcher;
use super::mesh::ISTIO_CERTIFICATES;
use super::raw_page::PageReader;
use super::target::{Job, Target};
use crate::board::{DroppedTarget, TargetBoard};
use target_task::TargetTask;

mod target_task;

/// Samples of a page at most. This limit and the next one are those of Kyma's agent.
pub const SAMPLE_LIMIT: usize = 50_000;

/// Bytes of a page at most.
pub const BODY_LIMIT: usize = 20 << 20;

/// What is known of all pages takes at most this part of the memory.
const KNOWN_PART: usize = 4;

/// All pages together take at most this part of it, so that others find room, and also what is made of pages.
const PAGES_PART: usize = 2;

/// All targets together take at most this part of it, beside their pages.
const TARGETS_PART: usize = 8;

/// How often the metrics learn how scraping goes.
const SURVEY_INTERVAL: Duration = Duration::from_secs(1);

/// Scrapes the targets of all pipelines, until it is stopped.
#[derive(Debug)]
pub struct Scraper {
    shared: Arc<Shared>,
    running: HashMap<Target, Running>,
    /// Those whose targets were removed. They end their series and themselves, within an interval or ten seconds.
    leaving: HashMap<Target, JoinHandle<()>>,
    survey: JoinHandle<()>,
    node_name: Option<String>,
}

/// What the scraper has to know of where it runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node whose pods are scraped; all pods when it is not known.
    pub node_name: Option<String>,
    /// The directory of certificates for targets in Istio's mesh.
    pub istio_certificates: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self { node_name: None, istio_certificates: ISTIO_CERTIFICATES.into() }
    }
}

#[derive(Debug)]
struct Shared {
    inlet: Inlet,
    fetcher: Fetcher,
    known_part: MemoryPart,
    pages_part: MemoryPart,
    targets_part: MemoryPart,
    /// For work on pages: one for each processor.
    turns: Arc<Semaphore>,
    board: TargetBoard,
    warnings: Warnings,
}

/// What the task of a target is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Scrape every so often.
    Scrape(Duration),
    /// Say that all series have ended: it is no target any more.
    EndSeries,
    /// End, and say nothing.
    Stop,
}

#[derive(Debug)]
struct Running {
    orders: watch::Sender<Order>,
    task: JoinHandle<()>,
}

/// What a scraper begins with: nothing can fail any more.
#[derive(Debug)]
pub struct ReadyToScrape {
    fetcher: Fetcher,
    node_name: Option<String>,
}

impl ReadyToScrape {
    /// Sets up what it takes to scrape.
    ///
    /// # Errors
    /// When TLS cannot be used at all.
    pub fn with(settings: Settings) -> Result<Self, FetchError> {
        let Settings { node_name, istio_certificates } = settings;
        Ok(Self { fetcher: Fetcher::new(istio_certificates)?, node_name })
    }

    /// Begins to scrape.
    pub fn start(self, (plan, scrapables): (&Plan, &Scrapables), inlet: Inlet, board: TargetBoard) -> Scraper {
        let Self { fetcher, node_name } = self;
        let known_part = inlet.memory_part(inlet.memory() / KNOWN_PART);
        let pages_part = inlet.memory_part(inlet.memory() / PAGES_PART);
        let targets_part = inlet.memory_part(inlet.memory() / TARGETS_PART);
        let shared = Arc::new(Shared {
            inlet,
            fetcher,
            known_part,
            pages_part,
            targets_part,
            turns: Arc::new(Semaphore::new(processors())),
            board,
            warnings: Warnings::default(),
        });
        let survey = tokio::spawn(survey(Arc::clone(&shared)));
        let mut scraper = Scraper { shared, running: HashMap::new(), leaving: HashMap::new(), survey, node_name };
        scraper.reload(plan, scrapables);
        scraper
    }
}

impl Scraper {
    /// Sets up what it takes to scrape, and begins.
    ///
    /// # Errors
    /// When TLS cannot be used at all.
    pub fn start(
        settings: Settings,
        wanted: (&Plan, &Scrapables),
        inlet: Inlet,
        board: TargetBoard,
    ) -> Result<Self, FetchError> {
        Ok(ReadyToScrape::with(settings)?.start(wanted, inlet, board))
    }

    /// Scrapes what this plan asks for of what there is in the cluster. Targets that stay are not disturbed; another
    /// interval changes the times of their scrapes and nothing else.
    pub fn reload(&mut self, plan: &Plan, scrapables: &Scrapables) {
        let Discovered { mut targets, mut dropped } = discover(plan, scrapables, self.node_name.as_deref());
        let wanted: HashSet<&Target> = targets.iter().map(|(target, _)| target).collect();
        self.leaving.retain(|_, task| !task.is_finished());
        let removed = self.running.extract_if(|target, _| !wanted.contains(target));
        self.leaving.extend(removed.map(|(target, running)| (target, running.end_series())));
        targets.retain(|(target, _)| {
            let is_scraped = self.order(target, Order::Scrape(interval_of(target.job(), plan.intervals)));
            if !is_scraped {
                dropped.push(no_room(target));
            }
            is_scraped
        });
        self.shared.board.set_targets(targets);
        self.shared.board.set_dropped(dropped);
        self.shared.board.set_reader(Some(self.shared.page_reader(plan.intervals)));
    }

    /// Returns whether there is memory for the target.
    fn order(&mut self, target: &Target, order: Order) -> bool {
        if let Some(running) = self.running.get(target) {
            running.orders.send_if_modified(|known| mem::replace(known, order) != order);
            return true;
        }
        let Some(permit) = self.shared.targets_part.try_reserve(target.memory()) else { return false };
        let before = self.leaving.remove(target);
        self.running.insert(target.clone(), Running::start(&self.shared, target, order, (permit, before)));
        true
    }

    /// The uids of the pods that are scraped. What is said at the end of a target needs what is known of its pod.
    pub fn pods_in_use(&self) -> HashSet<String> {
        self.running.keys().filter_map(|target| target.attribute(POD_UID)).map(str::to_owned).collect()
    }

    /// Ends all scraping.
    pub async fn stop(mut self) {
        for running in self.running.values() {
            running.orders.send_replace(Order::Stop);
        }
        for (_, mut running) in self.running.drain() {
            let _ = (&mut running.task).await;
        }
        self.shared.board.set_targets(Vec::new());
        self.shared.board.set_reader(None);
        self.shared.report();
        say_left_out(&self.shared.warnings.all_left_out());
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.leaving.values().chain([&self.survey]).for_each(JoinHandle::abort);
    }
}

fn no_room(target: &Target) -> DroppedTarget {
    let reason = "no room in --memory for so many targets, which may take an eighth of that for payloads";
    DroppedTarget { job: target.job().name().to_owned(), target: target.url().to_string(), reason: reason.to_owned() }
}

/// How many threads can work at once.
fn processors() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// How often targets of a job are scraped.
pub(super) fn interval_of(job: Job, intervals: CollectionIntervals) -> Duration {
    if job == Job::IstioProxies { intervals.istio } else { intervals.prometheus }
}

/// Reports to the engine how scraping goes, until it is aborted.
async fn survey(shared: Arc<Shared>) {
    let mut ticks = interval(SURVEY_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        shared.report();
        say_left_out(&shared.warnings.left_out(Instant::now()));
    }
}

/// Logs of how many targets there was more to say.
fn say_left_out(left_out: &[LeftOut]) {
    for LeftOut { reason, messages, amount } in left_out {
        tracing::warn!(
            reason,
            left_out = messages,
            data_points = amount,
            advice = "look at /targets on the admin port, or at `weir targets`",
            "more was to be said of targets than the log takes in a minute; /targets has it all"
        );
    }
}

impl Shared {
    fn page_reader(&self, intervals: CollectionIntervals) -> PageReader {
        PageReader { fetcher: self.fetcher.clone(), memory: self.pages_part.clone(), intervals }
    }

    /// Whether the log may name one more target for this reason. It is about so many data points.
    fn may_say(&self, reason: &'static str, data_points: u64) -> bool {
        self.warnings.may_say(reason, data_points, Instant::now())
    }

    fn report(&self) {
        let figures = self.board.figures();
        self.inlet.report(|of_all| of_all.scrapes = figures);
    }
}

impl Order {
    fn is_end(&self) -> bool {
        !matches!(self, Self::Scrape(_))
    }
}

impl Running {
    /// `before`: see [`TargetTask::run`].
    fn start(
        shared: &Arc<Shared>,
        target: &Target,
        order: Order,
        (permit, before): (Permit, Option<JoinHandle<()>>),
    ) -> Self {
        let (orders, received) = watch::channel(order);
        let task = TargetTask::new(shared, target, received, permit);
        Self { orders, task: tokio::spawn(task.run(before)) }
    }

    /// Lets it say that all series have ended.
    fn end_series(self) -> JoinHandle<()> {
        self.orders.send_replace(Order::EndSeries);
        self.task
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;
    use tokio::time::sleep;
    use weir_testkit::eventually;

    use super::*;
    use crate::inlet::tests::engine;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Where nobody listens.
    fn target() -> Target {
        Target::new("http://127.0.0.1:1/metrics", Job::Static).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_comes_back_is_not_scraped_until_its_series_have_ended() {
        let engine = engine().await;
        let (nothing, board) = ((&Plan::default(), &Scrapables::default()), TargetBoard::default());
        let mut scraper = Scraper::start(Settings::default(), nothing, engine.inlet(), board.clone()).unwrap();
        board.set_targets(vec![(target(), Vec::new())]);
        let (end, ended) = oneshot::channel::<()>();
        scraper.leaving.insert(target(), tokio::spawn(async { drop(ended.await) }));
        assert!(scraper.order(&target(), Order::Scrape(HOUR)));
        sleep(3 * HOUR).await;
        assert!(board.all().is_empty());
        end.send(()).unwrap();
        sleep(3 * HOUR).await;
        assert_eq!(board.all().len(), 1);
    }

    /// Answers each request with a page of one sample.
    async fn serve(listener: TcpListener) -> std::io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(answer(BufReader::new(stream)));
        }
    }

    async fn answer(mut stream: BufReader<TcpStream>) -> std::io::Result<()> {
        let mut line = String::new();
        while stream.read_line(&mut line).await? > 2 {
            line.clear();
        }
        let page = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\na 1\n";
        stream.write_all(page.as_bytes()).await
    }

    #[tokio::test]
    async fn a_page_that_gets_no_turn_in_time_fails_and_the_next_one_may_get_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let server = tokio::spawn(serve(listener));
        let (engine, target) = (engine().await, Target::new(&url, Job::Static).unwrap());
        let (nothing, board) = ((&Plan::default(), &Scrapables::default()), TargetBoard::default());
        let mut scraper = Scraper::start(Settings::default(), nothing, engine.inlet(), board.clone()).unwrap();
        board.set_targets(vec![(target.clone(), Vec::new())]);

        let turns = Arc::clone(&scraper.shared.turns);
        let busy = turns.acquire_many(u32::try_from(processors()).unwrap()).await.unwrap();
        assert!(scraper.order(&target, Order::Scrape(Duration::from_secs(1))));
        let result = || {
            let all = board.all();
            all.first().map(|(_, last)| last.failure.as_ref().map(|failure| failure.result))
        };
        eventually("it has no turn", async || result() == Some(Some("no_cpu"))).await;
        drop(busy);
        eventually("it has one", async || result() == Some(None)).await;
        assert_eq!(turns.available_permits(), processors(), "turns are given back");
        scraper.stop().await;
        server.abort();
    }
}
