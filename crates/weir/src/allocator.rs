//! Where memory comes from, and that it goes back to the system when nothing happens any more (promise P3).

use std::ptr;
use std::time::Duration;

use tikv_jemallocator::Jemalloc;
use tokio::time::{MissedTickBehavior, interval};

/// Telemetry is many large buffers of changing size; the system's allocator keeps too much of them.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// All pages that have been free for so long go back at once.
const LOOKS: Duration = Duration::from_secs(1);

/// Whoever allocates and frees gives free pages back (see `.cargo/config.toml`). This does it where nobody does, for ever.
pub(crate) async fn tidy() {
    let mut looks = interval(LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        give_back();
    }
}

/// Gives back the pages of all arenas that have been free for their time.
#[expect(unsafe_code, reason = "jemalloc is a library of C, and no crate has a safe name for this")]
fn give_back() {
    // SAFETY: the name ends with a zero byte, 4096 stands for all arenas, and this action takes and returns no value, so all
    // else is null.
    let failed = unsafe {
        tikv_jemalloc_sys::mallctl(c"arena.4096.decay".as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0)
    };
    debug_assert_eq!(failed, 0, "jemalloc knows this name");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
    }

    /// Every second of these buffers stays: no long row of pages is free.
    #[tokio::test]
    async fn what_is_free_goes_back_though_nothing_is_allocated() {
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
}
