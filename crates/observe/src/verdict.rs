//! What is found out about a pipeline.

use serde::{Deserialize, Serialize};

use crate::look::{BeforeBooks, TurnedAway};

/// How data flows through a pipeline, the best first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should.
    #[default]
    Healthy,
    /// More arrives than the backend takes, or there is hardly any room left.
    BufferFilling,
    /// Clients are asked to come again, for lack of room.
    Throttling,
    /// A share of the data is lost, also before it came into the books, or refused by the backend.
    SomeDropped,
    /// Nothing is delivered; all of it is kept.
    NothingDelivered,
    /// Nothing is delivered, and data is lost or refused by the backend.
    AllDropped,
}

impl State {
    /// All troubles.
    pub(crate) const TROUBLES: [Self; 5] =
        [Self::BufferFilling, Self::Throttling, Self::SomeDropped, Self::NothingDelivered, Self::AllDropped];

    /// As pages and the log call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::BufferFilling => "buffer_filling",
            Self::Throttling => "throttling",
            Self::SomeDropped => "some_dropped",
            Self::NothingDelivered => "nothing_delivered",
            Self::AllDropped => "all_dropped",
        }
    }

    /// Whether nothing is delivered in it.
    pub fn delivers_nothing(self) -> bool {
        matches!(self, Self::NothingDelivered | Self::AllDropped)
    }
}

/// What is found out about a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// Whose data it is about.
    pub roles: Roles,
    /// Whether something was delivered lately.
    pub delivers: bool,
    /// `None` while all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Box<Trouble>>,
}

impl Verdict {
    /// How data flows.
    pub fn state(&self) -> State {
        self.trouble.as_ref().map_or(State::Healthy, |trouble| trouble.state)
    }
}

/// Whose data passes: what clients push comes by way of the gateway, and the rest by way of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Roles {
    /// Data that clients pushed.
    pub gateway: bool,
    /// Data that an agent collected.
    pub agent: bool,
}

impl Roles {
    /// Those of either.
    pub fn and(self, other: Self) -> Self {
        Self { gateway: self.gateway || other.gateway, agent: self.agent || other.agent }
    }
}

/// What is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trouble {
    /// Never healthy.
    pub state: State,
    /// Since when, in seconds since the Unix epoch.
    pub since: u64,
    /// What happened to data since then.
    pub amounts: Amounts,
    /// What waits now.
    pub kept: Kept,
    /// Nothing is delivered, but the backend answers, asks for another attempt, and took something in the last minutes:
    /// it may take a little, and nobody knows that before it has taken something again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_be_slow: bool,
    /// Nothing is delivered, because requests fail here: the backend is not asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fails_here: bool,
    /// What the backend said last, or why it cannot be reached or is not asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub words: String,
}

impl Trouble {
    /// Whether it is an agent's alone: hardly anything was lost but what did not come into any books, and what clients
    /// push is delivered.
    pub(crate) fn is_of_agent(&self) -> bool {
        self.state == State::SomeDropped && self.amounts.is_early()
    }
}

/// Items, and requests of clients, within some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// Items that the backend took.
    pub delivered: u64,
    /// Items that were given up here.
    pub dropped: u64,
    /// Items that the backend refused for good.
    pub rejected: u64,
    /// Items that were lost before they came into any books; a node of an earlier version does not say.
    #[serde(skip_serializing_if = "are_none")]
    pub before_books: BeforeBooks,
    /// Items of requests that it refused without asking for another attempt; an item counts each time.
    pub refused: u64,
    /// Requests of clients.
    pub requests: u64,
    /// Requests of clients that were asked to come again, for lack of room.
    pub turned_away: u64,
    /// The same, by what there was no room in; a node of an earlier version does not say.
    #[serde(skip_serializing_if = "is_none")]
    pub turned_away_for: TurnedAway,
}

fn is_none(of: &TurnedAway) -> bool {
    of.all() == 0
}

fn are_none(of: &BeforeBooks) -> bool {
    of.items == 0
}

impl Amounts {
    /// Items that nobody has any more.
    pub fn lost(self) -> u64 {
        self.lost_of_books().saturating_add(self.before_books.items)
    }

    /// Those of them that had come into the books.
    pub(crate) fn lost_of_books(self) -> u64 {
        self.dropped.saturating_add(self.rejected)
    }

    /// Whether most of what is wrong is what was lost before it came into any books.
    pub(crate) fn is_early(self) -> bool {
        let early = self.before_books.items;
        early > self.lost_of_books() && early >= self.refused
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            delivered: self.delivered.saturating_add(other.delivered),
            dropped: self.dropped.saturating_add(other.dropped),
            rejected: self.rejected.saturating_add(other.rejected),
            before_books: self.before_books.and(other.before_books),
            refused: self.refused.saturating_add(other.refused),
            requests: self.requests.saturating_add(other.requests),
            turned_away: self.turned_away.saturating_add(other.turned_away),
            turned_away_for: self.turned_away_for.and(other.turned_away_for),
        }
    }
}

/// What is kept for a backend, and for how long it can be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// Items.
    pub items: u64,
    /// Bytes.
    pub bytes: u64,
    /// What these may come to.
    pub room_bytes: u64,
    /// How long an item may wait, if that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_seconds: Option<u64>,
    /// Bytes for which the disk has room, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Whether the disk may be full before all pipelines have reached their limits.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disk_is_scarce: bool,
    /// When the first of these limits is reached, or such a disk is full, if it goes on like this. A disk of which
    /// nothing is known may be full before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_in_seconds: Option<u64>,
}

impl Kept {
    /// Both together, of different places: the first that is full counts. Of disks all have to be known.
    pub fn and(self, other: Self) -> Self {
        let first = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let disks = self.disk_free_bytes.zip(other.disk_free_bytes);
        Self {
            items: self.items.saturating_add(other.items),
            bytes: self.bytes.saturating_add(other.bytes),
            room_bytes: self.room_bytes.saturating_add(other.room_bytes),
            room_seconds: first(self.room_seconds, other.room_seconds),
            disk_free_bytes: disks.map(|(one, other)| one.min(other)),
            disk_is_scarce: self.disk_is_scarce || other.disk_is_scarce,
            full_in_seconds: first(self.full_in_seconds, other.full_in_seconds),
        }
    }
}
