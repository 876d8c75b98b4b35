//! An obligation becomes two, which stand for the parts of its bytes.

use std::sync::Arc;

use super::{Obligation, Phase, Piece, Stored};
use crate::budget::OVERHEAD_BYTES;
use crate::taps::Way;

impl Obligation {
    /// Replaces the obligation by two, for the given parts of its bytes, in the same phase. Without
    /// parts, nothing is owed any more. If a request is under way, it stands for both parts.
    pub(crate) fn split(&self, [first, second]: [Piece; 2]) -> Vec<Arc<Self>> {
        let mut phase = self.lock();
        let children = match &*phase {
            // The writer answers for the children of what it has.
            Phase::Waiting { sent, deposited, .. } => {
                [first, second].map(|part| self.waiting_child(part, *sent, *deposited)).into()
            }
            Phase::Held(_) => {
                self.account.share.remove(self.cost());
                vec![self.held_child(first), self.held_child(second)]
            }
            Phase::Stored(stored) if stored.is_owed(&self.account) => {
                stored.tell(&self.account, Way::Split);
                let parts = stored.split().into_iter().zip([first, second]);
                let child = |(stored, Piece { body, items }): (Stored, Piece)| {
                    Self::make((items, body.len()), self.since, None, &self.account, Phase::Stored(stored))
                };
                parts.map(child).collect()
            }
            _ => return Vec::new(),
        };
        let was_waiting = matches!(*phase, Phase::Waiting { .. });
        *phase = Phase::Split(children.clone());
        self.tell(Way::Split);
        drop(phase);
        if was_waiting {
            self.answered();
        }
        children
    }

    /// The books have the items already as waiting; only the ticket learns of the child.
    fn waiting_child(&self, Piece { body, items }: Piece, sent: bool, deposited: bool) -> Arc<Self> {
        let (ticket, bytes) = (self.ticket.clone().unwrap_or_default(), body.len());
        ticket.opened();
        let phase = Phase::Waiting { body, sent, deposited };
        Self::make((items, bytes), self.since, Some(ticket), &self.account, phase)
    }

    /// The books have the items already as pending; only the share learns of the child.
    fn held_child(&self, Piece { body, items }: Piece) -> Arc<Self> {
        self.account.share.add(body.len() + OVERHEAD_BYTES);
        Self::make((items, body.len()), self.since, self.ticket.clone(), &self.account, Phase::Held(body))
    }
}
