//! The requests under way: to the present backend and, after a change, to the one before.

use std::collections::BTreeMap;

use tokio::task::{Id, JoinError, JoinSet};

use super::super::flight::Landed;
use super::super::parked::Batch;

/// A request under way.
pub(super) struct Flight {
    /// It has no pieces while the journal is read for it.
    pub(super) batch: Batch,
    /// Bytes of live data.
    pub(super) bytes: usize,
    /// The pieces of its batch or, before it has any, as many as it may get.
    pub(super) pieces: usize,
    /// Flights under way when it left, itself included.
    pub(super) beside: usize,
    /// The backend that it went to.
    backend: u64,
    /// Which of the requests to it this is.
    pub(super) number: u64,
}

/// All flights, and their sums.
#[derive(Default)]
pub(super) struct Flights {
    sends: JoinSet<Landed>,
    flights: BTreeMap<Id, Flight>,
    /// The number of the present backend. Another backend has the next number.
    backend: u64,
    /// Flights to the present backend.
    present: usize,
    /// Bytes of live data in these.
    present_bytes: usize,
    /// Of all flights.
    pieces: usize,
}

impl Flights {
    /// A request leaves for the present backend.
    pub(super) fn depart<F>(&mut self, task: F, batch: Batch, bytes: usize, pieces: usize, number: u64)
    where
        F: Future<Output = Landed> + Send + 'static,
    {
        self.present += 1;
        self.present_bytes += bytes;
        self.pieces += pieces;
        let flight = Flight { batch, bytes, pieces, beside: self.present, backend: self.backend, number };
        self.flights.insert(self.sends.spawn(task).id(), flight);
    }

    /// Waits for a flight to end; `None` when there is none.
    pub(super) async fn next(&mut self) -> Option<Result<(Id, Landed), JoinError>> {
        self.sends.join_next_with_id().await
    }

    /// A flight that has ended.
    pub(super) fn try_next(&mut self) -> Option<Result<(Id, Landed), JoinError>> {
        self.sends.try_join_next_with_id()
    }

    /// Removes a flight that has ended. Returns also whether it went to the present backend.
    pub(super) fn land(&mut self, id: Id) -> Option<(Flight, bool)> {
        let flight = self.flights.remove(&id)?;
        self.pieces -= flight.pieces;
        let is_present = flight.backend == self.backend;
        if is_present {
            self.present -= 1;
            self.present_bytes -= flight.bytes;
        }
        Some((flight, is_present))
    }

    /// From now on, requests go to another backend. Flights to the one before neither take its places nor speak for it.
    pub(super) fn change_backend(&mut self) {
        self.backend += 1;
        (self.present, self.present_bytes) = (0, 0);
    }

    /// Whether some went to an earlier backend.
    pub(super) fn has_earlier(&self) -> bool {
        self.flights.len() > self.present
    }

    /// How many went to the present backend.
    pub(super) fn present(&self) -> usize {
        self.present
    }

    /// Bytes of live data on their way to the present backend.
    pub(super) fn present_bytes(&self) -> usize {
        self.present_bytes
    }

    /// Pieces of all flights.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// All flights, those to an earlier backend included.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.flights.values()
    }

    /// Ends all flights, and returns their batches.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Batch> + use<> {
        self.sends.abort_all();
        std::mem::take(&mut self.flights).into_values().map(|flight| flight.batch)
    }
}
