//! What a disk has for each pipeline, as a process that began now would find it, and what is nowhere.

use std::collections::HashSet;
use std::sync::Arc;

use weir_journal::{Options, Order};
use weir_testkit::SimFs;

use super::super::backend::Mark;
use super::super::payload;
use super::super::process::number_of;
use super::{End, World};
use crate::settings::Fsync;

impl World {
    /// What the disk has for each pipeline.
    pub(super) fn remains(&self) -> Vec<HashSet<u64>> {
        let pipelines = self.pipelines.len();
        self.disk.as_ref().map_or_else(|| vec![HashSet::new(); pipelines], |disk| of(&disk.fs, pipelines))
    }

    /// After the end of a process: what a pipeline is owed has arrived, is on the disk, or is one of as many items as
    /// the process gave up. What the disk `had` right before the end is none of these.
    pub(super) fn miss(&mut self, had: &[HashSet<u64>], end: End) {
        let remains = self.remains();
        self.assert_still_there(had, &remains, end);
        for (number, has) in remains.iter().enumerate() {
            let gone = self.missing_from(has, number);
            let (few, count, given_up) = (&gone[..gone.len().min(20)], gone.len() as u64, self.given_up[number]);
            assert!(
                count <= given_up,
                "{end:?}: pipeline {number} lacks {count} spans, {given_up} given up: {few:?} ..."
            );
            self.totals.count("gone", count);
            self.gone[number].extend(gone);
        }
    }

    /// What a pipeline is owed and the disk had, the disk still has.
    fn assert_still_there(&self, had: &[HashSet<u64>], has: &[HashSet<u64>], end: End) {
        for (number, (had, has)) in had.iter().zip(has).enumerate() {
            let torn: Vec<u64> = self.missing_from(has, number).into_iter().filter(|id| had.contains(id)).collect();
            let (few, count) = (&torn[..torn.len().min(20)], torn.len());
            assert!(torn.is_empty(), "{end:?} cost pipeline {number} {count} spans that were on its disk: {few:?} ...");
        }
    }

    /// What a pipeline is owed that has not arrived and is not on the disk.
    fn missing_from(&self, disk: &HashSet<u64>, number: usize) -> Vec<u64> {
        let mut missing = self.missing_at(number, |id| Mark::of(id).is_none_or(|mark| !mark.may_be_rejected()));
        missing.retain(|id| !disk.contains(id));
        missing
    }

    /// Where nothing may go with the power, nothing would go with it now. A single sync that was left out is made up
    /// for by the next one: such moments have to be looked for.
    pub(super) fn imagine_power_loss(&self) {
        let Some(disk) = self.disk.as_ref().filter(|disk| disk.fsync == Fsync::Always) else { return };
        // It happens to a copy.
        let after = disk.fs.after_kill().after_power_loss();
        self.assert_still_there(&self.remains(), &of(&after, self.pipelines.len()), End::PowerLoss);
    }
}

/// Ids of the spans that each of so many pipelines is owed. The disk stays as it is.
fn of(disk: &SimFs, pipelines: usize) -> Vec<HashSet<u64>> {
    // The start of a journal repairs what it finds.
    let copy = disk.after_kill();
    copy.set_capacity(None);
    let (_writer, journal, recovery) =
        weir_journal::open(Arc::new(copy), Options { segment_bytes: 1 << 20, seed: 0 }).unwrap();
    let mut owed = vec![HashSet::new(); pipelines];
    for (queue, name, _) in recovery.queues {
        // Without its name it is nobody's.
        let Ok(pipeline) = name.parse() else { continue };
        loop {
            let taken = journal.take(queue, Order::Oldest, 1 << 20, &mut |_| true).unwrap();
            if taken.entries.is_empty() && taken.damaged.entries == 0 {
                break;
            }
            for (_, place) in taken.entries {
                owed[number_of(&pipeline)].extend(payload::decode(&[taken.buffer[place].to_vec().into()]));
            }
        }
    }
    owed
}
