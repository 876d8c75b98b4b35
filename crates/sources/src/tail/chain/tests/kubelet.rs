//! A kubelet, and a reader of its files, as a model: files are numbers in the order in which they were written.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::tail::identity::PRINT_BYTES;

/// What each write adds: a line with its number.
fn line(number: u64) -> Vec<u8> {
    format!("{number:015}\n").into_bytes()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) id: FileId,
    /// The same for a file and its compressed one.
    pub(super) origin: u64,
    /// Uncompressed.
    pub(super) bytes: Vec<u8>,
}

/// The directory of a container, and who writes to it.
#[derive(Debug, Default)]
pub(super) struct Kubelet {
    pub(super) files: BTreeMap<LogName, File>,
    /// Files without a name that somebody has open.
    unlinked: Vec<File>,
    /// All lines of each file that ever was.
    pub(super) lines_of: BTreeMap<u64, Vec<u64>>,
    restart: u64,
    lines: u64,
    clock: u64,
    births: u64,
    inodes: u64,
    free: Vec<u64>,
    /// Inodes that are open stay taken.
    held: BTreeSet<u64>,
    has_births: bool,
}

impl Kubelet {
    pub(super) fn new(has_births: bool) -> Self {
        Self { has_births, ..Self::default() }
    }

    pub(super) fn live(&self) -> LogName {
        LogName { restart: self.restart, rotated: None, is_compressed: false }
    }

    pub(super) fn write(&mut self, lines: u64) {
        let live = self.live();
        if !self.files.contains_key(&live) {
            self.create(live, None);
        }
        let file = self.files.get_mut(&live).unwrap();
        for _ in 0..lines {
            file.bytes.extend(line(self.lines));
            self.lines_of.entry(file.origin).or_default().push(self.lines);
            self.lines += 1;
        }
    }

    fn create(&mut self, name: LogName, from: Option<File>) {
        self.births += 1;
        let inode = match self.free.iter().rposition(|inode| !self.held.contains(inode)) {
            Some(index) => self.free.remove(index),
            None => {
                self.inodes += 1;
                self.inodes
            }
        };
        let born = if self.has_births { self.births } else { 0 };
        let id = FileId { device: 1, inode, born };
        let new = File { id, origin: self.births, bytes: Vec::new() };
        self.files.insert(name, from.map_or(new, |from| File { id, ..from }));
    }

    pub(super) fn remove(&mut self, name: LogName) {
        if let Some(file) = self.files.remove(&name) {
            self.free.push(file.id.inode);
            if self.held.contains(&file.id.inode) {
                self.unlinked.push(file);
            }
        }
    }

    /// Renames what is written to, lets the runtime make a new file, compresses what was rotated before, and removes
    /// the oldest ones.
    pub(super) fn rotate(&mut self, keep: usize) {
        let Some(file) = self.files.remove(&self.live()) else { return };
        let plain: Vec<LogName> = self.rotated().filter(|name| !name.is_compressed).collect();
        for name in plain {
            let plain = self.files[&name].clone();
            self.create(LogName { is_compressed: true, ..name }, Some(plain));
            self.remove(name);
        }
        let time = format!("0.log.20261123-{:02}{:02}{:02}", self.clock / 3600, self.clock / 60 % 60, self.clock % 60);
        self.clock += 1;
        let rotated = LogName::parse(&time).unwrap().rotated;
        self.files.insert(LogName { rotated, ..self.live() }, file);
        self.create(self.live(), None);
        let rotated: Vec<LogName> = self.rotated().collect();
        rotated.iter().take(rotated.len().saturating_sub(keep)).for_each(|name| self.remove(*name));
    }

    /// Undoes a rotation, as the kubelet does when the runtime did not write to the new file.
    pub(super) fn take_back(&mut self) {
        let live = self.live();
        let newest = self.rotated().last().filter(|name| !name.is_compressed);
        if let Some(name) = newest.filter(|_| self.files.get(&live).is_some_and(|file| file.bytes.is_empty())) {
            self.remove(live);
            let file = self.files.remove(&name);
            self.files.extend(file.map(|file| (live, file)));
        }
    }

    fn rotated(&self) -> impl Iterator<Item = LogName> + '_ {
        self.files.keys().copied().filter(|name| name.restart == self.restart && name.rotated.is_some())
    }

    pub(super) fn restart(&mut self) {
        self.restart += 1;
        // Of dead containers only the last one's logs stay.
        let old: Vec<LogName> = self.files.keys().copied().filter(|name| name.restart + 1 < self.restart).collect();
        old.into_iter().for_each(|name| self.remove(name));
        self.create(self.live(), None);
    }

    fn hold(&mut self, inodes: BTreeSet<u64>) {
        self.unlinked.retain(|file| inodes.contains(&file.id.inode));
        self.held = inodes;
    }

    pub(super) fn listing(&self) -> Vec<Seen> {
        let size = |name: &LogName, file: &File| {
            let length = file.bytes.len() as u64;
            if name.is_compressed { length / 3 + 20 } else { length }
        };
        self.files.iter().map(|(name, file)| Seen { name: *name, id: file.id, size: size(name, file) }).collect()
    }
}

/// A reader that does what `chain` asks of it. It holds what it opens open: the bytes of its files stay.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) chain: Chain,
    /// Of each link: its file's bytes, while it is open.
    open: BTreeMap<u64, (FileId, Vec<u8>)>,
    /// The numbers of the lines that were read, in that order.
    pub(super) read: Vec<u64>,
    pub(super) lost: u64,
    pub(super) inexact: u64,
    pub(super) checks: usize,
}

impl Reader {
    pub(super) fn look(&mut self, kubelet: &mut Kubelet, now_ms: u64) -> Vec<Event> {
        self.refresh(kubelet, false);
        let listing = kubelet.listing();
        let mut checks = 0;
        let events = self.chain.reconcile(
            &listing,
            &mut |check| {
                checks += 1;
                compare(&kubelet.files[&check.seen.name].bytes, check)
            },
            now_ms,
        );
        self.checks += checks;
        for event in &events {
            match *event {
                Event::Moved { from, to } => {
                    let file = self.open.remove(&from);
                    self.open.extend(file.map(|file| (to, file)));
                }
                Event::Split { number, rest, .. } => {
                    let file = self.open.get(&number).cloned();
                    self.open.extend(file.map(|file| (rest, file)));
                }
                Event::Overwritten { number } => drop(self.open.remove(&number)),
                _ => {}
            }
        }
        self.refresh(kubelet, true);
        events
    }

    /// Sees what was written to what is open, and opens what is there.
    fn refresh(&mut self, kubelet: &mut Kubelet, opens: bool) {
        let links: Vec<Link> = self.chain.links().to_vec();
        for link in &links {
            // Who has a file open sees what is in it, whatever its name is now.
            let held = self.open.get(&link.number).map(|(id, _)| *id);
            let file = match held {
                Some(id) => kubelet.files.values().chain(&kubelet.unlinked).find(|file| file.id == id),
                None if opens && link.state == State::Present => {
                    kubelet.files.get(&link.name).filter(|file| file.id == link.id)
                }
                None => None,
            };
            if let Some(file) = file.filter(|_| link.end.is_none()) {
                self.open.insert(link.number, (file.id, file.bytes.clone()));
                self.chain.set_head(link.number, Print::of_head(&file.bytes));
            }
        }
        self.open.retain(|number, _| links.iter().any(|link| link.number == *number && link.end.is_none()));
        kubelet.hold(self.open.values().map(|(id, _)| id.inode).collect());
    }

    /// Reads up to so many lines, and says that they are safe.
    pub(super) fn read(&mut self, kubelet: &mut Kubelet, lines: usize) {
        self.refresh(kubelet, true);
        for _ in 0..lines {
            let done = self.chain.position().done;
            let Some((link, offset)) = self.chain.at(done) else { return };
            let (number, end) = (link.number, link.end);
            let Some((_, bytes)) = self.open.get(&number).filter(|_| end.is_none()) else {
                if end.is_none_or(|end| offset < end) {
                    let loss = self.chain.lost(number, None);
                    self.lost += loss.bytes;
                    self.inexact += u64::from(!loss.is_exact);
                }
                if !self.next(number) {
                    return;
                }
                continue;
            };
            let at = usize::try_from(offset).unwrap();
            assert!(at <= bytes.len(), "{number} {at}");
            if at < bytes.len() {
                self.read.push(std::str::from_utf8(&bytes[at..at + 15]).unwrap().parse().unwrap());
                let done = Spot { file: number, offset: offset + 16 };
                let guard = Print::of_tail(&bytes[at.saturating_sub(PRINT_BYTES - 16)..at + 16]);
                self.chain.commit(Position { done, open: [None; 3] }, guard);
            } else if self.chain.is_final(number) {
                self.chain.finish(number, offset);
                if !self.next(number) {
                    return;
                }
            } else {
                return;
            }
        }
    }

    fn next(&mut self, number: u64) -> bool {
        let next = self.chain.links().iter().map(|link| link.number).find(|next| *next > number);
        if let Some(file) = next {
            let offset = self.chain.link(file).unwrap().begin;
            self.chain.commit(Position { done: Spot { file, offset }, open: [None; 3] }, Print::default());
        }
        next.is_some()
    }

    /// Ends, and begins again with what was saved.
    pub(super) fn restart(&mut self, kubelet: &mut Kubelet) {
        let text = serde_json::to_string(self.chain.links()).unwrap();
        let links = serde_json::from_str(&text).unwrap();
        self.chain = Chain::restore(links, self.chain.position(), self.chain.guard());
        self.open.clear();
        kubelet.hold(BTreeSet::new());
    }
}

fn compare(bytes: &[u8], check: &Check<'_>) -> Answer {
    let is_same = check.head.is_head_of(bytes)
        && check.guard.is_none_or(|(offset, print)| {
            let before = usize::try_from(offset).ok().and_then(|offset| bytes.get(..offset));
            before.is_some_and(|before| print.is_tail_of(before))
        });
    if is_same { Answer::Same } else { Answer::Other }
}
