//! Names that hang, without a name server: a test decides when they are answered.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex as Lock, OnceLock};

use super::*;

/// Each look-up of a name under `.hangs` sends its name, then waits for a word of the test.
struct Hanging {
    asked: Sender<String>,
    go_on: Lock<Receiver<()>>,
}

/// Longer than anything takes here, on a busy machine as well.
const LONG: Duration = Duration::from_secs(60);

static HANGING: OnceLock<Hanging> = OnceLock::new();

fn ask(host: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
    if host.ends_with(".hangs") {
        let hanging = HANGING.get().unwrap();
        hanging.asked.send(host.to_owned()).unwrap();
        hanging.go_on.lock().unwrap().recv().unwrap();
    }
    Ok(vec![SocketAddr::from(([127, 0, 0, 1], 1))])
}

/// Asks, and does not wait for the answer. It is enough for the look-up to begin or to stand in its queue.
async fn give_up(system: &System, host: &str) {
    assert!(tokio::time::timeout(Duration::ZERO, system.resolve(host, 1)).await.is_err(), "{host} was answered");
    tokio::task::yield_now().await;
}

async fn answer(system: &System, host: &str) -> Vec<SocketAddr> {
    tokio::time::timeout(LONG, system.resolve(host, 1)).await.unwrap().unwrap()
}

#[tokio::test]
async fn who_gave_up_keeps_the_place_in_the_queue_and_slow_names_leave_places_to_others() {
    static PLACES: Places = Places::new(2);
    let ((asked, asking), (go_on, gone_on)) = (channel(), channel());
    assert!(HANGING.set(Hanging { asked, go_on: Lock::new(gone_on) }).is_ok());
    let system = || System::with(ask, &PLACES);

    // Two names have all places, a third one is known soon, and a fourth one comes after it.
    let (one, two, known, last) = (system(), system(), system(), system());
    give_up(&one, "one.hangs").await;
    give_up(&two, "two.hangs").await;
    let mut first = [asking.recv_timeout(LONG).unwrap(), asking.recv_timeout(LONG).unwrap()];
    first.sort();
    assert_eq!(first, ["one.hangs", "two.hangs"]);
    give_up(&known, "known").await;
    give_up(&last, "last.hangs").await;

    // The third one had its turn before the fourth one, although nobody waited for it.
    go_on.send(()).unwrap();
    assert_eq!(answer(&known, "known").await.len(), 1);
    assert_eq!(asking.recv_timeout(LONG).unwrap(), "last.hangs");
    go_on.send(()).unwrap();
    go_on.send(()).unwrap();
    for (system, host) in [(&one, "one.hangs"), (&two, "two.hangs"), (&last, "last.hangs")] {
        assert_eq!(answer(system, host).await.len(), 1);
        system.was_slow.store(true, Ordering::Relaxed);
    }

    // Slow names have one of the two places, however many there are.
    give_up(&one, "one.hangs").await;
    give_up(&two, "two.hangs").await;
    give_up(&last, "last.hangs").await;
    assert_eq!(asking.recv_timeout(LONG).unwrap(), "one.hangs");
    assert_eq!(answer(&known, "known").await.len(), 1);
    assert!(asking.try_recv().is_err());
    (0..3).for_each(|_| go_on.send(()).unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_was_found_long_ago_is_looked_up_again() {
    static PLACES: Places = Places::new(2);
    static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let count = |_: &str, _| {
        ASKED.fetch_add(1, Ordering::Relaxed);
        Ok(Vec::new())
    };
    let system = System::with(count, &PLACES);
    give_up(&system, "name").await;
    tokio::time::sleep(FRESH).await;
    system.resolve("name", 1).await.unwrap();
    assert_eq!(ASKED.load(Ordering::Relaxed), 2);
    system.resolve("name", 1).await.unwrap();
    assert_eq!(ASKED.load(Ordering::Relaxed), 3);
}
