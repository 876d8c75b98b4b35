//! Container logs: what the containers of a node write, read from the files that the kubelet and the runtime keep.
//!
//! A container's output is a chain of files (`chain`): those that were rotated away, oldest first, then the one that is
//! written now. Bytes become lines (`line`), lines entries (`join`), the entries of a stack trace one (`multiline`,
//! `traces`), and entries log records (`record`), in as many requests as pipelines want different ones (`requests`).
//! Reading has no state but a position (`join::Position`): each turn begins where the position says, and the position
//! moves when the engine says that the records are safe. The positions of all containers are in the checkpoints
//! (`checkpoint`).
//!
//! How all that goes is on a board (`status`), which others read, too; once a second it is surveyed (`survey`).
//!
//! One thread looks (`looker`): it lists the directories (`tree`), when the kernel hints at a change (`hints`) and from
//! time to time, and brings what is there together with what is known of each container (`container`, `catalogue`). One task reads
//! (`reader`): container after container has its turn (`turn`), whose requests go to the engine's inlet.

mod allowance;
mod catalogue;
mod chain;
mod changed;
mod checkpoint;
mod container;
mod files;
mod hints;
mod identity;
mod join;
mod line;
mod looker;
mod multiline;
mod path;
mod reader;
mod record;
mod requests;
mod scan;
mod status;
mod survey;
mod traces;
mod tree;
mod turn;

pub use looker::{MAX_REMOVED_BYTES, Settings, StartAt, StartError, Tail, Wanted};
pub use reader::Totals;
pub use status::{Activity, Board, ContainerStatus, Losses, Stuck, inspect};
pub use turn::Counts;
