//! One turn of a container: memory for it, reading, the offer to the engine and, when all of it is safe, the commit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task;
use weir_engine::{InputKind, Obstacle, Origin, Request, Verdict, unix_nanos};
use weir_plan::{RecordShape, Signal};

use super::allowance::TurnPermit;
use super::container::{Container, Wait};
use super::files::DECODER_BYTES;
use super::reading::{MOST_APART, Order, Reading, WINDOW};
use super::record::ATTRIBUTES_BYTES;
use super::requests::Want;
use super::shared::Shared;

/// The largest request of a turn.
pub(super) const MOST_REQUEST_BYTES: usize = 1 << 20;

/// All requests of a turn: one in each shape.
const MOST_TURN_BYTES: usize = RecordShape::ALL.len() * MOST_REQUEST_BYTES;

/// No request is made smaller than this because one was too large.
const LEAST_REQUEST_BYTES: usize = 16 << 10;

/// A container that was read to its end rests for so long, so that single lines do not cost a request each.
pub(super) const REST: Duration = Duration::from_millis(200);

/// Timers are not more exact.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// A turn that found no memory, or made what is not taken, is tried again after this.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// How a turn ended.
pub(super) enum End {
    /// There is more.
    More,
    /// There is no more now.
    Idle,
    /// It is to be tried again after this long.
    Again(Duration),
}

/// One turn of a container: reads, offers and, when all of it is safe, moves on.
pub(super) async fn turn(shared: &Arc<Shared>, container: &Arc<Container>) -> End {
    let wants = shared.wants(&container.name);
    if wants.is_empty() {
        return End::Idle;
    }
    if let Some(pause) = waits_for_metadata(shared, container) {
        container.waits_for(Wait::Metadata);
        return End::Again(pause);
    }
    container.waits_for(Wait::Memory);
    let most = container.output().most_bytes.unwrap_or(MOST_REQUEST_BYTES).min(shared.inlet.max_request_bytes());
    // However many are made, together they are not larger.
    let most = most.min(MOST_TURN_BYTES / wants.len());
    let wanted = turn_bytes(wants.len(), most);
    let largest = turn_bytes(1, MOST_TURN_BYTES);
    let Some(mut permit) = shared.allowance.reserve(&shared.inlet, wanted).await else { return End::Again(PAUSE) };
    container.waits_for(Wait::Disk);
    let order = Order {
        wants: wants.clone(),
        node: shared.node_of(&container.name),
        most_bytes: most,
        now_nanos: unix_nanos(),
    };
    let end = match read(container, order).await {
        Ok(reading) => offer(shared, container, (reading, wants), &mut permit).await,
        Err(error) => failed(shared, container, &error),
    };
    container.keep_inflating(permit.keep(DECODER_BYTES, largest, &shared.inlet));
    end
}

/// The container's files cannot be read now.
fn failed(shared: &Shared, container: &Arc<Container>, error: &io::Error) -> End {
    container.waits_for(Wait::Unreadable(error.to_string()));
    let (is_first, given_up) = container.failed();
    shared.note(container);
    let (name, bytes_behind) = (&container.name, container.progress().lag.bytes_behind);
    if is_first && shared.may_say("cannot_read", bytes_behind) {
        tracing::warn!(
            container = %name,
            bytes_behind,
            %error,
            advice = "look at the rights to the file, and at the disk",
            "cannot read what the container wrote; trying again"
        );
    }
    if let Some(bytes) = given_up
        && shared.may_say("given_up", bytes)
    {
        tracing::error!(
            pipelines = shared.pipelines_of(name),
            container = %name,
            bytes,
            %error,
            advice = "look at the disk, and at the kernel's log",
            "the rest of a log file cannot be read and is given up"
        );
    }
    End::Again(shared.retry_after)
}

/// The memory of a turn: the window, parts of lines that are joined, lines of stack traces (which grow as they are
/// joined), text that is made of bytes, attributes of JSON, the decoder, and the requests.
fn turn_bytes(requests: usize, most: usize) -> usize {
    WINDOW + 4 * MOST_APART + ATTRIBUTES_BYTES + DECODER_BYTES + requests * most
}

/// How long the first lines of an unknown pod still wait for facts.
fn waits_for_metadata(shared: &Shared, container: &Container) -> Option<Duration> {
    let is_known = shared.pods.now().knows(&container.name.uid).unwrap_or(true);
    let left = shared.metadata_waits.saturating_sub(container.age());
    (!is_known && !left.is_zero()).then_some(left.min(REST))
}

/// Reads on a thread that may wait for the disk.
async fn read(container: &Arc<Container>, order: Order) -> io::Result<Reading> {
    let container = Arc::clone(container);
    task::spawn_blocking(move || container.read(&order)).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// The request was too large: the next one is smaller.
fn smaller(shared: &Shared, container: &Container, length: usize, cause: &str) -> End {
    let most_bytes = (length / 2).max(LEAST_REQUEST_BYTES);
    if container.output().most_bytes.replace(most_bytes) == Some(most_bytes) {
        return End::Again(PAUSE);
    }
    // Those that follow grow again, until one is too large again.
    if let Some(left_out) = shared.too_large_due() {
        let container = &container.name;
        tracing::info!(%container, length, most_bytes, cause, left_out, "a request of log lines is too large");
    }
    End::Again(REST)
}

fn words(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Full => "they have no room",
        Obstacle::DiskFails => "backends do not take it, and the data directory cannot be written to",
        Obstacle::DiskHangs => "backends do not take it, and the disk of the data directory does not answer",
        Obstacle::Busy => "they are busy",
        Obstacle::Repeated => "some of it is not decided yet",
    }
}

/// How the turn ends if a request of this length was not secured.
fn unless_secured(shared: &Shared, container: &Container, length: usize, verdict: Verdict) -> Option<End> {
    let end = match verdict {
        Verdict::Secured => return None,
        // The pipelines change: it is read again for those there will be.
        Verdict::NotServed => End::Again(REST),
        Verdict::Refused(obstacle, after) => {
            container.waits_for(Wait::Refused(words(obstacle)));
            End::Again(after)
        }
        Verdict::NoMemory => {
            container.waits_for(Wait::Memory);
            End::Again(PAUSE)
        }
        Verdict::TooLarge(cause) => smaller(shared, container, length, &cause),
    };
    Some(end)
}

/// Offers what was read. The position moves only when all of it is safe.
async fn offer(
    shared: &Shared,
    container: &Arc<Container>,
    (reading, wants): (Reading, Vec<Want>),
    turn_permit: &mut TurnPermit,
) -> End {
    let Reading { mut requests, position, guard, counts, is_more, waits } = reading;
    container.waits_for(Wait::Answer);
    requests.iter_mut().for_each(|(_, bytes)| bytes.shrink_to_fit());
    turn_permit.shrink_to(requests.iter().map(|(_, bytes)| bytes.capacity()).chain([DECODER_BYTES]));
    for (want, bytes) in requests {
        let length = bytes.len();
        let Some(permit) = turn_permit.part(bytes.capacity()) else { return End::Again(PAUSE) };
        let input = InputKind::ContainerLogs(want.shape, want.asked);
        let request = match Request::new(Signal::Logs, bytes, permit, Origin::of(input)) {
            Ok(request) => request,
            Err(error) => {
                if shared.may_say("bug", length as u64) {
                    tracing::error!(
                        container = %container.name,
                        bytes = length,
                        %error,
                        "made a request that is not valid: this is a bug in weir, please report it; it is read again"
                    );
                }
                return End::Again(PAUSE);
            }
        };
        let verdict = shared.inlet.offer(request).await;
        if let Some(end) = unless_secured(shared, container, length, verdict) {
            return end;
        }
    }
    if shared.wants(&container.name) != wants {
        // Somebody wants it in another form now. Others get it again.
        return End::Again(REST);
    }
    container.commit(position, guard, &counts);
    shared.note(container);
    shared.count(&container.name, &counts);
    match waits {
        // What comes meanwhile does not wait longer than if nothing was kept back.
        Some(left) => End::Again(left.clamp(LEAST_WAIT, REST)),
        None if is_more => End::More,
        None => End::Idle,
    }
}
