//! From a page to a request, as far as there is memory (SCRAPE-2) and time.

use std::mem;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task;
use tokio::time::{Instant, timeout_at};
use weir_engine::Permit;

use super::{ScrapeError, TargetTask, unless};
use crate::inlet::{Made, reserve_beside};
use crate::scrape::fetch::Fetched;
use crate::scrape::inputs::{relabeling, requests};
use crate::scrape::page::{LastPage, PageError, PageRules, Taken};
use crate::scrape::scraper::{Order, SAMPLE_LIMIT};
use crate::scrape::target::Job;

/// A page that is to be taken.
struct Page {
    body: Vec<u8>,
    rules: PageRules,
    /// In nanoseconds since the epoch.
    scraped: u64,
    /// Pays for the body.
    permit: Permit,
}

/// How a page is taken. `None`: it is not.
type Take = fn(&mut LastPage, &Page, &mut Vec<u8>) -> Result<Option<Taken>, PageError>;

/// The right to work on a page. There are as many as processors, first come, first served: when more is scraped than they
/// can take, some pages come too late for any work, and what is begun with others ends in time.
type Turn = OwnedSemaphorePermit;

impl TargetTask {
    /// Makes a request of a page, and remembers the page as far as there is room for that. Nothing is made when the target
    /// is not to be scraped any more.
    pub(super) async fn take(&mut self, page: Fetched, scraped: u64) -> Result<Option<(Taken, Made)>, ScrapeError> {
        let Fetched { body, format, permit } = page;
        let (target_labels, relabel) = (self.target.labels(), relabeling(&self.target));
        let rules = PageRules { sample_limit: SAMPLE_LIMIT, target_labels, relabel, ..PageRules::of(format) };
        let page = Arc::new(Page { body, rules, scraped, permit });
        let Some(turn) = self.unless_ended(self.turn()).await.transpose()? else { return Ok(None) };
        let mut turn = Some(turn);
        // Most pages are as they were, and need a small part of the memory that others need.
        if let Some(bytes) = self.last_page.work_if_same() {
            let Some(work) = self.reserve(bytes, &page, &mut turn).await? else { return Ok(None) };
            let take: Take = |last_page, page, out| last_page.take_same(&page.body, &page.rules, page.scraped, out);
            if let Some(made) = self.make(Arc::clone(&page), work, take).await? {
                return Ok(Some(made));
            }
        }
        let measured = Arc::clone(&page);
        let bytes = self.with_last_page(move |last_page| last_page.work(&measured.body, &measured.rules)).await??;
        let Some(work) = self.reserve(bytes, &page, &mut turn).await? else { return Ok(None) };
        let take: Take = |last_page, page, out| last_page.take(&page.body, &page.rules, page.scraped, out).map(Some);
        self.make(page, work, take).await
    }

    /// Until when work is waited for: as long as there is time left to offer what is made, a quarter of the interval.
    fn latest(&self) -> Instant {
        self.next.checked_sub(self.interval / 4).unwrap_or(self.next)
    }

    async fn turn(&self) -> Result<Turn, ScrapeError> {
        let turns = Arc::clone(&self.shared.turns);
        match timeout_at(self.latest(), turns.acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(ScrapeError::NoCpu),
        }
    }

    /// Memory for work that takes so much. While it is waited for, others have the turn: they may need less. `None`: the target
    /// is not to be scraped any more.
    async fn reserve(&self, bytes: usize, page: &Page, turn: &mut Option<Turn>) -> Result<Option<Permit>, ScrapeError> {
        let bytes = self.target.job().copies().saturating_mul(bytes);
        let (inlet, held) = (&self.shared.inlet, page.permit.bytes());
        if let Some(permit) = inlet.try_reserve(bytes) {
            return Ok(Some(permit));
        }
        *turn = None;
        let permit = self.unless_ended(reserve_beside(held, inlet, bytes, self.latest())).await;
        let Some(permit) = permit else { return Ok(None) };
        let permit = permit.ok_or(ScrapeError::NoMemory(bytes))?;
        *turn = self.unless_ended(self.turn()).await.transpose()?;
        Ok(turn.is_some().then_some(permit))
    }

    /// `None`: the target is not to be scraped any more.
    async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        unless(self.orders.clone(), Order::is_end, work).await
    }

    /// Takes a page, for which `work` pays, and remembers it.
    async fn make(&mut self, page: Arc<Page>, work: Permit, take: Take) -> Result<Option<(Taken, Made)>, ScrapeError> {
        let (job, resource) = (self.target.job(), self.resource.clone());
        let made = self.with_last_page(move |last_page| {
            let length = last_page.length();
            let (requests, taken) = requests(job, &resource, length, |out| take(last_page, &page, out));
            // Metrics of proxies may be in several requests.
            let data_points = last_page.data_points().filter(|_| job != Job::IstioProxies);
            (taken, Made::new(requests, data_points, Some(work)))
        });
        let (taken, mut made) = made.await?;
        // The work has paid for what is known of the page until now.
        self.remember();
        made.pay_no_more();
        Ok(taken?.map(|taken| (taken, made)))
    }

    /// Does work with what is known of the page, on a thread for such work.
    async fn with_last_page<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut LastPage) -> T + Send + 'static,
    ) -> Result<T, ScrapeError> {
        let mut last_page = mem::take(&mut self.last_page);
        let done = task::spawn_blocking(move || {
            let made = work(&mut last_page);
            (last_page, made)
        });
        match done.await {
            Ok((last_page, made)) => {
                self.last_page = last_page;
                Ok(made)
            }
            Err(error) => {
                // With the thread went all that was known of the page.
                self.last_page_permit = None;
                Err(ScrapeError::Work(error.to_string()))
            }
        }
    }

    /// Keeps what is known of the page if it can be paid for.
    fn remember(&mut self) {
        let (bytes, data_points) = (self.last_page.memory(), self.last_page.data_points().unwrap_or_default());
        if self.last_page_permit.as_ref().is_some_and(|permit| permit.bytes() == bytes + Permit::OVERHEAD_BYTES) {
            return;
        }
        self.last_page_permit = None;
        self.last_page_permit = self.shared.known_part.try_reserve(bytes);
        if self.last_page_permit.is_some() {
            self.warned_not_remembered = false;
            return;
        }
        self.last_page = LastPage::default();
        if !mem::replace(&mut self.warned_not_remembered, true) && self.shared.may_say("not_remembered", data_points) {
            tracing::warn!(
                pipelines = self.shared.board.pipelines_of(&self.target),
                target_url = %self.target.url(),
                bytes,
                data_points,
                advice = "give weir more --memory",
                "no room in --memory to remember a page: its counters begin anew with each scrape, and series that go are not noticed"
            );
        }
    }
}
