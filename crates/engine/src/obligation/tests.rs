//! Every way that an obligation can go, in memory and with a journal.

use weir_journal::{Durability, Fs, Journal, NewEntry, Options, Order, Owed, Writer};
use weir_plan::PipelineId;
use weir_testkit::SimFs;

use super::*;
use crate::account::JournalQueue;
use crate::accounts::Accounts;
use crate::books::DropReason;
use crate::share::Share;

const NOW_MS: u64 = 1_000;

fn in_memory() -> (Arc<Ticket>, Arc<Account>) {
    let share = Share::new(100_000, tokio::time::Instant::now());
    (Arc::default(), Accounts::default().open(PipelineId::new(Signal::Traces, "backend"), share, None))
}

fn on_disk() -> (Arc<Ticket>, Arc<Account>, Writer) {
    let fs: Arc<dyn Fs> = Arc::new(SimFs::new(1));
    let (writer, journal, _) = weir_journal::open(fs, Options { segment_bytes: 1 << 20, seed: 1 }).unwrap();
    let id = journal.queue("traces/backend");
    let queue = JournalQueue::new(journal, id, weir_plan::Backlog::default());
    let share = Share::new(100_000, tokio::time::Instant::now());
    (Arc::default(), Accounts::default().open(PipelineId::new(Signal::Traces, "backend"), share, Some(queue)), writer)
}

fn journal(account: &Account) -> &Journal {
    &account.queue.as_ref().unwrap().journal
}

fn append(writer: &mut Writer, account: &Account, body: &Bytes, items: u32) -> Entry {
    let owed = [Owed { queue: account.queue.as_ref().unwrap().id, taken: true }];
    let entry = NewEntry { payload: std::slice::from_ref(body), items, owed: &owed };
    writer.append(&[entry], NOW_MS, Durability::Synced).unwrap()[0]
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn part(text: &'static str, items: u64) -> Piece {
    Piece { body: bytes(text), items }
}

#[test]
fn delivery_answers_the_ticket_and_hold_keeps_the_bytes() {
    let (ticket, account) = in_memory();
    let first = Obligation::new(bytes("abc"), 3, &ticket, &account);
    let second = Obligation::new(bytes("defg"), 4, &ticket, &account);
    first.finish(&Fate::Delivered);
    assert!(ticket.any_done() && !ticket.is_decided());
    account.share.add(second.hold());
    assert!(ticket.is_decided() && second.is_owed());
    assert_eq!(account.share.held(), 4 + OVERHEAD_BYTES);
    second.finish(&Fate::Dropped(DropReason::MemoryFull));
    assert_eq!(account.share.held(), 0);
    assert!(account.books.figures().balanced());
}

#[test]
fn split_keeps_phase_books_and_share() {
    let (ticket, account) = in_memory();
    let whole = Obligation::new(bytes("abcdef"), 6, &ticket, &account);
    let parts = whole.split([part("abc", 3), part("def", 3)]);
    assert!(!ticket.is_decided(), "the client waits for both parts");
    account.share.add(whole.hold());
    assert_eq!((account.share.held(), ticket.is_decided()), (6 + 2 * OVERHEAD_BYTES, true));
    let smaller = parts[0].split([part("a", 1), part("bc", 2)]);
    assert_eq!(account.share.held(), 6 + 3 * OVERHEAD_BYTES);
    for part in smaller.iter().chain(&parts[1..]) {
        part.finish(&Fate::Delivered);
    }
    let figures = account.books.figures();
    assert!(figures.balanced() && figures.delivered == 6 && account.share.held() == 0, "{figures:?}");
}

/// Of an item nobody knows in which part it is.
#[test]
fn a_mark_of_what_is_sent_in_parts_says_so() {
    let (ticket, account) = in_memory();
    let mark = Mark::default();
    let whole = Obligation::paid(part("abcdef", 6), None, &ticket, &account, Some(mark.clone()));
    assert_eq!(mark.way(), Way::Pending);
    let parts = whole.split([part("abc", 3), part("def", 3)]);
    assert!(parts.iter().all(|part| part.finish(&Fate::Delivered)));
    assert_eq!(mark.way(), Way::Split);
}

#[test]
fn a_forgotten_obligation_is_a_mismatch() {
    let (ticket, account) = in_memory();
    drop(Obligation::new(Bytes::new(), 1, &ticket, &account));
    assert_eq!(account.books.figures().mismatches, 1);
}

#[test]
fn withdrawn_data_that_arrives_all_the_same_is_accounted() {
    let (ticket, account) = in_memory();
    let piece = Obligation::new(bytes("abc"), 3, &ticket, &account);
    piece.withdraw();
    assert!(!piece.is_owed());
    piece.finish(&Fate::Delivered);
    let figures = account.books.figures();
    assert!(figures.balanced() && figures.delivered == 3 && figures.withdrawn == 3);
}

#[test]
fn what_nobody_is_sending_belongs_to_the_queue_once_it_is_on_disk() {
    let (ticket, account, mut writer) = on_disk();
    let piece = Obligation::new(bytes("abc"), 3, &ticket, &account);
    let mut deposits = Vec::new();
    piece.deposit(&mut deposits);
    assert!(!deposits[0].sent && !piece.is_owed(), "nobody sends it while it is being written");
    let entry = append(&mut writer, &account, &deposits[0].body, 3);
    piece.secure_in_queue(&entry);
    piece.release(&entry);
    assert!(ticket.is_decided() && !ticket.was_withdrawn());
    let chunk = journal(&account).take(account.queue.as_ref().unwrap().id, Order::Oldest, 1000, &mut |_| true).unwrap();
    assert_eq!(chunk.entries.len(), 1);
    let again = Obligation::stored(chunk.entries[0].0, &account);
    again.finish(&Fate::Delivered);
    let figures = account.books.figures();
    assert!(figures.balanced() && figures.delivered == 3 && figures.pending == 0, "{figures:?}");
    assert_eq!(account.backlog().entries, 0);
}

#[test]
fn what_is_on_the_wire_stays_one_debt_while_it_is_written() {
    let (ticket, account, mut writer) = on_disk();
    let piece = Obligation::new(bytes("abc"), 3, &ticket, &account);
    assert!(matches!(piece.begin_attempt(), Some(Whereabouts::Memory(_))));
    let mut deposits = Vec::new();
    piece.deposit(&mut deposits);
    assert!(deposits[0].sent);
    let entry = append(&mut writer, &account, &deposits[0].body, 3);
    piece.secure(entry);
    assert!(ticket.is_decided());
    piece.came_back();
    assert!(matches!(piece.begin_attempt(), Some(Whereabouts::Journal(_))), "its bytes are read back from now on");
    let queue = account.queue.as_ref().unwrap();
    assert!(
        queue.journal.take(queue.id, Order::Oldest, 1000, &mut |_| true).unwrap().entries.is_empty(),
        "nobody else sends it"
    );
    piece.finish(&Fate::Delivered);
    assert!(account.backlog().entries == 0 && account.books.figures().balanced());
}

#[test]
fn what_arrives_while_it_is_written_is_owed_no_more() {
    let (ticket, account, mut writer) = on_disk();
    let piece = Obligation::new(bytes("abc"), 3, &ticket, &account);
    piece.begin_attempt();
    let mut deposits = Vec::new();
    piece.deposit(&mut deposits);
    piece.finish(&Fate::Delivered);
    let entry = append(&mut writer, &account, &deposits[0].body, 3);
    piece.secure(entry);
    assert_eq!(account.backlog().entries, 0);
    assert!(ticket.is_decided() && account.books.figures().balanced());
}

#[test]
fn an_entry_is_done_when_its_last_part_is() {
    let (_, account, mut writer) = on_disk();
    let entry = append(&mut writer, &account, &bytes("abcdef"), 6);
    account.books.recover(6);
    let whole = Obligation::stored(entry, &account);
    let parts = whole.split([part("abc", 3), part("def", 3)]);
    let quarters = parts[1].split([part("d", 1), part("ef", 2)]);
    parts[0].finish(&Fate::Delivered);
    quarters[0].finish(&Fate::Rejected { code: "400".into(), cause: String::new() });
    assert_eq!((account.backlog().entries, account.backlog().items, account.books.figures().pending), (1, 2, 2));
    quarters[1].finish(&Fate::Delivered);
    let figures = account.books.figures();
    assert!(figures.balanced() && figures.delivered == 5 && figures.pending == 0, "{figures:?}");
    assert_eq!(account.backlog().entries, 0);
}

#[test]
fn an_entry_that_is_given_up_counts_for_the_parts_that_are_left() {
    let (_, account, mut writer) = on_disk();
    let entry = append(&mut writer, &account, &bytes("abcdef"), 6);
    account.books.recover(6);
    let parts = Obligation::stored(entry, &account).split([part("abc", 3), part("def", 3)]);
    let quarters = parts[1].split([part("d", 1), part("ef", 2)]);
    parts[0].finish(&Fate::Delivered);
    assert_eq!(account.evict_backlog(0, 0, DropReason::BacklogFull), 3);
    assert!(quarters.iter().all(|part| !part.is_owed()), "nobody sends them again");
    assert!(!quarters[0].finish(&Fate::Delivered), "one was under way");
    drop((parts, quarters));
    assert!(account.take_leftovers().is_empty(), "nor takes them over");
    let figures = account.books.figures();
    assert!(figures.balanced() && figures.delivered == 3 && figures.pending == 0, "{figures:?}");
    assert_eq!((figures.dropped["backlog_full"], account.backlog().entries), (3, 0));
}

#[test]
fn what_was_given_up_is_in_the_books_once() {
    let (_, account, mut writer) = on_disk();
    let entry = append(&mut writer, &account, &bytes("abcdef"), 6);
    account.books.recover(6);
    let piece = Obligation::stored(entry, &account);
    assert_eq!(account.evict_backlog(0, 0, DropReason::BacklogFull), 6);
    assert!(!piece.is_owed() && piece.split([part("abc", 3), part("def", 3)]).is_empty());
    piece.finish(&Fate::Delivered);
    let figures = account.books.figures();
    assert!(figures.balanced() && figures.dropped["backlog_full"] == 6, "{figures:?}");
}

#[test]
fn data_that_could_not_be_written_goes_back_to_the_client() {
    let (ticket, account, _writer) = on_disk();
    let piece = Obligation::new(bytes("abc"), 3, &ticket, &account);
    piece.deposit(&mut Vec::new());
    piece.withdraw();
    assert!(ticket.is_decided() && ticket.was_withdrawn());
    assert!(account.books.figures().balanced());
}
