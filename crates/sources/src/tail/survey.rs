//! Once a second, sums up how all containers are read, reports losses and stuck containers, and gives up removed files
//! when these take too much of the disk.

use std::sync::Arc;
use std::time::Duration;

use weir_engine::view::ContainerLogFigures;

use super::container::{Container, Removed};
use super::shared::{Shared, Totals};
use super::status::{Stuck, unix_ms};

/// What a survey goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The bytes that removed files may take.
    pub(super) removed_bytes: u64,
    /// A container that waits for so long is stuck.
    pub(super) patience: Duration,
}

/// Measures all containers, and reports to the engine and the log. Most are idle, so each is visited only twice. `ends`:
/// nothing follows.
pub(super) fn survey(shared: &Shared, bounds: Bounds, without_memory: u64, ends: bool) {
    let containers: Vec<Arc<Container>> = shared.board.containers().values().cloned().collect();
    let measured = containers.iter().inspect(|container| {
        if container.is_behind() {
            container.measure();
        }
    });
    let holders: Vec<_> = measured.filter(|container| container.progress().removed_open_bytes > 0).collect();
    for container in keep_within(&holders, bounds.removed_bytes) {
        shared.note(container);
    }
    let now_ms = unix_ms();
    let mut figures = ContainerLogFigures { without_memory, ..ContainerLogFigures::default() };
    for container in &containers {
        if container.progress().has_unreported() {
            shared.report_losses(container);
        }
        let mut progress = container.progress();
        let stuck = progress.stuck(bounds.patience);
        figures.stuck += u64::from(stuck.is_some());
        figures.open_files += progress.open_files;
        figures.removed_open_bytes += progress.removed_open_bytes;
        figures.bytes_behind += progress.lag.bytes_behind;
        figures.most_bytes_behind = figures.most_bytes_behind.max(progress.lag.bytes_behind);
        figures.most_behind = figures.most_behind.max(Duration::from_millis(progress.lag.age_ms(now_ms)));
        if stuck.is_some() != progress.is_reported_stuck {
            progress.is_reported_stuck = stuck.is_some();
            let bytes_behind = progress.lag.bytes_behind;
            drop(progress);
            report(shared, container, stuck, bytes_behind);
        }
    }
    shared.say_left_out(ends);
    let figures = with_totals(figures, &shared.totals());
    shared.inlet.report(|of_all| of_all.container_logs = Some(figures));
}

/// Gives up removed files, the oldest first, until the others take no more than `most` bytes. Returns whose they are.
fn keep_within<'a>(holders: &[&'a Arc<Container>], most: u64) -> Vec<&'a Arc<Container>> {
    let mut removed: Vec<(Removed, &Arc<Container>)> = holders
        .iter()
        .flat_map(|container| container.removed().into_iter().map(move |file| (file, *container)))
        .collect();
    removed.sort_by_key(|(file, _)| *file);
    let mut bytes: u64 = removed.iter().map(|(file, _)| file.bytes).sum();
    let mut given_up = Vec::new();
    for (file, container) in removed {
        if bytes <= most {
            break;
        }
        bytes -= file.bytes;
        container.give_up_removed(file.number);
        given_up.push(container);
    }
    given_up
}

/// A container became stuck since the last survey, or is read again.
fn report(shared: &Shared, container: &Container, stuck: Option<Stuck>, bytes_behind: u64) {
    match stuck {
        Some(stuck) if shared.may_say("stuck", bytes_behind) => tracing::warn!(
            container = %container.name,
            seconds = stuck.seconds,
            bytes_behind,
            waits_for = stuck.waits_for,
            advice = "mend what it waits for; /logs on the admin port shows how far it is",
            "a container is stuck: its logs are not read"
        ),
        None if shared.may_say("read_again", bytes_behind) => {
            tracing::info!(container = %container.name, "container logs are read again")
        }
        _ => {}
    }
}

fn with_totals(figures: ContainerLogFigures, totals: &Totals) -> ContainerLogFigures {
    let counts = totals.counts;
    ContainerLogFigures {
        containers: totals.containers,
        records: counts.records,
        bytes: counts.bytes,
        rotations: totals.rotations,
        nul_bytes: counts.nul_bytes,
        odd: counts.odd().to_vec(),
        lost_bytes: totals.lost.by_reason().to_vec(),
        ..figures
    }
}
