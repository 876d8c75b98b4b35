//! A thread that writes for many containers, each when its next line is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::kubelet::Counter;
use super::life::{Bench, Life, Orders};
use super::manifest::ContainerEntry;
use crate::lines;

/// Tells all threads to stop, and wakes those that wait.
#[derive(Debug, Default)]
pub struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Nothing is stopped yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Stops everything, now and later.
    pub fn stop(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until `until`, or less when stopped; says whether it was.
    pub(super) fn wait(&self, until: Instant) -> bool {
        let stopped = self.lock();
        let rest = until.saturating_duration_since(Instant::now());
        if *stopped || rest.is_zero() {
            return *stopped;
        }
        let waited = self.changed.wait_timeout_while(stopped, rest, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) orders: Arc<Orders>,
    pub(super) stop: Arc<Stop>,
    pub(super) deadline: Option<Instant>,
    /// Number of the next container.
    pub(super) numbers: AtomicU32,
}

/// Something that is to be done at a time.
#[derive(Debug)]
enum Task {
    Start,
    Write(Box<Life>),
    Remove(Box<Life>),
    Done,
}

/// One thread's work.
pub(super) struct Worker {
    shared: Arc<Shared>,
    counter: Counter,
    bench: Bench,
    tasks: Vec<Task>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Containers whose files are left.
    pub(super) left: Vec<Life>,
    /// Containers whose files were removed.
    pub(super) removed: Vec<ContainerEntry>,
}

impl Worker {
    /// Containers start at `starts`.
    pub(super) fn new(shared: Arc<Shared>, counter: Counter, bench: Bench, starts: &[Instant]) -> Self {
        let mut worker = Self {
            shared,
            counter,
            bench,
            tasks: Vec::new(),
            due: BinaryHeap::new(),
            left: Vec::new(),
            removed: Vec::new(),
        };
        for start in starts {
            worker.add(*start, Task::Start);
        }
        worker
    }

    /// Writes until everything is written, time is up, or somebody says stop.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn run(&mut self) -> anyhow::Result<()> {
        while let Some(Reverse((due, index))) = self.due.pop() {
            let until = self.shared.deadline.map_or(due, |deadline| due.min(deadline));
            let stopped = self.shared.stop.wait(until);
            let now = Instant::now();
            if stopped || self.is_over(now) {
                self.due.push(Reverse((due, index)));
                break;
            }
            let task = std::mem::replace(&mut self.tasks[index], Task::Done);
            if let Some((due, task)) = self.perform(task, now)? {
                self.tasks[index] = task;
                self.due.push(Reverse((due, index)));
            }
        }
        self.wind_up()
    }

    fn is_over(&self, now: Instant) -> bool {
        self.shared.deadline.is_some_and(|deadline| deadline <= now)
    }

    fn add(&mut self, due: Instant, task: Task) {
        self.due.push(Reverse((due, self.tasks.len())));
        self.tasks.push(task);
    }

    /// Does what is due, and says when what is due next.
    fn perform(&mut self, task: Task, now: Instant) -> anyhow::Result<Option<(Instant, Task)>> {
        match task {
            Task::Start => {
                let number = self.shared.numbers.fetch_add(1, Ordering::Relaxed);
                ensure!(number < lines::CONTAINERS, "cannot start more than {} containers", lines::CONTAINERS);
                let life = Life::start(Arc::clone(&self.shared.orders), number, self.counter.clone())?;
                Ok(Some((life.started, Task::Write(Box::new(life)))))
            }
            Task::Write(life) => self.write(life, now),
            Task::Remove(mut life) => {
                life.remove()?;
                self.removed.push(life.entry());
                Ok(None)
            }
            Task::Done => Ok(None),
        }
    }

    fn write(&mut self, mut life: Box<Life>, now: Instant) -> anyhow::Result<Option<(Instant, Task)>> {
        let end = self.shared.orders.fate.pods_live.map(|age| life.started + age);
        if let Some(end) = end.filter(|end| *end <= now) {
            // What was due in its life, if this thread had no time for it: the shortest life has lines.
            life.turn(end, &mut self.bench)?;
            life.end(&mut self.bench)?;
            if self.shared.deadline.is_some() {
                self.add(now, Task::Start);
            }
            return Ok(Some((now + self.shared.orders.fate.removed_after, Task::Remove(life))));
        }
        life.turn(now, &mut self.bench)?;
        let next = if life.is_done() { None } else { life.next(Instant::now()) };
        Ok(match (next, end) {
            (Some(next), Some(end)) => Some((next.min(end), Task::Write(life))),
            (None, Some(end)) => Some((end, Task::Write(life))),
            (Some(next), None) => Some((next, Task::Write(life))),
            (None, None) => {
                life.end(&mut self.bench)?;
                self.left.push(*life);
                None
            }
        })
    }

    /// All lines that were begun are finished, and pods that have an end come to it.
    fn wind_up(&mut self) -> anyhow::Result<()> {
        let mut removals: Vec<(Instant, Box<Life>)> = Vec::new();
        for Reverse((due, index)) in std::mem::take(&mut self.due) {
            match std::mem::replace(&mut self.tasks[index], Task::Done) {
                Task::Write(mut life) => {
                    // What was due until time was up, if the last turn was long ago.
                    if let Some(deadline) = self.shared.deadline.filter(|deadline| *deadline <= Instant::now()) {
                        life.turn(deadline, &mut self.bench)?;
                    }
                    life.end(&mut self.bench)?;
                    match self.shared.orders.fate.pods_live {
                        Some(_) => removals.push((Instant::now() + self.shared.orders.fate.removed_after, life)),
                        None => self.left.push(*life),
                    }
                }
                Task::Remove(life) => removals.push((due, life)),
                Task::Start | Task::Done => (),
            }
        }
        removals.sort_unstable_by_key(|(due, _)| *due);
        for (due, mut life) in removals {
            // Who stops early wants to see what is there.
            if self.shared.stop.wait(due) {
                self.left.push(*life);
                continue;
            }
            life.remove()?;
            self.removed.push(life.entry());
        }
        Ok(())
    }
}

/// When each of `count` containers starts: spread over `over`, so that they do not all write at the same moment.
pub(super) fn starts(begin: Instant, count: u32, over: Duration) -> impl Iterator<Item = Instant> {
    (0..count).map(move |index| begin + over.mul_f64(f64::from(index) / f64::from(count)))
}
