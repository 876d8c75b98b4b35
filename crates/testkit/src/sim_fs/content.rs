//! The bytes of one simulated file: what is written, what is durable, and what lies between the two.

use fastrand::Rng;

use super::sparse::Sparse;

/// What a disk writes at once.
const SECTOR: usize = 512;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    written: Sparse,
    durable: Sparse,
    /// Changes since the last sync, in order.
    unsynced: Vec<Change>,
    /// A sync has failed: what is written may be neither durable nor about to be.
    lost: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl Content {
    pub(super) fn durable(bytes: Sparse) -> Self {
        Self { written: bytes.clone(), durable: bytes, unsynced: Vec::new(), lost: false }
    }

    pub(super) fn written(&self) -> &Sparse {
        &self.written
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        self.written.write(offset, bytes);
        self.unsynced.push(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn resize(&mut self, length: usize) {
        self.written.resize(length);
        self.unsynced.push(Change::Resize(length));
    }

    pub(super) fn sync(&mut self) {
        std::mem::take(&mut self.unsynced).iter().for_each(|change| change.apply(&mut self.durable));
    }

    /// Each change happens, happens in part, or is lost for good.
    pub(super) fn fail_to_sync(&mut self, rng: &mut Rng, old: &[Sparse]) {
        self.durable = self.after_power_loss(rng, old);
        self.unsynced.clear();
        self.lost = true;
    }

    /// The system drops what it has in memory before `until` and need not write any more.
    pub(super) fn forget(&mut self, until: usize) {
        if !self.lost {
            return;
        }
        let mut disk = self.durable.clone();
        self.unsynced.iter().for_each(|change| change.apply(&mut disk));
        disk.resize(self.written.len());
        let mut bytes = vec![0; until.min(disk.len())];
        disk.read(0, &mut bytes);
        self.written.write(0, &bytes);
    }

    /// What the disk may have.
    pub(super) fn after_power_loss(&self, rng: &mut Rng, old: &[Sparse]) -> Sparse {
        let mut disk = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Write { offset, bytes } => tear(&mut disk, bytes, *offset, rng, old),
                Change::Resize(length) if rng.bool() => disk.resize(*length),
                Change::Resize(_) => {}
            }
        }
        disk
    }

    /// Changes a byte everywhere; false when it is not there.
    pub(super) fn corrupt(&mut self, offset: usize, change: impl Fn(u8) -> u8) -> bool {
        let mut there = false;
        for bytes in [&mut self.durable, &mut self.written] {
            let mut byte = [0];
            there = bytes.read(offset, &mut byte) == 1;
            if there {
                bytes.write(offset, &[change(byte[0])]);
            }
        }
        there
    }
}

impl Change {
    fn apply(&self, file: &mut Sparse) {
        match self {
            Self::Write { offset, bytes } => file.write(*offset, bytes),
            Self::Resize(length) => file.resize(*length),
        }
    }
}

/// A write of which anything may have reached the disk.
fn tear(file: &mut Sparse, bytes: &[u8], offset: usize, rng: &mut Rng, old: &[Sparse]) {
    match rng.u32(..6) {
        0 => {}
        1 | 2 => file.write(offset, bytes),
        3 => file.write(offset, &bytes[..rng.usize(..=bytes.len())]),
        4 => sectors(bytes, offset, |at, part| {
            if rng.bool() {
                file.write(at, part);
            }
        }),
        _ => {
            // The length is known to the disk, and some of the data.
            let (before, after) = (file.len(), file.len().max(offset + bytes.len()));
            let mut room = vec![0; after - before];
            fill(&mut room, before, rng, old);
            file.write(before, &room);
            sectors(bytes, offset, |at, part| {
                if rng.u32(..4) > 0 {
                    file.write(at, part);
                }
            });
        }
    }
}

/// What is where no data arrived: zeros, noise, or what a removed file had there.
fn fill(room: &mut [u8], offset: usize, rng: &mut Rng, old: &[Sparse]) {
    match rng.u32(..3) {
        0 => {}
        1 => rng.fill(room),
        _ => {
            if let Some(old) = rng.choice(old) {
                old.read(offset, room);
            }
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
