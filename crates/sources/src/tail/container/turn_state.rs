//! Whether a container has a turn of reading, or waits for one.

use std::sync::{MutexGuard, PoisonError};

use super::Container;

/// Whether a container has a turn, or waits for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnState {
    /// Neither, until a hint comes.
    Idle,
    /// Its turn will come.
    Queued,
    /// It has its turn.
    Active,
    /// It has its turn, and there was a hint meanwhile.
    ActiveHinted,
}

impl Container {
    fn turn_state(&self) -> MutexGuard<'_, TurnState> {
        self.turn_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It may have unread output. Returns whether it has to be queued.
    pub(in crate::tail) fn take_hint(&self) -> bool {
        let mut turn_state = self.turn_state();
        let before = *turn_state;
        *turn_state = match before {
            TurnState::Idle | TurnState::Queued => TurnState::Queued,
            TurnState::Active | TurnState::ActiveHinted => TurnState::ActiveHinted,
        };
        if before == TurnState::Idle {
            self.progress().begins_to_wait();
        }
        before == TurnState::Idle
    }

    /// Its turn begins.
    pub(in crate::tail) fn begin_turn(&self) {
        *self.turn_state() = TurnState::Active;
    }

    /// Its turn is over. `is_more`: it has unread output. Returns whether it has to be queued again.
    pub(in crate::tail) fn end_turn(&self, is_more: bool) -> bool {
        let mut turn_state = self.turn_state();
        let is_hinted = *turn_state == TurnState::ActiveHinted;
        *turn_state = if is_more || is_hinted { TurnState::Queued } else { TurnState::Idle };
        if !is_more {
            let mut progress = self.progress();
            progress.waits_since = None;
            if is_hinted {
                progress.begins_to_wait();
            }
        }
        is_more || is_hinted
    }

    /// Whether it neither has a turn nor waits for one.
    pub(in crate::tail) fn is_idle(&self) -> bool {
        *self.turn_state() == TurnState::Idle
    }

    /// Whether it is read now.
    pub(super) fn has_turn(&self) -> bool {
        matches!(*self.turn_state(), TurnState::Active | TurnState::ActiveHinted)
    }
}
