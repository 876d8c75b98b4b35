//! The thread that looks: it lists directories, saves positions and surveys all containers, each at its time.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::catalogue::Catalogue;
use super::saver::Saver;
use super::survey::{Bounds, survey};
use super::tree::Tree;

/// How long the thread waits for hints, and so how late its other work may be.
const TICK: Duration = Duration::from_millis(100);

/// The log may say this often what was odd in what was read.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// All containers are surveyed this often.
const SURVEY_EVERY: Duration = Duration::from_secs(1);

/// The state of the thread.
pub(super) struct Looker {
    catalogue: Catalogue,
    tree: Tree,
    saver: Option<Saver>,
    bounds: Bounds,
    /// The pipelines want other containers now.
    is_rewanted: Arc<AtomicBool>,
    /// When all directories were last listed.
    reconciled: Option<Instant>,
    surveyed: Option<Instant>,
    /// The last wait for hints failed, which was told.
    has_no_hints: bool,
    reported: Instant,
}

impl Looker {
    pub(super) fn new(
        catalogue: Catalogue,
        tree: Tree,
        saver: Option<Saver>,
        bounds: Bounds,
        is_rewanted: Arc<AtomicBool>,
    ) -> Self {
        let (reconciled, surveyed, has_no_hints, reported) = (None, None, false, Instant::now());
        Self { catalogue, tree, saver, bounds, is_rewanted, reconciled, surveyed, has_no_hints, reported }
    }

    /// Runs until `has_ended`; then it saves and reports once more.
    pub(super) fn run(mut self, has_ended: &dyn Fn() -> bool) {
        loop {
            let ends = has_ended();
            match &mut self.saver {
                Some(saver) => saver.save_if_due(&mut self.catalogue, ends),
                // Nobody saves these lines.
                None => self.catalogue.lines.clear(),
            }
            self.survey_if_due(ends);
            self.report_if_due(ends);
            if ends {
                return;
            }
            self.reconcile_if_due();
            self.catalogue.look_at_unsettled();
            let waited = self.tree.wait(TICK, &mut self.catalogue);
            let is_news = !mem::replace(&mut self.has_no_hints, waited.is_err());
            if let Err(error) = waited {
                if is_news {
                    tracing::info!(%error, "cannot wait for hints about container logs; they are looked for meanwhile");
                }
                thread::park_timeout(TICK);
            }
        }
    }

    fn survey_if_due(&mut self, ends: bool) {
        if ends || self.surveyed.is_none_or(|at| at.elapsed() >= SURVEY_EVERY) {
            survey(&self.catalogue.shared, self.bounds, self.catalogue.without_memory(), ends);
            self.surveyed = Some(Instant::now());
        }
    }

    fn report_if_due(&mut self, ends: bool) {
        if ends || self.reported.elapsed() >= REPORT_EVERY {
            self.reported = Instant::now();
            self.catalogue.shared.say_what_is_odd(ends);
        }
    }

    fn reconcile_if_due(&mut self) {
        let is_rewanted = self.is_rewanted.swap(false, Ordering::AcqRel);
        if is_rewanted {
            self.tree.forget_lists();
        }
        let pause = self.tree.reconcile_after(self.catalogue.has_links || self.catalogue.has_place_again());
        if is_rewanted || self.reconciled.is_none_or(|at| at.elapsed() >= pause) {
            self.tree.reconcile(&mut self.catalogue);
            if self.reconciled.replace(Instant::now()).is_none() {
                self.catalogue.look_for_missing();
                self.catalogue.expire();
                // What comes from now on is new.
                self.catalogue.starts_at_end = false;
            }
        }
    }
}
