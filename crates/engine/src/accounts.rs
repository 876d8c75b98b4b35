//! The accounts of all pipelines and, as long as the journal remembers them, of those that were removed.
//!
//! An account outlives its pipeline: when the pipeline comes back, its backlog and its books are still there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use weir_legible::{LeftOut, Warnings};
use weir_plan::PipelineId;

use crate::account::{Account, JournalQueue};
use crate::books::DropReason;
use crate::clock::Clock;
use crate::share::Share;
use crate::store::ORPHANS_WAIT;

/// How often the accounts are searched for losses that the log has not told of yet.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the books of a pipeline that is gone are shown at least: a day longer than the data that it is owed may
/// wait.
const KEPT: Duration = ORPHANS_WAIT.saturating_mul(2);

/// The books of at most so many pipelines that are gone are kept.
const MOST_KEPT: usize = 1000;

/// All of them. An account that has lost its pipeline is an orphan.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    list: Mutex<Vec<Arc<Account>>>,
    /// What the log says of pipelines, of which many may be in the same trouble.
    warnings: Arc<Warnings>,
}

impl Accounts {
    /// A new account, one of them from now on.
    pub(crate) fn open(&self, id: PipelineId, share: Share, queue: Option<JournalQueue>) -> Arc<Account> {
        let account = Arc::new(Account::new(id, share, queue, Arc::clone(&self.warnings)));
        self.lock().push(Arc::clone(&account));
        account
    }

    /// Forgets accounts that have been without a pipeline since before `time` (of the process) and account for nothing
    /// any more. Where there are very many, those that have been without one for the longest are forgotten sooner.
    fn forget(&self, time: Option<Duration>) {
        let mut gone: Vec<_> = self.orphans().iter().filter_map(|account| account.orphaned_at()).collect();
        gone.sort_unstable();
        let too_many = gone.len().checked_sub(MOST_KEPT + 1).map(|index| gone[index]);
        let is_old = |at| time.is_some_and(|time| at < time) || too_many.is_some_and(|time| at <= time);
        let is_empty = |account: &Account| {
            let books = account.books.figures();
            books.pending == 0 && books.waiting == 0 && account.backlog().entries == 0
        };
        self.lock().retain(|account| !(account.orphaned_at().is_some_and(is_old) && is_empty(account)));
    }

    /// Tells the log of losses, and forgets what is over. Never returns.
    pub(crate) async fn look_after(self: Arc<Self>, clock: Clock) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = look.tick().await;
            self.all().iter().for_each(|account| account.books.losses().say_due(now));
            say_left_out(&self.warnings.left_out(now));
            self.forget(clock.elapsed().checked_sub(KEPT));
        }
    }

    /// Tells the log of all losses so far: the process ends.
    pub(crate) fn say_losses(&self) {
        self.all().iter().for_each(|account| account.books.losses().say_all());
        say_left_out(&self.warnings.all_left_out());
    }

    /// The account of a pipeline that returns, with its present limits. An account that is adopted is not forgotten.
    pub(crate) fn adopt(&self, id: &PipelineId, share: usize, backlog: weir_plan::Backlog) -> Option<Arc<Account>> {
        let list = self.lock();
        let account = list.iter().find(|account| account.id == *id)?;
        account.adopt(share, backlog);
        Some(Arc::clone(account))
    }

    pub(crate) fn find(&self, id: &PipelineId) -> Option<Arc<Account>> {
        self.lock().iter().find(|account| account.id == *id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Account>> {
        self.lock().clone()
    }

    /// Those without a pipeline.
    pub(crate) fn orphans(&self) -> Vec<Arc<Account>> {
        self.lock().iter().filter(|account| account.orphaned_at().is_some()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const ADVICE: &str = "look at /health/pipelines, or at `weir top`";
/// Reasons for errors; others are warned of.
const ERRORS: [&str; 4] = [DropReason::Shutdown.as_str(), DropReason::JournalDamaged.as_str(), "bug", "cannot_read"];

/// Logs of how many pipelines there was more to say, and how many items were lost with that. For the engine, and for
/// whoever else tells the log of pipelines.
pub fn say_left_out(left_out: &[LeftOut]) {
    for LeftOut { reason, messages, amount } in left_out {
        // As the lines that it stands for.
        if ERRORS.contains(reason) {
            tracing::error!(
                reason,
                left_out = messages,
                items = amount,
                advice = ADVICE,
                "more was to be said of pipelines than the log takes in a minute"
            );
            continue;
        }
        // 0 but for losses: each line about a backend has all that is pending, so a sum would count it again and again.
        let items = Some(*amount).filter(|items| *items > 0);
        tracing::warn!(
            reason,
            left_out = messages,
            items,
            advice = ADVICE,
            "more was to be said of pipelines than the log takes in a minute"
        );
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};
    use tracing::Dispatch;
    use tracing::subscriber::{DefaultGuard, NoSubscriber};
    use weir_plan::Signal;

    use super::*;
    use crate::books::Fate;

    /// One account, which is looked after.
    fn looked_after() -> (Arc<Accounts>, Arc<Account>) {
        let accounts = Arc::<Accounts>::default();
        let share = Share::new(1 << 20, Instant::now());
        let account = accounts.open(PipelineId::new(Signal::Traces, "shop"), share, None);
        tokio::spawn(Arc::clone(&accounts).look_after(Clock::simulated(0)));
        (accounts, account)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_lost_is_said_when_the_interval_is_over() {
        let (_accounts, account) = looked_after();
        account.books.arrive(50);
        account.books.keep(50);
        for _ in 0..5 {
            account.books.finish_kept(10, &Fate::Dropped(DropReason::MemoryFull));
        }
        sleep(Duration::from_secs(20)).await;
        assert_eq!(account.books.losses().unsaid(), 40, "the first was said at once");
        sleep(Duration::from_secs(20)).await;
        assert_eq!(account.books.losses().unsaid(), 0);
    }

    /// What is logged on this thread until the guards are dropped.
    ///
    /// With a single subscriber, tracing asks only the subscriber of the thread that comes first to a place in the
    /// code. If this is the thread of another test, tracing remembers that nobody is interested. With two subscribers
    /// it asks all of them.
    fn captured() -> ((Dispatch, DefaultGuard), Arc<Mutex<Vec<u8>>>) {
        #[derive(Clone, Default)]
        struct Log(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Log {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let log = Log::default();
        let (lines, writer) = (Arc::clone(&log.0), move || log.clone());
        let subscriber = tracing_subscriber::fmt().without_time().with_ansi(false).with_target(false);
        let second = Dispatch::new(NoSubscriber::default());
        ((second, tracing::subscriber::set_default(subscriber.with_writer(writer).finish())), lines)
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_says_how_much_was_lost_of_which_pipeline_why_and_in_which_time() {
        let (_guards, log) = captured();
        let (_accounts, account) = looked_after();
        account.books.arrive(100);
        account.books.keep(100);
        let refused = Fate::Rejected { code: "400".into(), cause: "no such field".into() };
        for _ in 0..5 {
            account.books.finish_kept(10, &Fate::Dropped(DropReason::MemoryFull));
            account.books.finish_kept(1, &refused);
        }
        sleep(Duration::from_secs(100)).await;
        let full = "WARN gave up data: the pipeline's share of the memory is full of what its backend does not take";
        let refused = "WARN backend refused data for good";
        let lines = String::from_utf8(log.lock().unwrap().clone()).unwrap();
        assert_eq!(
            lines.lines().filter_map(|line| Some(line.trim_start().split_once(" advice=")?.0)).collect::<Vec<_>>(),
            [
                format!("{full} pipeline=traces/shop reason=\"memory_full\" items=10 seconds=0"),
                format!("{refused} pipeline=traces/shop code=\"400\" cause=\"no such field\" items=1 seconds=0"),
                format!("{full} pipeline=traces/shop reason=\"memory_full\" items=40 seconds=30"),
                format!("{refused} pipeline=traces/shop code=\"400\" cause=\"no such field\" items=4 seconds=30"),
            ]
        );
    }

    /// LEGIBLE-5: neither the line that is one too many, nor what it would have said.
    #[tokio::test(start_paused = true)]
    async fn what_the_log_does_not_take_is_said_when_the_minute_is_over() {
        let (_guards, log) = captured();
        let (_accounts, account) = looked_after();
        assert!((0..50).all(|_| account.may_say("silent", 0)));
        assert!(!account.may_say("silent", 7));
        sleep(Duration::from_secs(100)).await;
        let lines = String::from_utf8(log.lock().unwrap().clone()).unwrap();
        assert_eq!(
            lines.lines().filter_map(|line| Some(line.trim_start().split_once(" advice=")?.0)).collect::<Vec<_>>(),
            [r#"WARN more was to be said of pipelines than the log takes in a minute reason="silent" left_out=8"#]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipeline_that_is_gone_is_forgotten_when_nothing_of_it_is_pending() {
        let (accounts, account) = looked_after();
        account.books.arrive(1);
        account.books.keep(1);
        account.orphan(Duration::ZERO);
        sleep(KEPT + ORPHANS_WAIT).await;
        assert_eq!(accounts.all().len(), 1, "something of it is pending");
        account.books.finish_kept(1, &Fate::Delivered);
        sleep(2 * LOOK_EVERY).await;
        assert!(accounts.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_books_of_a_pipeline_that_is_gone_are_kept_for_some_time() {
        let (accounts, account) = looked_after();
        sleep(ORPHANS_WAIT).await;
        account.orphan(ORPHANS_WAIT);
        sleep(KEPT - LOOK_EVERY).await;
        assert_eq!(accounts.all().len(), 1);
        sleep(3 * LOOK_EVERY).await;
        assert!(accounts.all().is_empty());
    }

    /// Nothing of it was offered to its backend meanwhile.
    #[tokio::test(start_paused = true)]
    async fn who_returned_is_not_stalled() {
        let share = Share::new(0, Instant::now());
        let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, None);
        account.orphan(Duration::ZERO);
        sleep(Duration::from_secs(60)).await;
        account.adopt(0, weir_plan::Backlog::default());
        assert!(!account.share.is_stalled());
        sleep(Duration::from_secs(60)).await;
        account.adopt(0, weir_plan::Backlog::default());
        assert!(account.share.is_stalled(), "its limits change, and it was there all the time");
    }

    #[test]
    fn of_very_many_that_are_gone_the_last_are_kept() {
        let accounts = Accounts::default();
        for number in 0..MOST_KEPT + 10 {
            let share = Share::new(1 << 20, Instant::now());
            let account = accounts.open(PipelineId::new(Signal::Traces, number.to_string()), share, None);
            account.orphan(Duration::from_secs(number as u64));
        }
        let first = accounts.find(&PipelineId::new(Signal::Traces, "0")).unwrap();
        first.books.arrive(1);
        first.books.keep(1);
        accounts.forget(None);
        assert_eq!(accounts.all().len(), MOST_KEPT + 1, "one has something pending");
        assert!(
            accounts.find(&PipelineId::new(Signal::Traces, "9")).is_none()
                && accounts.find(&PipelineId::new(Signal::Traces, "10")).is_some()
        );
    }

    #[test]
    fn who_returned_is_no_orphan() {
        let share = Share::new(0, Instant::now());
        let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, None);
        let gives_up = |time| {
            let mut gives_up = false;
            account.if_orphan_since(time, || gives_up = true);
            gives_up
        };
        account.orphan(Duration::ZERO);
        assert!(gives_up(Duration::ZERO));
        account.orphan(KEPT);
        assert!(!gives_up(Duration::ZERO) && gives_up(KEPT));
        account.adopt(0, weir_plan::Backlog::default());
        assert!(!gives_up(KEPT));
    }
}
