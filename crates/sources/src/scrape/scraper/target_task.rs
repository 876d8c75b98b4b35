//! The task of one target: it waits until the target is due, scrapes it, and does it again.

mod take;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use weir_engine::{EarlyLoss, InputKind, Permit, Secured, unix_nanos};
use weir_plan::Signal;

use super::{BODY_LIMIT, Order, Shared};
use crate::board::{Failure, LastScrape};
use crate::inlet::{Loss, Lost, Made, deliver, reserve};
use crate::scrape::failure::FetchError;
use crate::scrape::fetch::{Limits, patience};
use crate::scrape::inputs::requests;
use crate::scrape::page::{LastPage, PageError};
use crate::scrape::request::{diagnostics, no_diagnostics, request};
use crate::scrape::schedule::{next_after, offset, until_next};
use crate::scrape::target::Target;

/// Pipelines have at least so long to take what came of a scrape, though the next one is due.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// The same for the end of all series, after which nothing comes. A target that comes back waits so long at most.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// Why scrapes fail that are not to be blamed on their targets.
const NOT_THEIRS: [&str; 2] = ["no_memory", "no_cpu"];

/// Why the log names a target of which data points were lost, whatever the reason of that.
const LOST: &str = "lost";

/// One target, and what is known of its last page.
pub(super) struct TargetTask {
    shared: Arc<Shared>,
    target: Target,
    orders: watch::Receiver<Order>,
    interval: Duration,
    next: Instant,
    resource: Vec<u8>,
    /// Of the last page that came.
    page_bytes: usize,
    last_page: LastPage,
    /// For which inputs metrics of the last page were that could be taken, with their data points.
    last_made: Vec<(InputKind, u64)>,
    /// Pays for what is known of it. `None`: nothing is.
    last_page_permit: Option<Permit>,
    /// Pays for the target itself.
    _permit: Permit,
    /// The log says that pages cannot be remembered.
    warned_not_remembered: bool,
}

/// Why a scrape failed.
#[derive(Debug, thiserror::Error)]
enum ScrapeError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(
        "no room in --memory in time for what becomes of the page, up to {0} bytes: give Weir more memory, or \
         let the target expose fewer series"
    )]
    NoMemory(usize),
    #[error(
        "no processor had time for the page early enough before the next one: give Weir more CPU, or scrape less often \
         (spec.metric.prometheus.collectionInterval of the Telemetry object)"
    )]
    NoCpu,
    #[error("the page made its reader fail ({0}): this is a bug in weir")]
    Work(String),
}

impl TargetTask {
    /// `permit` pays for the target itself, until the task has ended.
    pub(super) fn new(shared: &Arc<Shared>, target: &Target, orders: watch::Receiver<Order>, permit: Permit) -> Self {
        Self {
            shared: Arc::clone(shared),
            target: target.clone(),
            orders,
            interval: Duration::ZERO,
            next: Instant::now(),
            resource: target.resource(),
            page_bytes: 0,
            last_page: LastPage::default(),
            last_made: Vec::new(),
            last_page_permit: None,
            _permit: permit,
            warned_not_remembered: false,
        }
    }

    /// Scrapes until there is another order. `before`: the task that ends the series which this target had before.
    pub(super) async fn run(mut self, before: Option<JoinHandle<()>>) {
        if let Some(mut before) = before {
            // The end of a series must not arrive after what the series begins with anew.
            let ended = unless(self.orders.clone(), Order::is_end, &mut before).await;
            if ended.is_none() && *self.orders.borrow() == Order::Stop {
                before.abort();
            }
        }
        while self.wait_until_due().await {
            self.scrape().await;
        }
        if *self.orders.borrow() == Order::EndSeries {
            self.end_series().await;
        }
    }

    /// Waits for the time of the next scrape. Returns whether there is one.
    async fn wait_until_due(&mut self) -> bool {
        loop {
            let Order::Scrape(interval) = *self.orders.borrow_and_update() else { return false };
            if interval != self.interval {
                let offset = offset(&self.target.url().to_string());
                (self.interval, self.next) = (interval, Instant::now() + until_next(offset, interval, unix_nanos()));
            }
            self.shared.board.set_next(&self.target, self.next);
            tokio::select! {
                () = sleep_until(self.next) => break,
                changed = self.orders.changed() => if changed.is_err() { return false },
            }
        }
        self.next += next_after(self.next.elapsed(), self.interval);
        true
    }

    /// Scrapes once.
    async fn scrape(&mut self) {
        let (began, scraped) = (Instant::now(), unix_nanos());
        let limits = Limits { most: BODY_LIMIT, likely: self.page_bytes, patience: patience(self.interval) };
        let is_stop = |order: &Order| *order == Order::Stop;
        let fetched = self.shared.fetcher.fetch(&self.target, limits, &self.shared.pages_part);
        let Some(fetched) = unless(self.orders.clone(), Order::is_end, fetched).await else { return };
        let took = began.elapsed();
        let bytes = fetched.as_ref().map_or(0, |fetched| fetched.body.len());
        self.page_bytes = if fetched.is_ok() { bytes } else { self.page_bytes };
        let made = match fetched {
            Ok(fetched) => {
                // A page that takes long to read is not waited for.
                let taken = unless(self.orders.clone(), is_stop, self.take(fetched, scraped)).await;
                taken.and_then(Result::transpose)
            }
            Err(error) => Some(Err(error.into())),
        };
        let Some(made) = made else { return };
        let (taken, failure, metrics) = match made {
            Ok((taken, metrics)) => {
                self.last_made = metrics.inputs();
                (Some(taken), None, Some(metrics))
            }
            // Its series are as they were: it is Weir that has no room, or no time.
            Err(error) if NOT_THEIRS.contains(&error.result()) => (None, Some(error.into()), None),
            Err(error) => {
                let markers = self.stale_markers(scraped, Instant::now() + LEAST_PATIENCE).await;
                // Without memory for them, the next scrape may send them.
                (None, Some(error.into()), markers.ok().flatten())
            }
        };
        if let Some(why) = failure.as_ref().and_then(early) {
            self.tell_pipelines(why);
        }
        let sent_markers = failure.is_some() && metrics.is_some();
        let about = self.about(&diagnostics(took, taken, scraped));
        // After a target that has not answered in time, it is time already.
        let until = self.next.max(Instant::now() + LEAST_PATIENCE);
        let delivered = self.deliver([metrics, Some(about)], until);
        let Some(lost) = unless(self.orders.clone(), is_stop, delivered).await else { return };
        if sent_markers && lost.is_some() {
            self.last_page.mark_stale_again();
        }
        self.note(LastScrape {
            began,
            took,
            failure,
            bytes,
            taken,
            lost,
            is_remembered: self.last_page_permit.is_some(),
        });
    }

    /// Says of all series that they have ended, because the target is gone.
    async fn end_series(&mut self) {
        let scraped = unix_nanos();
        let until = Instant::now() + self.interval.max(LAST_PATIENCE);
        let markers = self.stale_markers(scraped, until).await;
        let data_points = self.last_page.data_points().unwrap_or_default();
        let unsaid = markers.as_ref().err().map(|why| Lost { why: *why, data_points });
        if unsaid.is_some() {
            self.tell_pipelines(EarlyLoss::NoMemory);
        }
        let about = self.about(&no_diagnostics(scraped));
        let lost = self.deliver([markers.ok().flatten(), Some(about)], until).await;
        if let Some(lost) = Lost::both(unsaid, lost) {
            self.shared.board.note_lost(&self.target, lost);
            self.warn_lost(lost);
        }
    }

    /// Counts for each pipeline that takes from the target what it does not get, though the target has it: about as much
    /// as there was last time, and at least one data point of each page.
    fn tell_pipelines(&self, why: EarlyLoss) {
        let (job, secured) = (self.target.job(), Secured::default());
        // Pipelines choose by resource.
        let (like, ()) = request(&self.resource, job.scope(), 0, |_| ());
        let least = [(job.input(), 1)];
        let lost = if self.last_made.is_empty() { least.as_slice() } else { self.last_made.as_slice() };
        for (input, data_points) in lost {
            self.shared.inlet.lost_request((Signal::Metrics, *input), &like, (*data_points, why), &secured);
        }
    }

    /// Returns what was lost.
    async fn deliver(&self, requests: [Option<Made>; 2], until: Instant) -> Option<Lost> {
        let mut all = None;
        for made in requests.into_iter().flatten() {
            all = Lost::both(all, deliver(&self.shared.inlet, made, until).await);
        }
        all
    }

    fn about(&self, metrics: &[u8]) -> Made {
        let job = self.target.job();
        let make = |out: &mut Vec<u8>| out.extend_from_slice(metrics);
        let (bytes, ()) = request(&self.resource, job.scope(), metrics.len(), make);
        Made::new(vec![(job.diagnostics(), bytes)], None, None)
    }

    /// A request with a staleness marker for each series, if there are any. Waits for memory for it.
    async fn stale_markers(&mut self, scraped: u64, until: Instant) -> Result<Option<Made>, Loss> {
        let job = self.target.job();
        let bytes = job.copies() * self.last_page.work_to_mark_stale();
        let permit = reserve(&self.shared.inlet, bytes, until).await.ok_or(Loss::NoMemory)?;
        let length = self.last_page.length();
        let (requests, has_markers) =
            requests(job, &self.resource, length, |out| self.last_page.mark_all_stale(scraped, out));
        let mut made = Made::new(requests, None, Some(permit));
        made.pay_no_more();
        let has_markers = has_markers.map_err(|_| Loss::NoMemory)?;
        Ok(has_markers.then_some(made))
    }

    /// The log says what is new, and of many targets only so much. A target that cannot be scraped lacks the data points
    /// of its last page.
    fn note(&self, scrape: LastScrape) {
        tracing::debug!(
            target_url = %self.target.url(),
            samples = scrape.taken.map(|taken| taken.samples),
            bytes = scrape.bytes,
            reason = scrape.failure.as_ref().map(|failure| failure.result),
            lost = scrape.lost.map(|lost| lost.data_points),
            took_ms = u64::try_from(scrape.took.as_millis()).unwrap_or(u64::MAX),
            "a scrape ended"
        );
        let (failure, lost) = (scrape.failure.clone(), scrape.lost);
        let before = self.shared.board.note(&self.target, scrape);
        let (was_wrong, had_lost) = before.map_or((None, None), |before| (before.failure, before.lost));
        match lost {
            Some(lost) if had_lost.is_none() => self.warn_lost(lost),
            // What goes on is summed up.
            Some(lost) => self.shared.warnings.leave_out(LOST, lost.data_points, Instant::now()),
            None => {}
        }
        let (url, data_points) = (self.target.url(), self.last_page.data_points().unwrap_or_default());
        match (failure, was_wrong) {
            (Some(failure), before)
                if !before.as_ref().is_some_and(|before| before.is_like(&failure))
                    && self.shared.may_say(failure.result, data_points) =>
            {
                tracing::warn!(
                    pipelines = self.shared.board.pipelines_of(&self.target),
                    target_url = %url,
                    data_points,
                    error = failure.words,
                    advice = "look at the annotations and the port of its pod or Service; `weir targets` shows all of them",
                    "cannot scrape a target; trying again"
                );
            }
            (None, Some(_)) if self.shared.may_say("recovered", 0) => {
                tracing::info!(target_url = %url, "the target can be scraped again");
            }
            _ => {}
        }
    }

    fn warn_lost(&self, Lost { why, data_points }: Lost) {
        if !self.shared.may_say(LOST, data_points) {
            return;
        }
        tracing::warn!(
            pipelines = self.shared.board.pipelines_of(&self.target),
            target_url = %self.target.url(),
            data_points,
            reason = %why,
            advice = "mend the backend, scrape less often, or give weir more --memory",
            "data points of a scrape were lost: not every pipeline took them before the next scrape; weir_scrape_lost_data_points_total counts on"
        );
    }
}

impl ScrapeError {
    /// In one word, for metrics.
    fn result(&self) -> &'static str {
        match self {
            Self::Fetch(error) => error.result(),
            Self::Page(error) => error.result(),
            Self::NoMemory(_) => "no_memory",
            Self::NoCpu => "no_cpu",
            Self::Work(_) => "bug",
        }
    }
}

impl From<ScrapeError> for Failure {
    fn from(error: ScrapeError) -> Self {
        Self { result: error.result(), words: error.to_string() }
    }
}

/// Why pipelines have nothing of a page that the target has; `None` if it has none, or one that is not well formed.
fn early(failure: &Failure) -> Option<EarlyLoss> {
    match failure.result {
        "no_memory" => Some(EarlyLoss::NoMemory),
        "no_cpu" => Some(EarlyLoss::NoCpu),
        "too_large" | "limit" => Some(EarlyLoss::TooLarge),
        _ => None,
    }
}

/// The result of `work`, unless it is not wanted any more. After the last order, which nobody changes, what is wanted still
/// is done.
async fn unless<T>(
    mut orders: watch::Receiver<Order>,
    is_end: impl FnMut(&Order) -> bool,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        Ok(_) = orders.wait_for(is_end) => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::*;

    /// A target that leaves gets its last order, and whoever gave it is gone. A page that is in work is finished then:
    /// otherwise it would be lost, and all that is known of its series with it.
    #[tokio::test]
    async fn work_goes_on_after_an_order_that_does_not_end_it() {
        let (orders, seen) = watch::channel(Order::Scrape(LAST_PATIENCE));
        let done = async || {
            for _ in 0..10 {
                yield_now().await;
            }
        };
        orders.send_replace(Order::EndSeries);
        drop(orders);
        assert_eq!(unless(seen.clone(), |order| *order == Order::Stop, done()).await, Some(()));
        assert_eq!(unless(seen, Order::is_end, done()).await, None);
    }
}
