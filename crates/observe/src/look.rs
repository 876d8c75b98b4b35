//! What is seen of a pipeline at one time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When it is seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time that never goes back, from any beginning.
    pub since_start: Duration,
    /// What the clock on the wall says, in seconds since the Unix epoch. Nothing is decided by it.
    pub unix_seconds: u64,
}

/// A pipeline as it is seen. Counts are of items, since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Taken over.
    pub accepted: u64,
    /// Taken by the backend.
    pub delivered: u64,
    /// Given up here.
    pub dropped: u64,
    /// Refused by the backend for good.
    pub rejected: u64,
    /// Lost before they were taken over: not among those.
    pub before_books: BeforeBooks,
    /// In requests that the backend refused without asking for another attempt. An item counts each time.
    pub refused: u64,
    /// What waits.
    pub waiting: Waiting,
    /// What the backend does with what it is sent.
    pub backend: Backend,
    /// In which words it last refused something. It may have taken other data since.
    pub last_refusal: String,
    /// Those who send.
    pub clients: Clients,
    /// Where its data comes from.
    pub inputs: Inputs,
}

/// What was lost before it came into the books of the pipeline that would have got it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BeforeBooks {
    /// Items. An estimate, where nobody has counted them.
    pub items: u64,
    /// Why the last of them was lost.
    pub last: EarlyLoss,
}

impl BeforeBooks {
    /// Both together. Of the reasons, that of which there is more.
    pub fn and(self, other: Self) -> Self {
        let last = if other.items > self.items { other.last } else { self.last };
        Self { items: self.items.saturating_add(other.items), last }
    }

    /// Those since an earlier look.
    pub(crate) fn since(self, before: Self) -> Self {
        match self.items.saturating_sub(before.items) {
            0 => Self::default(),
            items => Self { items, last: self.last },
        }
    }
}

/// Why something was lost before it came into any books.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyLoss {
    /// Files were deleted unread.
    Removed,
    /// Files were cut off or overwritten before they were read.
    Overwritten,
    /// Files could not be read.
    Unreadable,
    /// Files that were deleted took too much of the disk, all of them together.
    OverLimit,
    /// There was no memory for it.
    NoMemory,
    /// No processor had time for it.
    NoCpu,
    /// The pipeline had no room for it, or its disk fails.
    NoRoom,
    /// It is larger than it may be.
    TooLarge,
    /// Something that a later version calls by a name of its own, or nothing was lost.
    #[default]
    #[serde(other)]
    Other,
}

/// What the backend has not taken, now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Items.
    pub items: u64,
    /// Bytes, as far as they count for the limit.
    pub bytes: u64,
    /// What these bytes may come to.
    pub room_bytes: u64,
    /// How long an item may wait, if that is limited.
    pub room_time: Option<Duration>,
    /// Since when the oldest waits.
    pub oldest: Duration,
    /// Where it waits; `None` if that is no disk, or one of which nothing is known.
    pub disk: Option<Disk>,
}

/// The disk on which data of all pipelines waits. What several of them wait for is there once and counts for each in
/// what is kept and left, so it may last longer than these two say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk {
    /// Bytes for which it has room.
    pub free_bytes: u64,
    /// Bytes of it that are taken by what waits.
    pub used_bytes: u64,
    /// Bytes that wait, of all pipelines.
    pub kept_bytes: u64,
    /// Bytes that may come to wait, of all pipelines, until all their limits are reached.
    pub left_bytes: u64,
}

impl Disk {
    /// Whether it may be full before all limits are reached.
    pub(crate) fn is_scarce(&self) -> bool {
        self.free_bytes < self.left_bytes
    }

    /// Bytes for which it has room, with those that are taken.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.used_bytes.saturating_add(self.free_bytes)
    }
}

/// What a backend does with what it is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Backend {
    /// It takes data, or was sent none.
    #[default]
    Takes,
    /// It asks to try again, in these words.
    AsksForTime(String),
    /// It cannot be reached or does not answer, in these words.
    IsAway(String),
    /// It is not asked, because requests fail here, in these words.
    IsNotAsked(String),
    /// It refuses everything and does not ask for another attempt, in these words.
    Refuses(String),
}

impl Backend {
    /// Its words, or those of whoever could not reach it.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Takes => "",
            Self::AsksForTime(words) | Self::IsAway(words) | Self::IsNotAsked(words) | Self::Refuses(words) => words,
        }
    }

    pub(crate) fn asks_for_time(&self) -> bool {
        matches!(self, Self::AsksForTime(_))
    }
}

/// Requests of clients of the pipeline's signal, since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clients {
    /// All of them.
    pub requests: u64,
    /// Those that were asked to come again, for lack of room.
    pub turned_away: TurnedAway,
}

/// Requests of clients that were asked to come again, by what there was no room in. Fields are called as the reasons
/// are for which requests are refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnedAway {
    /// The memory.
    pub no_memory: u64,
    /// A pipeline, which has as much as it may keep.
    pub pipelines_full: u64,
    /// The disk: it is full, fails or does not answer.
    pub disk: u64,
    /// The work on large requests.
    pub busy: u64,
}

impl TurnedAway {
    /// All of them.
    pub fn all(self) -> u64 {
        let Self { no_memory, pipelines_full, disk, busy } = self;
        no_memory.saturating_add(pipelines_full).saturating_add(disk).saturating_add(busy)
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// Those since an earlier look.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            no_memory: of(self.no_memory, other.no_memory),
            pipelines_full: of(self.pipelines_full, other.pipelines_full),
            disk: of(self.disk, other.disk),
            busy: of(self.busy, other.busy),
        }
    }
}

/// Where the data of a pipeline may come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inputs {
    /// From clients, by way of the gateway.
    pub pushed: Input,
    /// From an agent, which reads or fetches it.
    pub collected: Input,
}

/// What comes from an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Input {
    /// The pipeline does not take from it.
    #[default]
    Off,
    /// So much, since the start of the process.
    Counted(u64),
    /// Something, whenever it is looked at.
    Steady,
}
