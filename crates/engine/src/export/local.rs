//! Outputs without a backend: one writes to the standard output of the process, the other one throws all data away.
//!
//! The reader of standard output may be slow or gone. So it is written to on a thread of its own, by one pipeline at a
//! time, and the pipeline waits for it as it waits for a backend. The process ends without that thread.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::thread;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use weir_plan::{Compression, FluentBit, Sink};

use super::fluent_bit::{Converted, LARGE, convert};
use super::{Backend, Outcome};
use crate::budget::Budget;

/// All pipelines of the process write to the same place, one request at a time.
static STDOUT: Semaphore = Semaphore::const_new(1);

/// Where records go that no backend gets.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) settings: FluentBit,
    /// Pays for the lines.
    pub(super) encode: Budget,
}

impl Local {
    async fn write(&self, bodies: Vec<Bytes>) -> Result<(), Outcome> {
        let unsent =
            |error: &dyn std::fmt::Display| Outcome::unsent(format!("cannot write to standard output: {error}"));
        // Lines are made when it is their turn: those that wait take no memory.
        let turn = STDOUT.acquire().await.map_err(|error| unsent(&error))?;
        // Whoever reads may be slow.
        let large = &LARGE.others;
        let made = convert(&self.settings, bodies, Compression::None, &self.encode, large).await?;
        let Converted { body, permit, .. } = made;
        let (written, result) = oneshot::channel();
        let write = move || {
            let mut out = io::stdout().lock();
            let done = out.write_all(&body).and_then(|()| out.flush());
            // If nobody waits any more, they are written nevertheless.
            let _ = written.send(done);
            drop((turn, permit));
        };
        thread::Builder::new().name("stdout".to_owned()).spawn(write).map_err(|error| unsent(&error))?;
        result.await.map_err(|error| unsent(&error))?.map_err(|error| unsent(&error))
    }
}

impl Backend for Local {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(async {
            let done = if self.settings.to == Sink::Stdout { self.write(bodies).await } else { Ok(()) };
            match done {
                Ok(()) => Outcome::Delivered { rejected: 0, message: String::new() },
                Err(outcome) => outcome.legible(),
            }
        })
    }

    /// There is nothing to find out.
    fn was_tried(&self) -> bool {
        true
    }
}
