//! Tokens in virtual time, from a token server that is a script.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_plan::Signal;

use super::*;

/// What a token server does.
#[derive(Debug, Clone, Copy)]
enum Do {
    /// Issues a token that is good for so many seconds.
    Issue(u64),
    Fail,
    /// Says nothing until it is given up.
    Hang,
}

/// A token server does one after the other, the last for ever.
#[derive(Debug)]
struct Script {
    acts: Vec<Do>,
    asked: Arc<AtomicUsize>,
}

/// How long [`Do::Hang`] takes.
const HANG: Duration = Duration::from_secs(10);

impl Issuer for Script {
    fn issue(&self) -> Granting<'_> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let act = self.acts[number.min(self.acts.len() - 1)];
        Box::pin(async move {
            match act {
                Do::Issue(seconds) => {
                    // A round trip, so that requests can meet it.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let header = HeaderValue::from_str(&format!("token-{}", number + 1)).unwrap();
                    Ok(Grant { header, life: Duration::from_secs(seconds) })
                }
                Do::Fail => Err("down".to_owned()),
                Do::Hang => {
                    tokio::time::sleep(HANG).await;
                    Err("silent".to_owned())
                }
            }
        })
    }
}

struct Desk {
    tokens: Tokens,
    asked: Arc<AtomicUsize>,
}

impl Desk {
    fn new(acts: &[Do]) -> Self {
        let asked = Arc::default();
        let script = Script { acts: acts.to_vec(), asked: Arc::clone(&asked) };
        Self { tokens: Tokens::from(PipelineId::new(Signal::Traces, "backend"), Box::new(script)), asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// What a request gets, and how long it waits for it.
    async fn get(&self) -> (String, Duration) {
        let since = Instant::now();
        let got = self.tokens.bearer().await.map(|header| header.to_str().unwrap().to_owned());
        (got.unwrap_or_else(|error| error), since.elapsed())
    }

    /// What a request gets that does not wait.
    async fn get_at_once(&self) -> String {
        let (got, waited) = self.get().await;
        assert_eq!(waited, Duration::ZERO, "{got}");
        got
    }

    /// What requests get every 100 ms for so long, without waiting; nothing twice in a row.
    async fn get_for(&self, duration: Duration) -> Vec<String> {
        let (end, mut all) = (Instant::now() + duration, Vec::new());
        while Instant::now() < end {
            all.push(self.get_at_once().await);
            wait(Duration::from_millis(100)).await;
        }
        all.dedup();
        all
    }
}

/// In virtual time; tasks do what they can meanwhile.
async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_token_is_replaced_before_it_expires_and_nobody_waits() {
    let desk = Desk::new(&[Do::Issue(60)]);
    assert_eq!(desk.get().await.0, "token-1");
    assert_eq!(desk.get_for(29 * SECOND).await, ["token-1"]);
    assert_eq!(desk.asked(), 1);
    wait(SECOND).await;
    assert_eq!(desk.get_at_once().await, "token-1", "while the next one is fetched");
    wait(SECOND).await;
    assert_eq!((desk.get_at_once().await.as_str(), desk.asked()), ("token-2", 2));
    // One that lives for a minute is replaced halfway.
    assert_eq!(desk.get_for(290 * SECOND).await.len(), 10);
    assert_eq!(desk.asked(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_used_to_its_end_while_the_next_one_cannot_be_had() {
    for (act, cause, attempts) in [(Do::Fail, "down", 6), (Do::Hang, "silent", 2)] {
        let desk = Desk::new(&[Do::Issue(60), act]);
        desk.get().await;
        assert_eq!(desk.get_for(59 * SECOND).await, ["token-1"], "{act:?}");
        assert_eq!(desk.asked(), 1 + attempts, "{act:?}: now and then, not with each request");
        wait(SECOND).await;
        let (got, waited) = desk.get().await;
        assert_eq!(got, cause, "{act:?}: it has expired");
        assert!(waited <= HANG, "{act:?}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_server_that_recovers_is_noticed_before_the_token_expires() {
    for act in [Do::Fail, Do::Hang] {
        let desk = Desk::new(&[Do::Issue(60), act, Do::Issue(60)]);
        desk.get().await;
        assert_eq!(desk.get_for(59 * SECOND).await, ["token-1", "token-3"], "{act:?}");
        assert_eq!(desk.asked(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_token_all_requests_wait_for_one_answer() {
    for (act, cause, after) in [(Do::Fail, "down", Duration::ZERO), (Do::Hang, "silent", HANG)] {
        let desk = Desk::new(&[act, Do::Issue(60)]);
        let failed = (cause.to_owned(), after);
        let (first, second, third) = tokio::join!(desk.get(), desk.get(), desk.get());
        assert_eq!([&first, &second, &third], [&failed; 3], "{act:?}");
        assert_eq!(desk.get_for(FAILURE_PAUSE - SECOND).await, [cause], "{act:?}");
        assert_eq!(desk.asked(), 1, "{act:?}");
        wait(SECOND).await;
        let (first, second, third) = tokio::join!(desk.get(), desk.get(), desk.get());
        assert_eq!([&first.0, &second.0, &third.0], ["token-2"; 3], "{act:?}");
        assert_eq!(desk.asked(), 2, "{act:?}");
    }
}

/// What a backend refuses is not used again, valid or not.
#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_once() {
    let desk = Desk::new(&[Do::Issue(60)]);
    let header = desk.tokens.bearer().await.unwrap();
    desk.tokens.forget(&header);
    let (first, second) = tokio::join!(desk.get(), desk.get());
    assert_eq!([first.0, second.0], ["token-2", "token-2"]);
    desk.tokens.forget(&header);
    assert_eq!((desk.get_at_once().await.as_str(), desk.asked()), ("token-2", 2), "it was replaced already");
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_gone_while_the_next_one_cannot_be_had() {
    let desk = Desk::new(&[Do::Issue(60), Do::Hang]);
    let header = desk.tokens.bearer().await.unwrap();
    wait(30 * SECOND).await;
    assert_eq!(desk.get_at_once().await, "token-1", "and the next one is asked for");
    desk.tokens.forget(&header);
    assert_eq!(desk.get().await, ("silent".to_owned(), HANG));
    assert_eq!(desk.asked(), 2);
}

/// No task outlives its owner (ENGINE-3).
#[tokio::test(start_paused = true)]
async fn a_replacement_that_hangs_ends_with_its_backend() {
    let desk = Desk::new(&[Do::Issue(60), Do::Hang]);
    desk.get().await;
    wait(30 * SECOND).await;
    desk.get_at_once().await;
    wait(SECOND).await;
    assert_eq!((desk.asked(), Arc::strong_count(&desk.asked)), (2, 2));
    let asked = desk.asked;
    drop(desk.tokens);
    wait(SECOND).await;
    assert_eq!(Arc::strong_count(&asked), 1, "and the script with it");
}

/// Its life is over when it arrives: whoever asked for it tries it, and the next one asks again.
#[tokio::test(start_paused = true)]
async fn a_token_without_a_life_is_used_once() {
    let desk = Desk::new(&[Do::Issue(0)]);
    assert_eq!(desk.get().await.0, "token-1");
    assert_eq!((desk.get().await.0.as_str(), desk.asked()), ("token-2", 2));
}
