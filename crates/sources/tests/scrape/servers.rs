//! Targets that go wrong, each beside one that does not.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, LocalSet};
use weir_testkit::{eventually, in_time};

use crate::{Agent, Target};

/// What comes of a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) then: Then,
}

/// What a server does when it has sent its answer.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    Close,
    Hang,
    /// Sends such bytes again and again, and rests in between.
    Go(Vec<u8>, Duration),
}

/// A target that answers as it is told, one request on each connection.
pub(crate) struct Server {
    pub(crate) url: String,
    hits: Arc<AtomicUsize>,
    has_turned: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// `script` says what request number n (from 0) is answered.
    pub(crate) async fn start(script: impl Fn(usize) -> Answer + Send + 'static) -> Self {
        Self::of(move |hit, _| script(hit)).await
    }

    /// Gives one answer until it is told to turn, and then the other. On a busy machine a scrape may be too late for its
    /// answer, so that nobody knows which request is the last one that needs the first.
    pub(crate) async fn turning(before: Answer, after: Answer) -> Self {
        Self::of(move |_, has_turned| if has_turned { after.clone() } else { before.clone() }).await
    }

    async fn of(script: impl Fn(usize, bool) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let hits = Arc::new(AtomicUsize::new(0));
        let has_turned = Arc::new(AtomicBool::new(false));
        let (counted, turns) = (Arc::clone(&hits), Arc::clone(&has_turned));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = script(counted.fetch_add(1, Ordering::SeqCst), turns.load(Ordering::SeqCst));
                // Whoever is not served goes away.
                tokio::spawn(async move { drop(serve(stream, answer).await) });
            }
        });
        Self { url, hits, has_turned, task }
    }

    pub(crate) fn turn(&self) {
        self.has_turned.store(true, Ordering::SeqCst);
    }

    /// Requests so far.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

async fn serve(stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    stream.write_all(&answer.bytes).await?;
    match answer.then {
        Then::Close => stream.shutdown().await,
        Then::Hang => pending().await,
        Then::Go(bytes, pause) => loop {
            stream.write_all(&bytes).await?;
            tokio::time::sleep(pause).await;
        },
    }
}

/// Exactly these bytes, and the end of the connection.
pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Answer {
    Answer { bytes: bytes.into(), then: Then::Close }
}

/// A page of this type.
pub(crate) fn typed(content_type: &str, body: &str) -> Answer {
    let length = body.len();
    raw(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
}

/// A page of text.
pub(crate) fn page(body: &str) -> Answer {
    typed("text/plain; version=0.0.4", body)
}

/// An answer without a page, with more lines of its head.
pub(crate) fn status(status: &str, fields: &str) -> Answer {
    raw(format!("HTTP/1.1 {status}\r\n{fields}content-length: 0\r\nconnection: close\r\n\r\n"))
}

/// A target that was well once fails for this reason from then on: `up` is 0, its series end, another target goes on, and
/// at no time there is more memory in use than `most`.
pub(crate) async fn fails_alone(interval: Duration, bad: Answer, reason: &str, most: usize) {
    let good = Target::start("good 1\n").await;
    let server = Server::turning(page("a 1\n"), bad).await;
    let agent = Agent::of(&[&good.url, &server.url], interval).await;
    agent.arrives("static a{} 1").await;
    agent.arrives("static up{} 1").await;
    server.turn();
    let mut peak = 0;
    eventually(reason, async || {
        peak = peak.max(agent.memory());
        agent.failure(&server.url).is_some_and(|words| words.contains(reason))
    })
    .await;
    agent.arrives("static a{} gone").await;
    agent.arrives("static up{} 0").await;
    good.now(200, "text/plain", "good 2\n");
    agent.arrives("static good{} 2").await;
    assert!(peak <= most, "{peak} bytes");
    in_time("the end of scraping", agent.scraper.stop()).await;
}

/// The same of many targets at once, in half a megabyte each.
pub(crate) async fn all_fail_alone(cases: Vec<(Answer, &'static str)>) {
    let here = LocalSet::new();
    let each = |(bad, reason)| here.spawn_local(fails_alone(Duration::from_millis(700), bad, reason, 512 << 10));
    let all: Vec<_> = cases.into_iter().map(each).collect();
    here.await;
    for ended in all {
        ended.await.unwrap();
    }
}

impl Agent {
    /// Why the last scrape of this target failed, if it did.
    pub(crate) fn failure(&self, url: &str) -> Option<String> {
        let all = self.board.all();
        let (_, last) = all.into_iter().find(|(of, _)| of == url)?;
        last.failure.map(|failure| failure.words)
    }

    /// Memory that payloads have now.
    pub(crate) fn memory(&self) -> usize {
        self.engine.view().snapshot().unwrap().memory.payloads().1
    }
}
