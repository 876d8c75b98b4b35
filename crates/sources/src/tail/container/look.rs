//! A look at the directory of a container: lists its files, and matches them with the chain.

use std::io;

use super::{Container, Output, Wait};
use crate::tail::chain::{Answer, Check, Event, Link, State};
use crate::tail::changed::Changed;
use crate::tail::files::{self, Content, Listing};
use crate::tail::identity::PRINT_BYTES;
use crate::tail::join::{Position, Spot};
use crate::tail::status::Losses;

/// What a look at a container showed.
#[derive(Debug, Default)]
pub(in crate::tail) struct Look {
    /// It has unread output.
    pub(in crate::tail) is_unread: bool,
    /// Something has to be looked at again soon.
    pub(in crate::tail) is_unsettled: bool,
    /// Nothing is left of it.
    pub(in crate::tail) is_over: bool,
    /// The kernel gives no hints of what is written.
    pub(in crate::tail) has_links: bool,
    /// Everything is as the last look left it.
    pub(in crate::tail) is_unchanged: bool,
}

impl Container {
    /// Lists the directory and matches the listing with the chain. `now_ms` never goes back.
    pub(in crate::tail) fn look(&self, now_ms: u64) -> io::Result<Look> {
        let mut output = self.output();
        if self.is_unchanged(&output) {
            let is_unread = output.chain.links().iter().any(|link| output.is_unread(link));
            return Ok(Look { is_unread, is_unchanged: true, ..Look::default() });
        }
        output.see_growth();
        self.complete_heads(&mut output);
        let Listing { files: listing, has_links, changed } = files::list(&self.directory)?;
        let known = output.chain.links().len();
        output.pay_for(listing.len().max(known))?;
        let Output { chain, .. } = &mut *output;
        let before = (chain.links().len(), chain.settled());
        let live = chain.live();
        let events = chain.reconcile(&listing, &mut |check| self.compare(check), now_ms);
        output.is_changed |= !events.is_empty() || (output.chain.links().len(), output.chain.settled()) != before;
        for event in &events {
            self.follow(&mut output, *event)?;
        }
        self.complete_heads(&mut output);
        let is_rotated = |number: &u64| output.chain.link(*number).is_some_and(|link| link.name.rotated.is_some());
        let rotations = live.iter().filter(|number| is_rotated(number)).count() as u64;
        if rotations > 0 {
            tracing::debug!(container = %self.name, rotations, "log files were rotated");
        }
        output.forget_closed();
        let lost = if self.has_turn() { Losses::default() } else { output.give_up() };
        self.progress().saw(rotations, &lost);
        self.take_stock(&mut output);
        self.spare_descriptors(&mut output);
        let known = output.chain.links().len();
        // More may be known than is there. If there is no memory for that, the next look waits for it.
        let is_unpaid = output.pay_for(known).is_err();
        let is_unsettled = is_unpaid || output.is_unsettled(listing.is_empty());
        output.listed = changed.filter(|_| !is_unsettled && !has_links);
        let links = output.chain.links();
        let is_unread = links.iter().any(|link| output.is_unread(link));
        let is_over = listing.is_empty() && links.is_empty();
        Ok(Look { is_unread, is_unsettled, is_over, has_links, is_unchanged: false })
    }

    /// Whether the directory and the sizes of its files are as the last look left them, so that another one would show
    /// nothing new.
    fn is_unchanged(&self, output: &Output) -> bool {
        let size = |link: &Link| match output.open.get(&link.number) {
            Some(content) => content.size(),
            None => files::size(&self.directory.join(link.name.to_string())),
        };
        let is_same = |link: &Link| {
            // Nobody writes to a compressed file, and one that has an end was read. A longer head is still to be noted.
            let is_whole = match link.name.is_compressed {
                true => link.end.is_some(),
                false => u64::from(link.head.length) == link.size.min(PRINT_BYTES as u64),
            };
            let is_sized = || link.name.is_compressed || size(link).is_ok_and(|size| size == link.size);
            link.state == State::Present && is_whole && is_sized()
        };
        output.listed.is_some()
            && Changed::of(&self.directory).is_ok_and(|changed| changed == output.listed)
            && output.chain.links().iter().all(is_same)
    }

    /// Reads the heads that are shorter than what was seen of their files. No link may have bytes without a head: when
    /// the file is renamed and compressed before the next look, perhaps of the next process, only its content tells
    /// which one it is. A head that cannot be read now is read at the next look.
    pub(super) fn complete_heads(&self, output: &mut Output) {
        let is_short =
            |link: &&Link| !link.name.is_compressed && u64::from(link.head.length) < link.size.min(PRINT_BYTES as u64);
        let short: Vec<u64> = output.chain.links().iter().filter(is_short).map(|link| link.number).collect();
        for number in short {
            if self.open(output, number).unwrap_or(false) {
                output.renew_head(number);
                self.spare_descriptors(output);
            }
        }
    }

    /// The directory cannot be listed. Returns whether that is news.
    pub(in crate::tail) fn cannot_look(&self, error: &io::Error) -> bool {
        let mut progress = self.progress();
        let wait = Wait::Unreadable(error.to_string());
        let is_news = progress.wait != wait;
        progress.begins_to_wait();
        progress.wait = wait;
        is_news
    }

    /// Moves the position to the end of all files.
    pub(in crate::tail) fn leave_out_what_is_there(&self, now_ms: u64) {
        // What cannot be listed now is read later.
        if self.look(now_ms).is_err() {
            return;
        }
        let mut output = self.output();
        let Some((number, size, is_compressed)) =
            output.chain.links().last().map(|link| (link.number, link.size, link.name.is_compressed))
        else {
            return;
        };
        let done =
            if is_compressed { Spot { file: number + 1, offset: 0 } } else { Spot { file: number, offset: size } };
        let guard = output.open.get_mut(&done.file).and_then(|content| content.guard(done.offset).ok());
        output.chain.commit(Position { done, open: [None; 3] }, guard.unwrap_or_default());
        output.is_changed = true;
        output.forget_closed();
    }

    /// Compares a file with a link.
    pub(super) fn compare(&self, check: &Check<'_>) -> Answer {
        let compared = || -> io::Result<Answer> {
            let content = Content::open(&self.directory, check.seen.name, &self.descriptors)?;
            // It was renamed or removed since it was listed: the next look sees where it is.
            let Some(mut content) = content.filter(|content| content.id() == check.seen.id) else {
                return Ok(Answer::Unreadable);
            };
            let guard = match check.guard {
                Some((offset, print)) => content.has_guard(offset, print)?,
                None => true,
            };
            Ok(if guard && content.has_head(check.head)? { Answer::Same } else { Answer::Other })
        };
        compared().unwrap_or(Answer::Unreadable)
    }

    pub(super) fn follow(&self, output: &mut Output, event: Event) -> io::Result<()> {
        match event {
            Event::New { number } => {
                if self.open(output, number)? {
                    output.renew_head(number);
                    self.spare_descriptors(output);
                }
            }
            Event::Overwritten { number } => drop(output.open.remove(&number)),
            Event::Moved { from, to } => {
                if let Some(content) = output.open.remove(&from) {
                    output.open.insert(to, content);
                }
                if let Some(format) = output.formats.remove(&from) {
                    output.formats.insert(to, format);
                }
            }
            Event::Split { number, rest, .. } => {
                let format = output.formats.get(&number).copied();
                format.into_iter().for_each(|format| _ = output.formats.insert(rest, format));
            }
            Event::Renamed { .. } | Event::Compressed { .. } | Event::Gone { .. } | Event::Returned { .. } => {}
        }
        Ok(())
    }
}
