//! Pieces become entries of the journal: small ones that are owed to the same pipelines share one.

use bytes::Bytes;
use weir_journal::{Entry, NewEntry, Owed, QueueId};
use weir_plan::PipelineId;

use crate::obligation::Deposit;

/// Small pieces that are owed to the same pipelines become one entry of up to this size, if the backends take requests
/// of that size. That makes fewer entries to remember, and fewer reads when they are delivered.
const ENTRY_BYTES: usize = 1 << 20;
/// How far back in a group a piece looks for others that it can be written with. The pieces of one request follow each
/// other.
const DRAFTS_BACK: usize = 4;

/// One entry to be: pieces, and who is owed them.
pub(super) struct Draft {
    deposits: Vec<Deposit>,
    bodies: Vec<Bytes>,
    pub(super) bytes: usize,
    /// It does not grow beyond this.
    limit: usize,
    items: u64,
    /// A request with a piece of it is under way, so the piece has to stay as it is.
    sent: bool,
    owed: Vec<Owed>,
}

/// Small pieces that nobody is sending, and that are owed to the same pipelines, become one entry.
pub(super) fn draft(deposits: impl Iterator<Item = Deposit>) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for deposit in deposits {
        add_claim(&mut drafts, deposit);
    }
    merge(drafts)
}

/// If the same bytes are owed to several pipelines, they are one entry. Their deposits follow each other.
fn add_claim(drafts: &mut Vec<Draft>, deposit: Deposit) {
    let Some(queue) = deposit.obligation.queue() else {
        deposit.obligation.withdraw();
        return;
    };
    let owed = Owed { queue, taken: true };
    let same = drafts.iter_mut().rev().take(DRAFTS_BACK).find(|draft| draft.is_of(&deposit.body) && !draft.owes(queue));
    match same {
        Some(draft) => {
            draft.sent |= deposit.sent;
            draft.limit = draft.limit.min(deposit.obligation.request_bytes());
            draft.owed.push(owed);
            draft.deposits.push(deposit);
        }
        None => drafts.push(Draft {
            bytes: deposit.body.len(),
            limit: ENTRY_BYTES.min(deposit.obligation.request_bytes()),
            items: deposit.obligation.items(),
            bodies: vec![deposit.body.clone()],
            sent: deposit.sent,
            owed: vec![owed],
            deposits: vec![deposit],
        }),
    }
}

fn merge(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut merged: Vec<Draft> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        match merged.iter_mut().rev().take(DRAFTS_BACK).find(|other| other.takes(&draft)) {
            Some(other) => {
                other.bytes += draft.bytes;
                other.items += draft.items;
                other.bodies.extend(draft.bodies);
                other.deposits.extend(draft.deposits);
            }
            None => merged.push(draft),
        }
    }
    merged
}

impl Draft {
    fn is_of(&self, body: &Bytes) -> bool {
        self.bodies.len() == 1 && self.bodies[0].as_ptr() == body.as_ptr() && self.bodies[0].len() == body.len()
    }

    pub(super) fn owes(&self, queue: QueueId) -> bool {
        self.owed.iter().any(|owed| owed.queue == queue)
    }

    /// Who is owed it.
    pub(super) fn pipelines(&self) -> impl Iterator<Item = &PipelineId> {
        self.deposits.iter().map(|deposit| deposit.obligation.pipeline())
    }

    /// Whether it is a part of an entry that becomes an entry of its own. Nothing else is written together with it.
    pub(super) fn is_rewritten(&self) -> bool {
        self.deposits.iter().any(|deposit| deposit.rewritten)
    }

    /// Whether another draft may become part of this one.
    fn takes(&self, other: &Self) -> bool {
        let same_queues = || self.owed.iter().map(|owed| owed.queue).eq(other.owed.iter().map(|owed| owed.queue));
        let fits = self.bytes + other.bytes <= self.limit.min(other.limit);
        !self.sent && !other.sent && fits && same_queues()
    }

    /// The clients have to keep it.
    pub(super) fn withdraw(&self) {
        self.deposits.iter().for_each(|deposit| deposit.obligation.withdraw());
    }

    pub(super) fn entry(&self) -> NewEntry<'_> {
        NewEntry { payload: &self.bodies, items: u32::try_from(self.items).unwrap_or(u32::MAX), owed: &self.owed }
    }

    /// Everything about the entry is on disk. It is entered in the books first; only then may the pipelines have it.
    pub(super) fn secure(&self, entry: Entry) {
        for deposit in &self.deposits {
            if deposit.sent {
                deposit.obligation.secure(entry);
            } else {
                deposit.obligation.secure_in_queue(&entry);
            }
        }
        for owed in &self.owed {
            let of_queue = |deposit: &&Deposit| !deposit.sent && deposit.obligation.queue() == Some(owed.queue);
            if let Some(deposit) = self.deposits.iter().find(of_queue) {
                deposit.obligation.release(&entry);
            }
        }
    }
}
