//! An obligation on its way into the journal. The writer is handed a [`Deposit`], and says what became of it. Only here
//! does a piece pass from memory to disk.

use std::sync::Arc;

use bytes::Bytes;
use weir_journal::{Entry, QueueId};

use super::{Obligation, Phase, Stored};
use crate::store::Inside;
use crate::taps::Way;

/// A piece that is handed to the journal's writer.
#[derive(Debug)]
pub(crate) struct Deposit {
    pub(crate) obligation: Arc<Obligation>,
    pub(crate) body: Bytes,
    /// A request with it is under way. Whatever becomes of the piece, it must not be sent again at the same time.
    pub(crate) sent: bool,
    /// It is on disk as a part of another entry. That entry is done with once this one is written.
    pub(crate) rewritten: bool,
    /// Counts it for as long as the writer has it.
    pub(crate) inside: Option<Arc<Inside>>,
}

impl Drop for Deposit {
    fn drop(&mut self) {
        self.obligation.account.deposited(self.body.len());
    }
}

impl Obligation {
    /// Hands what is waiting to the journal's writer, which says with [`Obligation::secure`] or
    /// [`Obligation::withdraw`] what became of it.
    pub(crate) fn deposit(self: &Arc<Self>, deposits: &mut Vec<Deposit>) {
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting { body, sent, deposited: false } => {
                self.account.depositing(body.len());
                deposits.push(Deposit {
                    obligation: Arc::clone(self),
                    body: body.clone(),
                    sent,
                    rewritten: false,
                    inside: None,
                });
                *phase = if sent { Phase::Waiting { body, sent, deposited: true } } else { Phase::Storing };
            }
            Phase::Split(parts) => {
                parts.iter().for_each(|part| part.deposit(deposits));
                *phase = Phase::Split(parts);
            }
            other => *phase = other,
        }
    }

    /// From now on only the queue in the journal remembers it, and hands it out after everything else. False if the
    /// queue cannot hand it out as it is.
    pub(crate) fn put_off(&self) -> bool {
        let mut phase = self.lock();
        let put_off = matches!(&*phase, Phase::Stored(stored) if stored.put_off(&self.account));
        if put_off {
            *phase = Phase::Done;
        }
        put_off
    }

    /// Hands a part of an entry, which has these bytes, to the journal's writer. It becomes an entry of its own, and
    /// only the queue remembers it. If that fails, it is left for whoever takes over.
    pub(crate) fn rewrite(self: &Arc<Self>, body: Bytes) -> Option<Deposit> {
        let mut phase = self.lock();
        let Phase::Stored(stored) = &*phase else { return None };
        *phase = Phase::Rewriting(stored.clone());
        self.account.depositing(body.len());
        // Refused data is not written together with other data.
        Some(Deposit { obligation: Arc::clone(self), body, sent: true, rewritten: true, inside: None })
    }

    /// The largest request that the backend takes: larger entries would only have to be split.
    pub(crate) fn request_bytes(&self) -> usize {
        self.account.request_size.bytes()
    }

    /// The pipeline's queue in the journal, if there is one.
    pub(crate) fn queue(&self) -> Option<QueueId> {
        self.account.queue.as_ref().map(|queue| queue.id)
    }

    /// Lets the pipeline take `entry` out of its queue.
    pub(crate) fn release(&self, entry: &Entry) {
        self.account.release(entry);
    }

    /// The piece is on disk, with others in one entry of the queue. From now on only the queue remembers it.
    pub(crate) fn secure_in_queue(&self, entry: &Entry) {
        let mut phase = self.lock();
        match &*phase {
            Phase::Storing => {
                *phase = Phase::Done;
                self.account.books.keep(self.items);
                self.tell_stored(entry);
                drop(phase);
                self.answered();
            }
            // Its client did not wait for that. The entry can no longer be told from others.
            Phase::Withdrawn => self.account.books.keep_withdrawn(self.items),
            _ => self.account.books.lose_track("an obligation left while it was being written"),
        }
    }

    /// What becomes of the entry is what becomes of the piece.
    fn tell_stored(&self, entry: &Entry) {
        if let Some(mark) = &self.mark {
            mark.set(Way::Stored);
            self.account.followed.keep(*entry, mark);
        }
    }

    /// The piece was under way in a request when it was deposited. Now it is on disk as `entry`, which the queue counts
    /// as taken.
    pub(crate) fn secure(&self, entry: Entry) {
        self.secure_part(&Stored::whole(entry));
    }

    fn secure_part(&self, stored: &Stored) {
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting { .. } => {
                *phase = Phase::Stored(stored.clone());
                self.account.books.keep(self.items);
                self.tell_stored(&stored.entry());
                drop(phase);
                self.answered();
            }
            Phase::Split(parts) => {
                *phase = Phase::Split(parts.clone());
                drop(phase);
                let [first, second] = stored.split();
                for (part, stored) in parts.iter().zip([first, second]) {
                    part.secure_part(&stored);
                }
            }
            Phase::Rewriting(part) => part.became(&stored.entry(), &self.account, self.items),
            // It was delivered or refused while it was being written.
            other => {
                *phase = other;
                stored.finished(&self.account, self.items);
            }
        }
    }
}
