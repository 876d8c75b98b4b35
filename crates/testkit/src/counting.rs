//! An allocator that counts, for tests of how much memory something takes. It counts the whole process, so such a test
//! is a program of its own, with one test at a time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, and what it gave out.
#[derive(Debug, Default)]
pub struct Counting {
    used: AtomicUsize,
    most: AtomicUsize,
}

impl Counting {
    /// Nothing is in use as yet.
    pub const fn new() -> Self {
        Self { used: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// Bytes that are in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were in use since [`Counting::begin`].
    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Returns the bytes in use. From now on, the most is recorded.
    pub fn begin(&self) -> usize {
        let used = self.used();
        self.most.store(used, Ordering::Relaxed);
        used
    }
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe to write; this one only counts and leaves the rest to the system's"
)]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = self.used.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        self.most.fetch_max(used, Ordering::Relaxed);
        // SAFETY: see above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.used.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: see above.
        unsafe { System.dealloc(at, layout) }
    }
}
