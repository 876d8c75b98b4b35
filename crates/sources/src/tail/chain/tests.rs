mod kubelet;

use std::collections::BTreeSet;

use proptest::prelude::*;

use self::kubelet::{Kubelet, Reader};
use super::*;

fn name(text: &str) -> LogName {
    LogName::parse(text).unwrap()
}

fn id(inode: u64, born: u64) -> FileId {
    FileId { device: 1, inode, born }
}

fn seen(text: &str, id: FileId, size: u64) -> Seen {
    Seen { name: name(text), id, size }
}

fn never(check: &Check<'_>) -> Answer {
    panic!("no comparison is needed: {check:?}")
}

const LIVE: &str = "0.log";
const FIRST: &str = "0.log.20261123-120000";
const FIRST_GZ: &str = "0.log.20261123-120000.gz";
const SECOND: &str = "0.log.20261123-120001";

/// A chain that saw these files.
fn chain(listing: &[Seen]) -> Chain {
    let mut chain = Chain::default();
    let events = chain.reconcile(listing, &mut never, 0);
    assert_eq!(events.len(), listing.len());
    for link in 0..listing.len() as u64 {
        chain.set_head(link, Print::of_head(b"head"));
    }
    chain
}

fn commit(chain: &mut Chain, file: u64, offset: u64) {
    chain.commit(Position { done: Spot { file, offset }, open: [None; 3] }, Print::of_tail(b"tail"));
}

fn numbers(chain: &Chain) -> Vec<(u64, String)> {
    chain.links().iter().map(|link| (link.number, link.name.to_string())).collect()
}

fn expected(links: &[(u64, &str)]) -> Vec<(u64, String)> {
    links.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
}

/// LOG-6: what is renamed is what it was; what is new comes after it; and it is final a while later.
#[test]
fn a_rotation_keeps_the_number() {
    let mut chain = chain(&[seen(LIVE, id(1, 1), 100)]);
    assert!(!chain.is_final(0));
    let listing = [seen(LIVE, id(2, 2), 5), seen(FIRST, id(1, 1), 120)];
    let events = chain.reconcile(&listing, &mut never, 10);
    assert_eq!(events, [Event::Renamed { number: 0 }, Event::New { number: 1 }]);
    assert_eq!(numbers(&chain), expected(&[(0, FIRST), (1, LIVE)]));
    assert_eq!(chain.link(0).unwrap().size, 120);
    for (now_ms, is_final) in [(11, false), (9 + GRACE_MS, false), (10 + GRACE_MS, true)] {
        assert_eq!(chain.reconcile(&listing, &mut never, now_ms), []);
        assert_eq!((chain.is_final(0), chain.is_final(1)), (is_final, false), "{now_ms}");
    }
}

/// LOG-6: the kubelet takes a rotation back when the runtime does not make the new file.
#[test]
fn a_rotation_is_taken_back() {
    let mut chain = chain(&[seen(LIVE, id(1, 1), 100)]);
    chain.reconcile(&[seen(FIRST, id(1, 1), 100), seen(LIVE, id(2, 2), 0)], &mut never, 1);
    let events = chain.reconcile(&[seen(LIVE, id(1, 1), 110)], &mut never, 2);
    assert_eq!(events, [Event::Renamed { number: 0 }, Event::Gone { number: 1 }]);
    chain.reconcile(&[seen(LIVE, id(1, 1), 110)], &mut never, 2 + GRACE_MS);
    assert!(!chain.is_final(0) && chain.is_final(1));
}

/// LOG-3: a new file with the inode of an old one is new, whatever it begins with.
#[test]
fn an_inode_is_used_again() {
    for (born, size) in [(2, 200), (2, 100), (2, 10), (0, 10), (0, 100), (0, 200)] {
        let mut chain = chain(&[seen(FIRST, id(1, born.min(1)), 100), seen(LIVE, id(2, 0), 10)]);
        chain.finish(0, 100);
        commit(&mut chain, 1, 10);
        let listing = [seen(FIRST_GZ, id(9, 0), 20), seen(SECOND, id(2, 0), 30), seen(LIVE, id(1, born), size)];
        let events = chain.reconcile(&listing, &mut |_| Answer::Other, 1);
        let expected_events = [Event::Compressed { number: 0 }, Event::Renamed { number: 1 }, Event::New { number: 2 }];
        assert_eq!(events, expected_events, "{born} {size}");
        assert_eq!(chain.links()[2].begin, 0);
    }
    // Without a time of birth: the name cannot be.
    let mut other = chain(&[seen(LIVE, id(1, 0), 100)]);
    let events = other.reconcile(&[seen("1.log", id(1, 0), 300)], &mut never, 1);
    assert_eq!(events, [Event::Gone { number: 0 }, Event::New { number: 1 }]);
}

/// LOG-3, LOG-4: after a restart, a file is the same only if number, head and the bytes before the offset are.
#[test]
fn all_of_an_identity_must_match() {
    let mut saved = chain(&[seen(LIVE, id(1, 1), 100)]);
    commit(&mut saved, 0, 50);
    let restored = || Chain::restore(saved.links().to_vec(), saved.position(), saved.guard());

    let mut same = restored();
    let mut asked = Vec::new();
    let events = same.reconcile(
        &[seen(LIVE, id(1, 1), 120)],
        &mut |check| {
            asked.push((check.number, check.head, check.guard));
            Answer::Same
        },
        0,
    );
    assert_eq!(asked, [(0, Print::of_head(b"head"), Some((50, Print::of_tail(b"tail"))))]);
    assert_eq!((events, same.at(same.position().done).unwrap().1), (vec![], 50));

    // The same content under another number is another file, and nobody looks at it.
    for other in [id(2, 1), id(1, 2), FileId { device: 2, ..id(1, 1) }] {
        let events = restored().reconcile(&[seen(LIVE, other, 120)], &mut never, 0);
        assert_eq!(events, [Event::Gone { number: 0 }, Event::New { number: 1 }], "{other:?}");
    }
    // Other content in the same file.
    let events = restored().reconcile(&[seen(LIVE, id(1, 1), 120)], &mut |_| Answer::Other, 0);
    assert_eq!(events, [Event::Overwritten { number: 0 }, Event::New { number: 1 }]);
    // What cannot be read is neither.
    let mut unclear = restored();
    assert_eq!(unclear.reconcile(&[seen(LIVE, id(1, 1), 120)], &mut |_| Answer::Unreadable, 0), []);
    assert_eq!(unclear.reconcile(&[seen(LIVE, id(1, 1), 120)], &mut |_| Answer::Other, 0).len(), 2);
}

/// LOG-4: files that begin alike are as many as they are.
#[test]
fn equal_content_is_not_the_same_file() {
    let listing = [seen("0.log", id(1, 1), 50), seen("1.log", id(2, 2), 50), seen("2.log", id(3, 3), 50)];
    let saved = chain(&listing);
    let mut restored = Chain::restore(saved.links().to_vec(), saved.position(), saved.guard());
    assert_eq!(restored.reconcile(&listing, &mut |_| Answer::Same, 0), []);
    assert_eq!(numbers(&restored), expected(&[(0, "0.log"), (1, "1.log"), (2, "2.log")]));
}

/// LOG-8: the rotated file that was read in part is now compressed: known by the time of its rotation, or, when it was
/// rotated meanwhile, by its content.
#[test]
fn a_compressed_file_goes_on() {
    let mut rotated = chain(&[seen(FIRST, id(1, 1), 100), seen(LIVE, id(2, 2), 100)]);
    commit(&mut rotated, 0, 40);
    let live = {
        let mut chain = chain(&[seen(LIVE, id(1, 1), 100)]);
        commit(&mut chain, 0, 40);
        chain
    };
    for (saved, has_other) in [(rotated, true), (live, false)] {
        let other = if has_other { SECOND } else { LIVE };
        let listing = [seen(FIRST_GZ, id(7, 7), 30), seen(other, id(2, 2), 100)];
        for is_restarted in [false, true] {
            let mut chain = saved.clone();
            if is_restarted {
                chain = Chain::restore(saved.links().to_vec(), saved.position(), saved.guard());
            }
            let events = chain.reconcile(&listing, &mut |_| Answer::Same, 5);
            assert_eq!(events[0], Event::Compressed { number: 0 });
            assert_eq!(numbers(&chain), expected(&[(0, FIRST_GZ), (1, other)]));
            assert_eq!((chain.link(0).unwrap().size, chain.unread(0)), (100, 60));
            chain.reconcile(&listing, &mut never, 5 + GRACE_MS);
            assert!(chain.is_final(0));

            let mut chain = Chain::restore(saved.links().to_vec(), saved.position(), saved.guard());
            let is_second = |check: &Check<'_>| if check.number == 0 { Answer::Other } else { Answer::Same };
            let events = chain.reconcile(&listing, &mut |check| is_second(check), 5);
            assert!(events.contains(&Event::Gone { number: 0 }), "{events:?}");
            assert!(events.iter().any(|event| matches!(event, Event::New { .. })), "{events:?}");
        }
    }
}

/// LOG-8: while the kubelet replaces a file by the compressed one, both are there, and it is one.
#[test]
fn a_file_that_is_there_twice_is_one() {
    let first = [seen(FIRST_GZ, id(3, 3), 30), seen(FIRST, id(1, 1), 100), seen(LIVE, id(2, 2), 10)];
    let mut chain = Chain::default();
    assert_eq!(chain.reconcile(&first, &mut never, 0).len(), 2);
    assert_eq!(numbers(&chain), expected(&[(0, FIRST), (1, LIVE)]));
    // A listing that was taken during a rename.
    let renamed = [seen(FIRST_GZ, id(3, 3), 30), seen(SECOND, id(2, 2), 10), seen(LIVE, id(2, 2), 10)];
    let events = chain.reconcile(&renamed, &mut never, 1);
    assert_eq!(events, [Event::Compressed { number: 0 }, Event::Renamed { number: 1 }]);
}

/// LOG-11: a file that is shorter than it was begins anew; its unread bytes are reported, or read in the copy.
#[test]
fn a_file_is_cut_off() {
    for read in [0, 40, 100] {
        let mut saved = chain(&[seen(LIVE, id(1, 1), 100)]);
        commit(&mut saved, 0, read);

        let mut cut = saved.clone();
        let events = cut.reconcile(&[seen(LIVE, id(1, 1), 60)], &mut never, 1);
        assert_eq!(events, [Event::Overwritten { number: 0 }, Event::New { number: 1 }]);
        assert_eq!(cut.lost(0, None), Loss { bytes: 100 - read, is_exact: false });
        commit(&mut cut, 1, 0);
        assert_eq!(cut.reconcile(&[seen(LIVE, id(1, 1), 60)], &mut never, 2), []);
        assert_eq!(numbers(&cut), expected(&[(1, LIVE)]));

        let mut copied = saved.clone();
        let listing = [seen(FIRST, id(2, 2), 100), seen(LIVE, id(1, 1), 60)];
        let events = copied.reconcile(&listing, &mut |_| Answer::Same, 1);
        assert_eq!(events, [Event::Renamed { number: 0 }, Event::New { number: 1 }]);
        assert_eq!((numbers(&copied), copied.unread(0)), (expected(&[(0, FIRST), (1, LIVE)]), 100 - read));

        // It grew past its old size before anybody looked: the reader sees that the guard is wrong.
        let mut grown = saved.clone();
        assert_eq!(grown.reconcile(&[seen(LIVE, id(1, 1), 300)], &mut never, 1), []);
        let events = grown.overwritten(0, 300);
        assert_eq!(events, [Event::Overwritten { number: 0 }, Event::New { number: 1 }]);
        assert_eq!((grown.unread(0), grown.overwritten(0, 300)), (300 - read, Vec::new()));
    }
    // What was read since the last look counts, too.
    let mut read_on = chain(&[seen(LIVE, id(1, 1), 100)]);
    commit(&mut read_on, 0, 500);
    let events = read_on.reconcile(&[seen(LIVE, id(1, 1), 350)], &mut never, 1);
    assert_eq!(events, [Event::Overwritten { number: 0 }, Event::New { number: 1 }]);
    assert_eq!(read_on.unread(0), 0);
}

/// LOG-7: the loss of a file that was removed unread is reported, to the byte if it was seen after its last write.
#[test]
fn what_is_removed_unread_is_reported() {
    let mut chain = chain(&[seen(LIVE, id(1, 1), 100)]);
    commit(&mut chain, 0, 30);
    let rotated = [seen(FIRST, id(1, 1), 120), seen(LIVE, id(2, 2), 10)];
    chain.reconcile(&rotated, &mut never, 0);
    let mut inexact = chain.clone();
    chain.reconcile(&rotated, &mut never, GRACE_MS);
    for (chain, is_exact) in [(&mut chain, true), (&mut inexact, false)] {
        let events = chain.reconcile(&rotated[1..], &mut never, GRACE_MS + 1);
        assert_eq!(events, [Event::Gone { number: 0 }]);
        assert_eq!(chain.clone().lost(0, Some(130)), Loss { bytes: 100, is_exact: true });
        assert_eq!(chain.lost(0, None), Loss { bytes: 90, is_exact });
        assert_eq!(chain.lost(0, None), Loss { bytes: 0, is_exact: true });
        assert_eq!(chain.lost(99, None), Loss { bytes: 0, is_exact: true });
    }
    // A listing may miss a file.
    let events = chain.reconcile(&rotated, &mut never, GRACE_MS + 2);
    assert_eq!(events[0], Event::Returned { number: 0 });
}

/// LOG-6: what was written to a file after its end is read, before what came after it, and once.
/// A part of a line whose file is gone keeps nobody from what comes after it.
#[test]
fn what_is_open_in_a_lost_file_is_lost_with_it() {
    let mut chain = chain(&[seen(LIVE, id(1, 1), 100)]);
    let part = Spot { file: 0, offset: 20 };
    let position = Position { done: Spot { file: 0, offset: 30 }, open: [Some(part), None, None] };
    chain.commit(position, Print::default());
    chain.reconcile(&[seen(LIVE, id(2, 2), 10)], &mut never, 0);
    assert_eq!(chain.lost(0, Some(100)), Loss { bytes: 80, is_exact: false });
    assert_eq!(chain.earliest(), Spot { file: 0, offset: 30 });
    assert!(chain.link(0).is_none_or(|link| chain.is_read(link)), "reading goes on behind it");
}

#[test]
fn a_late_write_is_read() {
    let mut chain = chain(&[seen(FIRST, id(1, 1), 100), seen(LIVE, id(2, 2), 100)]);
    chain.finish(0, 100);
    commit(&mut chain, 1, 40);
    let events = chain.reconcile(&[seen(FIRST, id(1, 1), 116), seen(LIVE, id(2, 2), 100)], &mut never, 1);
    let expected_events = [Event::Split { number: 0, at: 100, rest: 2 }, Event::Split { number: 1, at: 40, rest: 3 }];
    assert_eq!(events, expected_events);
    let parts: Vec<_> = chain.links().iter().map(|link| (link.number, link.begin, link.end)).collect();
    assert_eq!(parts, [(0, 0, Some(100)), (1, 0, Some(40)), (2, 100, None), (3, 40, None)]);
    // When the parts were read, they are one again.
    for round in 0..100 {
        let size = 116 + round * 16;
        let rest = chain.links().iter().rfind(|link| link.id == id(1, 1)).unwrap().number;
        chain.finish(rest, size);
        let last = chain.links().last().unwrap();
        let (number, offset) = (last.number, 41 + round);
        commit(&mut chain, number, offset);
        chain.reconcile(&[seen(FIRST, id(1, 1), size + 16), seen(LIVE, id(2, 2), 1000)], &mut never, 2);
        assert!(chain.links().len() <= 5, "{:?}", chain.links());
    }
}

/// LOG-7: a file that no listing showed before comes before what was written later and is not read yet.
#[test]
fn a_file_is_found_late() {
    let listing = [seen(FIRST, id(1, 1), 20), seen(LIVE, id(2, 2), 100)];
    let mut unread = chain(&listing[1..]);
    let events = unread.reconcile(&listing, &mut never, 1);
    assert_eq!(events, [Event::New { number: 1 }, Event::Moved { from: 0, to: 2 }]);
    assert_eq!(unread.at(unread.position().done).unwrap().0.name, name(FIRST));

    let mut read = chain(&listing[1..]);
    commit(&mut read, 0, 60);
    let events = read.reconcile(&listing, &mut never, 1);
    assert_eq!(events, [Event::New { number: 1 }, Event::Split { number: 0, at: 60, rest: 2 }]);
    let parts: Vec<_> = read.links().iter().map(|link| (link.name, link.begin, link.end)).collect();
    assert_eq!(parts, [(name(LIVE), 0, Some(60)), (name(FIRST), 0, None), (name(LIVE), 60, None)]);
}

/// LOG-7: the time of a look grows with the number of files, and not with its square.
#[test]
fn many_rotations_take_few_comparisons() {
    let file = |n: u64| seen(&format!("{n}.log.20261123-120000.gz"), id(n + 1, n + 1), 10);
    let listing: Vec<Seen> = (0..20_000).map(file).collect();
    let saved = chain(&listing);
    let mut restored = Chain::restore(saved.links().to_vec(), saved.position(), saved.guard());
    let others: Vec<Seen> = listing.iter().map(|seen| Seen { id: id(seen.id.inode + 50_000, 1), ..*seen }).collect();
    let mut checks = 0;
    restored.reconcile(
        &others,
        &mut |_| {
            checks += 1;
            Answer::Other
        },
        0,
    );
    assert_eq!((checks, restored.links().len()), (20_000, 40_000));
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64),
    Rotate(usize),
    TakeBack,
    Restart,
    Remove(usize),
    Look,
    Read(usize),
    Wait(u64),
    ReaderRestarts,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..90u64).prop_map(Step::Write),
        4 => (1..5usize).prop_map(Step::Rotate),
        1 => Just(Step::TakeBack),
        1 => Just(Step::Restart),
        1 => any::<usize>().prop_map(Step::Remove),
        6 => Just(Step::Look),
        4 => (1..200usize).prop_map(Step::Read),
        3 => (1..2 * MISSED_MS).prop_map(Step::Wait),
        1 => Just(Step::ReaderRestarts),
    ]
}

/// What ought to be read: every line that was on the disk at some look, or was written to an open file.
struct Run {
    kubelet: Kubelet,
    reader: Reader,
    now_ms: u64,
    rotated_ms: u64,
    /// The files that some look showed.
    shown: BTreeSet<u64>,
}

impl Run {
    fn new(has_births: bool) -> Self {
        let kubelet = Kubelet::new(has_births);
        Self { kubelet, reader: Reader::default(), now_ms: 0, rotated_ms: 0, shown: BTreeSet::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(lines) => self.kubelet.write(*lines),
            Step::Rotate(keep) => {
                self.rotated_ms = self.now_ms;
                self.kubelet.rotate(*keep);
            }
            // It does so at once.
            Step::TakeBack if self.now_ms - self.rotated_ms >= GRACE_MS => {}
            Step::TakeBack => self.kubelet.take_back(),
            Step::Restart => self.kubelet.restart(),
            Step::Remove(index) => {
                let names: Vec<LogName> = self.kubelet.files.keys().copied().collect();
                if let Some(name) = names.get(index % names.len().max(1)) {
                    self.kubelet.remove(*name);
                }
            }
            Step::Look => {
                self.shown.extend(self.kubelet.files.values().map(|file| file.origin));
                self.reader.look(&mut self.kubelet, self.now_ms);
            }
            Step::Read(lines) => self.reader.read(&mut self.kubelet, *lines),
            Step::Wait(ms) => self.now_ms += ms,
            Step::ReaderRestarts => {
                self.reader.restart(&mut self.kubelet);
                self.step(&Step::Look);
            }
        }
    }

    /// Looks and reads until there is nothing left.
    fn finish(&mut self) {
        for _ in 0..3 {
            self.step(&Step::Look);
            self.now_ms += GRACE_MS;
            self.step(&Step::Look);
            self.step(&Step::Read(usize::MAX));
        }
    }

    /// All lines of the files that were shown, that were not read.
    fn missing(&self) -> Vec<u64> {
        let read: BTreeSet<u64> = self.reader.read.iter().copied().collect();
        let shown = self.kubelet.lines_of.iter().filter(|(origin, _)| self.shown.contains(origin));
        shown.flat_map(|(_, lines)| lines).copied().filter(|line| !read.contains(line)).collect()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let read = &self.reader.read;
        prop_assert!(read.is_sorted_by(|one, next| one < next), "not in the order of writing: {:?}", read);
        let missing = self.missing();
        let on_disk = self.kubelet.files.values().filter_map(|file| self.kubelet.lines_of.get(&file.origin)).flatten();
        let on_disk: BTreeSet<u64> = on_disk.copied().collect();
        prop_assert!(missing.iter().all(|line| !on_disk.contains(line)), "on the disk, and not read: {:?}", missing);
        let bytes = missing.len() as u64 * 16;
        if self.reader.inexact == 0 {
            prop_assert_eq!(self.reader.lost, bytes);
        }
        prop_assert!(self.reader.lost <= bytes, "{} {}", self.reader.lost, bytes);
        Ok(())
    }
}

/// LOG-7: twenty rotations while nobody looks, of which five files are kept: those are read, what was open is read, and
/// nothing is read twice.
#[test]
fn many_rotations_between_two_looks() {
    let mut run = Run::new(true);
    run.step(&Step::Write(10));
    run.step(&Step::Look);
    run.step(&Step::Read(4));
    for _ in 0..20 {
        run.step(&Step::Write(10));
        run.step(&Step::Rotate(5));
    }
    run.step(&Step::Write(10));
    run.finish();
    let kept: Vec<u64> = (0..20).chain(160..220).collect();
    assert_eq!(run.reader.read, kept);
    assert_eq!(run.reader.lost, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// LOG-3, LOG-6, LOG-7, LOG-8: whatever the kubelet does, lines are read in the order of writing, none twice, none is missed
    /// that is in a file that was seen while it could be read, and losses are reported.
    #[test]
    fn a_container_is_read_in_the_order_of_writing(
        steps in prop::collection::vec(step(), 1..80),
        has_births in any::<bool>(),
    ) {
        let mut run = Run::new(has_births);
        steps.iter().for_each(|step| run.step(step));
        run.finish();
        run.check()?;
        let is_small = run.reader.chain.links().len() <= run.kubelet.files.len() + steps.len();
        prop_assert!(is_small);
    }
}
