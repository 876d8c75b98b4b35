//! The output of a container: its chain of files, those that are open, and the state of reading them.

use std::collections::{BTreeMap, BTreeSet};

use weir_engine::Permit;

use super::kept_back::KeptBack;
use crate::tail::allowance::TurnPermit;
use crate::tail::chain::{Chain, Link, State};
use crate::tail::changed::Changed;
use crate::tail::files::Content;
use crate::tail::identity::PRINT_BYTES;
use crate::tail::join::Spot;
use crate::tail::line::Format;
use crate::tail::status::Losses;

/// The output of a container.
#[derive(Debug)]
pub(in crate::tail) struct Output {
    pub(in crate::tail) chain: Chain,
    /// Open files, by the number of their link.
    pub(in crate::tail) open: BTreeMap<u64, Content>,
    /// The formats of files, by the number of their link, as far as lines have told them.
    pub(in crate::tail) formats: BTreeMap<u64, Option<Format>>,
    /// No request of the next turn is larger, because a larger one was refused. It grows again with each turn that is safe.
    pub(in crate::tail) most_bytes: Option<usize>,
    /// Lines that the last turn kept back for a stack trace.
    pub(in crate::tail) kept_back: KeptBack,
    /// Pays for the decoder of a compressed file.
    pub(super) decoder: Option<TurnPermit>,
    /// Removed files that are to be given up.
    pub(super) condemned: BTreeSet<u64>,
    /// How often a file could not be read, in a row.
    pub(super) failures: BTreeMap<u64, u32>,
    /// Whether the checkpoint is out of date.
    pub(super) is_changed: bool,
    /// When it was last saved, in milliseconds since the Unix epoch.
    pub(super) saved_ms: u64,
    /// Files that the last look found gone, and that are not given up yet.
    pub(super) vanished: Vec<u64>,
    /// The directory's time of change at the last look, if nothing else has to be looked at.
    pub(super) listed: Option<Changed>,
    /// For the state of the container and its files.
    pub(super) paid: Option<Permit>,
}

impl Output {
    pub(super) fn new(chain: Chain, paid: Option<Permit>) -> Self {
        Self {
            chain,
            open: BTreeMap::new(),
            formats: BTreeMap::new(),
            most_bytes: None,
            kept_back: KeptBack::default(),
            decoder: None,
            condemned: BTreeSet::new(),
            failures: BTreeMap::new(),
            is_changed: false,
            saved_ms: 0,
            vanished: Vec::new(),
            listed: None,
            paid,
        }
    }

    /// Takes the head of a file again, because the file may have grown since its head was short.
    pub(super) fn renew_head(&mut self, number: u64) {
        let is_short = |link: &&Link| usize::from(link.head.length) < PRINT_BYTES;
        if self.chain.link(number).filter(is_short).is_some()
            && let Some(content) = self.open.get_mut(&number)
            && let Ok(head) = content.head()
        {
            self.chain.set_head(number, head);
        }
    }

    /// Closes files that are read to their end, and those that are no part of the chain any more.
    pub(super) fn forget_closed(&mut self) {
        let Self { chain, open, formats, .. } = self;
        let done = chain.earliest().file;
        let is_wanted = |number: &u64| {
            chain.link(*number).is_some_and(|link| *number >= done && !(link.end.is_some() && chain.is_read(link)))
        };
        open.retain(|number, _| is_wanted(number));
        formats.retain(|number, _| chain.link(*number).is_some());
    }

    /// Gives up files that are gone and were not opened, and returns the lost bytes. One look is not enough: it may
    /// miss a file that is renamed.
    pub(super) fn give_up(&mut self) -> Losses {
        let (twice, once): (Vec<u64>, Vec<u64>) =
            self.gone().into_iter().partition(|number| self.vanished.contains(number));
        let mut losses = Losses::default();
        for number in twice {
            let is_overwritten = self.chain.link(number).is_some_and(|link| link.state == State::Overwritten);
            let bytes = self.chain.lost(number, None).bytes;
            *(if is_overwritten { &mut losses.overwritten } else { &mut losses.removed }) += bytes;
            self.is_changed = true;
        }
        self.vanished = once;
        losses
    }

    /// Files that are gone, were not opened, and are not read to their end.
    pub(super) fn gone(&self) -> Vec<u64> {
        let is_gone = |link: &&Link| link.state != State::Present && !self.open.contains_key(&link.number);
        // Even of one that was read as far as it was seen, the end has to be known before the next one is read.
        let is_left = |link: &&Link| !self.chain.is_read(link);
        self.chain.links().iter().filter(is_gone).filter(is_left).map(|link| link.number).collect()
    }

    /// Whether a look left something open, so that the next one comes soon. `is_empty`: the directory has no files.
    pub(super) fn is_unsettled(&self, is_empty: bool) -> bool {
        let links = self.chain.links();
        let last = links.len().saturating_sub(1);
        let is_open = |(index, link): (usize, &Link)| {
            let is_live = index == last && link.state == State::Present;
            !is_live && !self.chain.is_final(link.number)
        };
        // What is lost is counted soon, even if the container is being read now.
        (is_empty && !links.is_empty()) || links.iter().enumerate().any(is_open) || !self.gone().is_empty()
    }

    /// The file that is read next.
    pub(super) fn next(&self) -> Option<&Link> {
        let first = self.place().file;
        self.chain.links().iter().find(|link| link.number >= first && !self.chain.is_read(link))
    }

    /// Whether a file has unread output, as far as is known, or its end has to be found.
    pub(super) fn is_unread(&self, link: &Link) -> bool {
        let is_ahead = link.number >= self.chain.position().done.file && link.end.is_none();
        let has_end = link.name.is_compressed || self.chain.is_final(link.number);
        self.chain.unread(link.number) > 0 || is_ahead && has_end
    }

    /// Where the unread output begins.
    pub(in crate::tail) fn place(&self) -> Spot {
        self.chain.earliest()
    }
}
