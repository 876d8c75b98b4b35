//! Once a second: how all containers are read together. It says what was lost and who is stuck, and gives up removed
//! files when these take too much of the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_engine::view::ContainerLogFigures;

use super::container::{Container, Removed};
use super::reader::Shared;
use super::status::unix_ms;

/// So many containers are named in the log at a time.
const MOST_NAMED: usize = 10;

/// What a survey goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The bytes that removed files may take.
    pub(super) removed_bytes: u64,
    /// A container waits for so long before that is told.
    pub(super) patience: Duration,
}

/// Looks at all containers, and tells the engine and the log.
pub(super) fn survey(shared: &Shared, bounds: Bounds, without_memory: u64) {
    let containers: Vec<Arc<Container>> = shared.board.containers().values().cloned().collect();
    for container in containers.iter().filter(|container| container.is_behind()) {
        container.measure();
    }
    if keep_within(&containers, bounds.removed_bytes) {
        shared.has_news.store(true, Ordering::Release);
    }
    containers.iter().for_each(|container| shared.tell_losses(container));
    let stuck = tell_stuck(&containers, bounds.patience);
    shared.inlet.report(figures(shared, &containers, stuck, without_memory));
}

/// Gives up removed files, the oldest first, until the others take no more than `most` bytes. Returns whether there were
/// such files.
fn keep_within(containers: &[Arc<Container>], most: u64) -> bool {
    let holders = containers.iter().filter(|container| container.standing().removed_open_bytes > 0);
    let mut removed: Vec<(Removed, &Arc<Container>)> =
        holders.flat_map(|container| container.removed().into_iter().map(move |file| (file, container))).collect();
    removed.sort_by_key(|(file, _)| *file);
    let mut bytes: u64 = removed.iter().map(|(file, _)| file.bytes).sum();
    let are_too_many = bytes > most;
    for (file, container) in removed {
        if bytes <= most {
            break;
        }
        bytes -= file.bytes;
        container.give_up_removed(file.number);
    }
    are_too_many
}

/// Says who is stuck since the last time, and who is not any more. Returns how many are.
fn tell_stuck(containers: &[Arc<Container>], patience: Duration) -> u64 {
    let (mut stuck_count, mut named, mut unnamed) = (0, 0, 0_u64);
    for container in containers {
        let (name, mut standing) = (&container.name, container.standing());
        let stuck = standing.stuck(patience);
        stuck_count += u64::from(stuck.is_some());
        if stuck.is_some() == standing.is_said_to_be_stuck {
            continue;
        }
        standing.is_said_to_be_stuck = stuck.is_some();
        let bytes_behind = standing.lag.bytes_behind;
        drop(standing);
        if named == MOST_NAMED {
            unnamed += 1;
            continue;
        }
        named += 1;
        match stuck {
            Some(stuck) => tracing::warn!(
                container = %name,
                seconds = stuck.seconds,
                bytes_behind,
                waits_for = stuck.waits_for,
                "container logs are there and are not read"
            ),
            None => tracing::info!(container = %name, "container logs are read again"),
        }
    }
    if unnamed > 0 {
        tracing::warn!(containers = unnamed, "the same of more containers; /logs on the admin port has all");
    }
    stuck_count
}

fn figures(shared: &Shared, containers: &[Arc<Container>], stuck: u64, without_memory: u64) -> ContainerLogFigures {
    let (totals, now_ms) = (shared.totals(), unix_ms());
    let counts = totals.counts;
    let mut figures = ContainerLogFigures {
        containers: totals.containers,
        stuck,
        without_memory,
        records: counts.records,
        bytes: counts.bytes,
        rotations: totals.rotations,
        nul_bytes: counts.nul_bytes,
        odd: counts.odd().to_vec(),
        lost_bytes: totals.lost.by_reason().to_vec(),
        ..ContainerLogFigures::default()
    };
    for container in containers {
        let standing = container.standing();
        figures.open_files += standing.open_files;
        figures.removed_open_bytes += standing.removed_open_bytes;
        figures.bytes_behind += standing.lag.bytes_behind;
        figures.most_bytes_behind = figures.most_bytes_behind.max(standing.lag.bytes_behind);
        figures.most_behind = figures.most_behind.max(Duration::from_millis(standing.lag.age_ms(now_ms)));
    }
    figures
}
