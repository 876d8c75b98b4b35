//! The allocator, and how memory goes back to the system: before more than a set amount is in use or free, and when
//! nothing happens any more (promise P3).

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tikv_jemallocator::Jemalloc;
use tokio::time::{MissedTickBehavior, interval};

/// Telemetry is many large buffers of changing size; the system's allocator keeps too much of them.
#[global_allocator]
static ALLOCATOR: Thrifty = Thrifty;

/// All pages that have been free for this long go back at once.
const LOOKS: Duration = Duration::from_secs(1);

/// A thread looks whether free pages must go back whenever it has allocated so many bytes.
const STEP: usize = 256 << 10;

/// Free pages go back when more bytes than these are in use, or free and not yet given back.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Whoever gives pages back has it.
static PURGE: Mutex<()> = Mutex::new(());

/// Somebody does.
static PURGES: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Bytes that this thread has allocated since it last looked.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// jemalloc keeps free pages for a while. This allocator does not, when there is no place for them. Buffers of growing
/// size do not fit into the room of smaller ones that were freed, and all buffers are paid for only as long as they
/// live.
struct Thrifty;

#[expect(unsafe_code, reason = "an allocator is unsafe")]
// SAFETY: jemalloc does it all.
unsafe impl GlobalAlloc for Thrifty {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps to the same rules.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { Jemalloc.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Jemalloc.dealloc(old, layout) }
    }
}

/// `bytes` are about to be allocated.
#[inline]
fn count(bytes: usize) {
    ALLOCATED.with(|allocated| {
        let sum = allocated.get().saturating_add(bytes);
        allocated.set(if sum < STEP { sum } else { 0 });
        if sum >= STEP {
            make_place(bytes);
        }
    });
}

/// Gives all free pages back if there is no place for them and `bytes` more. One thread does that, and others wait for
/// it: jemalloc counts pages as gone when it begins to give them back.
#[cold]
fn make_place(bytes: usize) {
    let most = MOST.load(Ordering::Relaxed);
    let is_full = || held().saturating_add(bytes) > most;
    if most == usize::MAX || !(PURGES.load(Ordering::Acquire) || is_full()) {
        return;
    }
    let _turn = PURGE.lock().unwrap_or_else(PoisonError::into_inner);
    if is_full() {
        PURGES.store(true, Ordering::Release);
        act(c"arena.4096.purge");
        PURGES.store(false, Ordering::Release);
    }
}

/// From now on, free pages have no place beyond 15/16 of so many bytes. C libraries have an allocator of their own, and
/// the compressors of zstd may have 1/32 in it, 3 MiB at least.
pub(crate) fn keep_within(memory: usize) {
    MOST.store(memory - memory / 16, Ordering::Relaxed);
    return_large_ones();
}

/// Makes the allocator of C libraries give large blocks back at once. Otherwise it finds out that such sizes come
/// again, and keeps what a compressor had, once for each of many threads.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "mallopt is a function of C, and no crate has a safe name for this")]
fn return_large_ones() {
    const LARGE: i32 = 128 << 10;
    // SAFETY: it takes two numbers and changes nothing but a setting.
    let done = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    debug_assert_eq!(done, 1, "the setting is known");
}

#[cfg(not(target_env = "gnu"))]
fn return_large_ones() {}

/// Threads that allocate and free give free pages back (see `.cargo/config.toml`). This task does it where no thread
/// does. It never ends.
pub(crate) async fn tidy() {
    let mut looks = interval(LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        act(c"arena.4096.decay");
    }
}

/// Bytes that are in use, or free and not yet given back.
fn held() -> usize {
    refresh();
    let pages = read(c"stats.arenas.4096.pactive") + read(c"stats.arenas.4096.pdirty");
    pages * rustix::param::page_size()
}

/// Has jemalloc do what is called `name`, for all arenas: their number is 4096.
#[expect(unsafe_code, reason = "jemalloc is a library of C, and no crate has a safe name for this")]
fn act(name: &CStr) {
    // SAFETY: the name ends with a zero byte, and such an action takes and returns no value, so all else is null.
    let failed =
        unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0) };
    debug_assert_eq!(failed, 0, "jemalloc knows {name:?}");
}

/// Has jemalloc count anew.
#[expect(unsafe_code, reason = "jemalloc is a library of C, and no crate has a safe name for this")]
fn refresh() {
    let mut epoch = 1_u64;
    // SAFETY: the new value is a number of this length.
    let failed = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"epoch".as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            (&raw mut epoch).cast(),
            size_of::<u64>(),
        )
    };
    debug_assert_eq!(failed, 0, "jemalloc knows this name");
}

/// What jemalloc counted.
#[expect(unsafe_code, reason = "jemalloc is a library of C, and no crate has a safe name for this")]
fn read(name: &CStr) -> usize {
    let (mut value, mut length) = (0_usize, size_of::<usize>());
    // SAFETY: the value has this length.
    let failed = unsafe {
        tikv_jemalloc_sys::mallctl(name.as_ptr(), (&raw mut value).cast(), &raw mut length, ptr::null_mut(), 0)
    };
    debug_assert_eq!(failed, 0, "jemalloc knows {name:?}");
    value
}

#[cfg(test)]
mod tests {
    use tokio::sync::Mutex;

    use super::*;

    /// All tests share the memory of the process.
    static ALONE: Mutex<()> = Mutex::const_new(());

    /// Without the pages of files: those of the program come and go, and another test lets go of them.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: Vec<usize> = statm.split(' ').take(3).map(|pages| pages.parse().unwrap()).collect();
        (pages[1] - pages[2]) * rustix::param::page_size()
    }

    /// Every other buffer stays, so that no long row of pages is free.
    #[tokio::test]
    async fn what_is_free_goes_back_though_nothing_is_allocated() {
        let _alone = ALONE.lock().await;
        let mut buffers: Vec<Vec<u8>> = (0..256).map(|_| vec![1; 1 << 20]).collect();
        let full = resident();
        buffers.iter_mut().step_by(2).for_each(|buffer| *buffer = Vec::new());
        let gives_back = async {
            let mut looks = interval(Duration::from_millis(100));
            while resident() > full - (100 << 20) {
                looks.tick().await;
            }
        };
        tokio::select! {
            () = tidy() => {}
            () = gives_back => return,
            () = tokio::time::sleep(Duration::from_secs(30)) => {}
        }
        panic!("{} bytes of {full}", resident());
    }

    /// Half of the buffers stay each time, so that those of the next size do not fit into the room that is free.
    #[test]
    fn what_is_free_goes_back_before_more_is_held_than_was_set() {
        const SET: usize = 128 << 20;
        let _alone = ALONE.blocking_lock();
        let before = resident();
        keep_within(held() + SET);
        let (mut kept, mut most) = (Vec::new(), 0);
        for size in [1 << 20, 2 << 20, 4 << 20] {
            let mut buffers: Vec<Vec<u8>> = (0..(64 << 20) / size).map(|_| vec![1; size]).collect();
            most = most.max(resident().saturating_sub(before));
            let mut index = 0;
            buffers.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            kept.extend(buffers);
        }
        MOST.store(usize::MAX, Ordering::Relaxed);
        assert!(most <= SET + (8 << 20), "{most} bytes for {SET}");
    }
}
