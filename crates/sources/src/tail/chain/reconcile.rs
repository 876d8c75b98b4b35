//! Matches a listing with the known files.

use std::collections::{HashMap, HashSet};
use std::mem;

use super::{Answer, Chain, Check, Event, FileId, Link, LogName, MISSED_MS, Print, RotationTime, Seen, Spot, State};

/// Compares a file with what is known.
pub(crate) type Verify<'a> = dyn FnMut(&Check<'_>) -> Answer + 'a;

/// What a listing shows of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// In this entry of the listing.
    At(usize),
    /// In no entry.
    Missing,
    /// In no entry: its file has other content.
    Overwritten,
    /// Maybe in one that cannot be read now.
    Unclear,
}

/// Whether an entry of a listing is the file of a link, by what the file system says.
enum Match {
    Same,
    /// The same file, with less in it.
    Shrunk,
    Other,
}

impl Chain {
    /// Matches a listing of the directory with the chain. `verify` is called only where names and numbers do not
    /// suffice. The time is in proportion to links and entries, except for the sorting of new ones.
    pub(crate) fn reconcile(&mut self, listing: &[Seen], verify: &mut Verify<'_>, now_ms: u64) -> Vec<Event> {
        self.looked_ms = now_ms;
        let mut matching = Matching::new(listing, self.links.len());
        self.find_by_id(&mut matching, verify);
        self.find_by_key(&mut matching, verify);
        self.find_rotated(&mut matching, verify);
        let mut events = Vec::new();
        let kept_live = self.apply(&matching, now_ms, &mut events);
        self.add_new(&matching, &kept_live, &mut events);
        self.settle(now_ms);
        self.prune(now_ms);
        events
    }

    /// Files under their old names, or renamed. Later links first: earlier uses of an inode are over.
    fn find_by_id(&self, matching: &mut Matching<'_>, verify: &mut Verify<'_>) {
        for (index, link) in self.links.iter().enumerate().rev() {
            let Some(entry) = matching.by_place.get(&link.id.place()).copied().filter(|_| link.id != FileId::default())
            else {
                continue;
            };
            if matching.takers[entry].is_some_and(|begin| link.end != Some(begin)) {
                continue;
            }
            let seen = matching.entries[entry];
            matching.found[index] = match link.compare(seen) {
                Match::Other => Found::Missing,
                Match::Shrunk => Found::Overwritten,
                Match::Same if matching.takers[entry].is_some() => Found::At(entry),
                Match::Same if link.is_verified && !link.is_doubtful(seen) => Found::At(entry),
                // Nothing is read of it any more, and it was certainly this one.
                Match::Same if self.is_behind(link) && link.id.is_certain(seen.id) => Found::At(entry),
                // Nothing is known of its content; so nothing of it was read.
                Match::Same if link.head.length == 0 && !link.id.is_certain(seen.id) => Found::Missing,
                Match::Same => match verify(&self.check(link, seen)) {
                    Answer::Same => Found::At(entry),
                    Answer::Unreadable => Found::Unclear,
                    Answer::Other if link.id.is_certain(seen.id) => Found::Overwritten,
                    Answer::Other => Found::Missing,
                },
            };
            if matches!(matching.found[index], Found::At(_) | Found::Unclear) {
                matching.takers[entry] = Some(link.begin);
            }
        }
    }

    /// Files that were compressed, or copied, under the time of their rotation.
    fn find_by_key(&self, matching: &mut Matching<'_>, verify: &mut Verify<'_>) {
        for (index, link) in self.links.iter().enumerate().rev() {
            if matches!(matching.found[index], Found::At(_) | Found::Unclear) || link.name.rotated.is_none() {
                continue;
            }
            let Some(entry) = matching.by_key.get(&link.name.key()).copied() else { continue };
            let seen = matching.entries[entry];
            if let Some(begin) = matching.takers[entry] {
                // An earlier part of the same file.
                if link.end == Some(begin) && matching.is_adopted[entry] {
                    matching.adopt(index, entry, link.begin);
                }
                continue;
            }
            let answer = match (seen.name.is_compressed, link.head.length) {
                (true, 0) => Answer::Same,
                (true, _) if self.is_behind(link) => Answer::Same,
                (false, 0) => Answer::Other,
                _ => verify(&self.check(link, seen)),
            };
            matching.answer(index, entry, link.begin, answer);
        }
    }

    /// Files that were written to at the last look (or whose rotation was taken back), and were rotated and compressed
    /// since: which is which is not to be seen from names. Of each restart, only the last one can have a new name.
    fn find_rotated(&self, matching: &mut Matching<'_>, verify: &mut Verify<'_>) {
        let mut searched: HashMap<u64, usize> = HashMap::new();
        for (index, link) in self.links.iter().enumerate() {
            let is_missing = !matches!(matching.found[index], Found::At(_) | Found::Unclear);
            // Its content has to be known: by its head, or by what was read of it.
            let is_known = link.head.length > 0 || self.guarded(link).is_some();
            if is_missing && !link.name.is_compressed && is_known {
                searched.insert(link.name.restart, index);
            }
        }
        if searched.is_empty() {
            return;
        }
        for entry in
            matching.untaken().filter(|entry| matching.entries[*entry].name.rotated.is_some()).collect::<Vec<_>>()
        {
            let seen = matching.entries[entry];
            let Some(index) = searched.get(&seen.name.restart).copied() else { continue };
            let answer = verify(&self.check(&self.links[index], seen));
            if answer == Answer::Other {
                continue;
            }
            matching.answer(index, entry, self.links[index].begin, answer);
            searched.remove(&seen.name.restart);
        }
    }

    fn check<'a>(&self, link: &Link, seen: &'a Seen) -> Check<'a> {
        Check { seen, number: link.number, head: link.head, guard: self.guarded(link) }
    }

    /// The offset up to which a link was read, and the print of what is before it.
    fn guarded(&self, link: &Link) -> Option<(u64, Print)> {
        let Spot { file, offset } = self.position.done;
        (file == link.number && self.guard.length > 0).then_some((offset, self.guard))
    }

    /// Whether nothing of a link will be read any more.
    fn is_behind(&self, link: &Link) -> bool {
        let Spot { file, offset } = self.earliest();
        link.number < file || link.number == file && link.end.is_some_and(|end| offset >= end)
    }

    /// Writes down what was found. Returns the restarts whose file is still the one that was written to before.
    fn apply(&mut self, matching: &Matching<'_>, now_ms: u64, events: &mut Vec<Event>) -> HashSet<u64> {
        let mut kept_live = HashSet::new();
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let number = link.number;
            match matching.found[index] {
                Found::At(entry) => {
                    let was_live = link.name.rotated.is_none();
                    events.extend(link.take(matching.entries[entry], now_ms));
                    if was_live && link.name.rotated.is_none() {
                        kept_live.insert(link.name.restart);
                    }
                }
                Found::Missing if link.state == State::Present => {
                    link.state = State::Gone { since_ms: now_ms };
                    events.push(Event::Gone { number });
                }
                Found::Overwritten if link.state != State::Overwritten => {
                    link.overwrite();
                    events.push(Event::Overwritten { number });
                }
                Found::Missing | Found::Overwritten | Found::Unclear => {}
            }
        }
        kept_live
    }

    /// Gives numbers to new files. A new file that is older than a file that was read comes before all that is unread.
    fn add_new(&mut self, matching: &Matching<'_>, kept_live: &HashSet<u64>, events: &mut Vec<Event>) {
        let known = self.links.iter().zip(&matching.found).filter(|(_, found)| matches!(found, Found::At(_)));
        let highest = known.map(|(link, _)| link.name.restart).max().unwrap_or(0);
        let is_late =
            |name: LogName| name.restart < highest || name.rotated.is_some() && kept_live.contains(&name.restart);
        let (late, new): (Vec<&Seen>, Vec<&Seen>) =
            matching.untaken().map(|entry| matching.entries[entry]).partition(|seen| is_late(seen.name));
        let mut between = self.rests(matching);
        let reached = self.index(self.reached.file);
        let place = match late.first() {
            Some(first) if between.is_empty() => self.pivot(matching, first.name).max(reached),
            _ => reached,
        };
        between.extend(late.into_iter().map(|seen| (None, Link::new(0, seen))));
        if !between.is_empty() {
            self.insert(place, between, events);
        }
        for seen in new {
            let number = self.number();
            self.links.push(Link::new(number, seen));
            events.push(Event::New { number });
        }
    }

    /// The parts that were written to files after their end.
    fn rests(&self, matching: &Matching<'_>) -> Vec<(Option<u64>, Link)> {
        let mut last_parts = HashSet::new();
        let mut rests = Vec::new();
        for (link, found) in self.links.iter().zip(&matching.found).rev() {
            let Found::At(entry) = *found else { continue };
            if !last_parts.insert(entry) || matching.entries[entry].name.is_compressed {
                continue;
            }
            if let Some(end) = link.end.filter(|end| link.size > *end) {
                rests.push((Some(link.number), Link { begin: end, end: None, ..link.clone() }));
            }
        }
        rests.reverse();
        rests
    }

    /// The first link that was written after a file of this name, which was not seen before.
    fn pivot(&self, matching: &Matching<'_>, name: LogName) -> usize {
        let is_after = |(link, found): (&Link, &Found)| {
            let is_known = matches!(found, Found::At(_));
            is_known
                && (link.name.restart > name.restart
                    || link.name.restart == name.restart && link.name.rotated.is_none())
        };
        self.links.iter().zip(&matching.found).position(is_after).unwrap_or(self.links.len())
    }

    /// Puts links before the one at `place`, or into it where it was read in part.
    fn insert(&mut self, place: usize, between: Vec<(Option<u64>, Link)>, events: &mut Vec<Event>) {
        let mut moved = self.links.split_off(place);
        let reached = self.reached;
        let is_read = |link: &Link| link.number == reached.file && reached.offset > link.begin;
        let mut split = None;
        if moved.first().is_some_and(is_read) {
            let mut read = moved[0].clone();
            if read.end.is_none_or(|end| end > reached.offset) {
                moved[0].begin = reached.offset;
                read.end = Some(reached.offset);
                split = Some(reached.file);
            } else {
                moved.remove(0);
            }
            self.links.push(read);
        }
        for (part_of, mut link) in between {
            link.number = self.number();
            events.push(match part_of {
                Some(number) => Event::Split { number, at: link.begin, rest: link.number },
                None => Event::New { number: link.number },
            });
            self.links.push(link);
        }
        for mut link in moved {
            let from = mem::replace(&mut link.number, self.number());
            events.push(match split.take() {
                Some(number) => Event::Split { number, at: link.begin, rest: link.number },
                None => Event::Moved { from, to: link.number },
            });
            self.links.push(link);
        }
    }

    fn number(&mut self) -> u64 {
        let next = self.next.saturating_add(1);
        mem::replace(&mut self.next, next)
    }

    /// Notes which files are settled: those with a later file, and those that are gone.
    fn settle(&mut self, now_ms: u64) {
        let highest = self.links.iter().map(|link| link.name.restart).max().unwrap_or(0);
        let mut later: Option<FileId> = None;
        let mut is_followed = false;
        for link in self.links.iter_mut().rev() {
            is_followed |= later.is_some_and(|id| id != link.id);
            later = Some(link.id);
            let is_present = link.state == State::Present;
            let is_current = is_present && link.name.rotated.is_none() && link.name.restart == highest;
            let is_settled = !is_present || is_followed && !is_current;
            // What was saved may be of a clock that was ahead.
            let since = link.settled_ms.map_or(now_ms, |since| since.min(now_ms));
            link.settled_ms = is_settled.then_some(since);
        }
    }

    /// Forgets links that were read and are gone, and joins parts that were read.
    fn prune(&mut self, now_ms: u64) {
        let links = mem::take(&mut self.links);
        let mut kept: Vec<Link> = Vec::with_capacity(links.len());
        let mut parts: HashMap<FileId, usize> = HashMap::new();
        for link in links.into_iter().rev() {
            if !self.is_behind(&link) {
                kept.push(link);
                continue;
            }
            let is_missed = |since: u64| now_ms.saturating_sub(since) < MISSED_MS;
            match link.state {
                State::Gone { since_ms } if !is_missed(since_ms) => continue,
                State::Overwritten => continue,
                State::Gone { .. } | State::Present => {}
            }
            match parts.get(&link.id).map(|index| &mut kept[*index]) {
                Some(later) if link.end == Some(later.begin) => later.begin = link.begin,
                _ => {
                    parts.insert(link.id, kept.len());
                    kept.push(link);
                }
            }
        }
        kept.reverse();
        self.links = kept;
    }
}

impl Link {
    /// Whether an entry with the same inode may be another file, though its name and size do not say so: nothing holds
    /// the file of this link open any more, and its time of birth is not known.
    fn is_doubtful(&self, seen: &Seen) -> bool {
        let is_unchanged = self.state == State::Present && self.name == seen.name && self.size == seen.size;
        self.end.is_some() && !is_unchanged && !self.id.is_certain(seen.id)
    }

    /// Whether an entry with the same inode is the file of this link.
    fn compare(&self, seen: &Seen) -> Match {
        let is_smaller = !self.name.is_compressed && seen.size < self.size;
        if self.name.is_compressed != seen.name.is_compressed {
            return Match::Other;
        }
        if self.id.is_certain(seen.id) {
            return match self.id.born == seen.id.born {
                false => Match::Other,
                true if is_smaller => Match::Shrunk,
                true => Match::Same,
            };
        }
        // A file that is open keeps its inode, under whatever name of its restart; a compressed one is not renamed, and
        // it may be the plain one that is open.
        let is_possible = !seen.name.is_compressed || self.name == seen.name;
        match is_possible && self.name.restart == seen.name.restart {
            true if !is_smaller => Match::Same,
            true if self.name == seen.name => Match::Shrunk,
            _ => Match::Other,
        }
    }

    /// Takes over what a listing shows of the file.
    fn take(&mut self, seen: &Seen, now_ms: u64) -> Option<Event> {
        let number = self.number;
        let was = mem::replace(&mut self.name, seen.name);
        let was_present = mem::replace(&mut self.state, State::Present) == State::Present;
        self.id = seen.id;
        self.is_verified = true;
        if !seen.name.is_compressed {
            self.size = seen.size;
            self.is_size_final = self.is_settled(now_ms);
        }
        match (was == seen.name, seen.name.is_compressed && !was.is_compressed) {
            (_, true) => Some(Event::Compressed { number }),
            (false, _) => Some(Event::Renamed { number }),
            (true, _) if !was_present => Some(Event::Returned { number }),
            (true, _) => None,
        }
    }
}

/// A listing, and which of its entries belong to which link.
struct Matching<'a> {
    /// In the order of their names, each file once.
    entries: Vec<&'a Seen>,
    by_place: HashMap<(u64, u64), usize>,
    /// Rotated ones; not the compressed one where the plain one is there, too.
    by_key: HashMap<(u64, Option<RotationTime>), usize>,
    /// Of each entry: where the earliest link that it was found for begins.
    takers: Vec<Option<u64>>,
    /// Of each entry: whether it was found by its name.
    is_adopted: Vec<bool>,
    /// Of each link.
    found: Vec<Found>,
}

impl<'a> Matching<'a> {
    fn new(listing: &'a [Seen], links: usize) -> Self {
        let mut entries: Vec<&Seen> = listing.iter().collect();
        entries.sort_by_key(|seen| seen.name);
        // The kubelet removes the plain file after it wrote the compressed one. Of two names of one file, the one that
        // it got by rotation is newer.
        entries.dedup_by_key(|seen| seen.name.key());
        let mut places = HashSet::new();
        entries.retain(|seen| places.insert(seen.id.place()));
        let indices = |entries: &[&Seen]| entries.iter().map(|seen| seen.id.place()).zip(0..).collect();
        let by_place = indices(&entries);
        let rotated = entries.iter().zip(0..).filter(|(seen, _)| seen.name.rotated.is_some());
        let by_key = rotated.map(|(seen, index)| (seen.name.key(), index)).collect();
        let (takers, is_adopted) = (vec![None; entries.len()], vec![false; entries.len()]);
        Self { entries, by_place, by_key, takers, is_adopted, found: vec![Found::Missing; links] }
    }

    fn answer(&mut self, index: usize, entry: usize, begin: u64, answer: Answer) {
        match answer {
            Answer::Same => self.adopt(index, entry, begin),
            Answer::Other => {}
            Answer::Unreadable => {
                self.found[index] = Found::Unclear;
                self.takers[entry] = Some(begin);
            }
        }
    }

    fn adopt(&mut self, index: usize, entry: usize, begin: u64) {
        self.found[index] = Found::At(entry);
        self.takers[entry] = Some(begin);
        self.is_adopted[entry] = true;
    }

    fn untaken(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.entries.len()).filter(|entry| self.takers[*entry].is_none())
    }
}
