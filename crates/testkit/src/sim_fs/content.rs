//! The bytes of one simulated file: what is written, what is durable, and what lies between the two.

use fastrand::Rng;

/// What a disk writes at once.
const SECTOR: usize = 512;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    written: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since the last sync, in order.
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl Content {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { written: bytes.clone(), durable: bytes, unsynced: Vec::new() }
    }

    pub(super) fn written(&self) -> &[u8] {
        &self.written
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        put(&mut self.written, bytes, offset);
        self.unsynced.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn resize(&mut self, length: usize) {
        self.written.resize(length, 0);
        self.unsynced.push(Change::Resize(length));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Change::Write { offset, bytes } => put(&mut self.durable, &bytes, offset),
                Change::Resize(length) => self.durable.resize(length, 0),
            }
        }
    }

    /// Each change happens, happens in part, or is lost for good.
    pub(super) fn fail_to_sync(&mut self, rng: &mut Rng, old: &[Vec<u8>]) {
        self.durable = self.after_power_loss(rng, old);
        self.unsynced.clear();
    }

    /// What the disk may have.
    pub(super) fn after_power_loss(&self, rng: &mut Rng, old: &[Vec<u8>]) -> Vec<u8> {
        let mut disk = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Write { offset, bytes } => tear(&mut disk, bytes, *offset, rng, old),
                Change::Resize(length) if rng.bool() => disk.resize(*length, 0),
                Change::Resize(_) => {}
            }
        }
        disk
    }

    pub(super) fn corrupt(&mut self, offset: usize, change: impl Fn(u8) -> u8) -> bool {
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte = change(*byte);
        }
        let Some(byte) = self.written.get_mut(offset) else { return false };
        *byte = change(*byte);
        true
    }
}

fn put(file: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

/// A write of which anything may have reached the disk.
fn tear(file: &mut Vec<u8>, bytes: &[u8], offset: usize, rng: &mut Rng, old: &[Vec<u8>]) {
    match rng.u32(..6) {
        0 => {}
        1 | 2 => put(file, bytes, offset),
        3 => put(file, &bytes[..rng.usize(..=bytes.len())], offset),
        4 => sectors(bytes, offset, |at, part| {
            if rng.bool() {
                put(file, part, at);
            }
        }),
        _ => {
            // The length is known to the disk, and some of the data.
            let grown = file.len()..(offset + bytes.len()).max(file.len());
            let before = grown.start;
            file.resize(grown.end, 0);
            fill(&mut file[grown], before, rng, old);
            sectors(bytes, offset, |at, part| {
                if rng.u32(..4) > 0 {
                    put(file, part, at);
                }
            });
        }
    }
}

/// What is where no data arrived: zeros, noise, or what a removed file had there.
fn fill(room: &mut [u8], offset: usize, rng: &mut Rng, old: &[Vec<u8>]) {
    match rng.u32(..3) {
        0 => {}
        1 => rng.fill(room),
        _ => {
            let Some(old) = rng.choice(old) else { return };
            let old = old.get(offset..).unwrap_or_default();
            let count = old.len().min(room.len());
            room[..count].copy_from_slice(&old[..count]);
        }
    }
}

/// The parts of a write by the sectors of the disk that they go to.
fn sectors(bytes: &[u8], offset: usize, mut each: impl FnMut(usize, &[u8])) {
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes.len().min(at + SECTOR - (offset + at) % SECTOR);
        each(offset + at, &bytes[at..end]);
        at = end;
    }
}
