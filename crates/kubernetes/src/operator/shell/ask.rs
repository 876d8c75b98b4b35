//! Asks every node how its pipelines stand.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout};

use super::world::World;
use crate::lease::Leadership;
use crate::node::{PAGE, most_page_bytes};
use crate::operator::flow::Common;
use crate::operator::names::METRICS_PORT;
use crate::operator::picture::{Answer, PodState};
use crate::operator::{Options, limits};

/// From one round to the next, unless there are more nodes than can be asked in it.
const EVERY: Duration = Duration::from_secs(5);
/// Nodes that are asked in a second at most: with more than 500 of them a round takes longer.
const A_SECOND: usize = 100;
/// From the end of a round to the next one, at least.
const REST: Duration = Duration::from_secs(1);
/// A node that takes longer has not answered in this round.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nodes that are asked at the same time.
const AT_ONCE: usize = 64;
/// Bytes of their pages that are read at the same time. One that is longer is read alone.
const BYTES_AT_ONCE: u32 = 32 << 20;
static ROOM: Semaphore = Semaphore::const_new(BYTES_AT_ONCE as usize);

/// So much is read of any page: nodes of earlier versions do not shorten theirs, and so much was read of them.
const LEAST_BYTES: usize = 2 << 20;

/// What is read of a page where so many pipelines can run.
fn most_bytes(pipelines: usize) -> usize {
    most_page_bytes(pipelines).max(LEAST_BYTES)
}

/// Asks all nodes in rounds, while this process leads.
pub(super) async fn every_node(world: Arc<World>, mut leadership: Leadership, options: Arc<Options>) {
    let mut next = Instant::now();
    let most_bytes = most_bytes(limits::most_pipelines(&options));
    loop {
        tokio::select! {
            () = sleep_until(next) => {}
            // Whoever begins to lead has to know at once.
            () = leadership.changed() => {}
        }
        let begins = Instant::now();
        next = begins + EVERY;
        // Whoever does not lead may be asked what pods say.
        if !leadership.leads() && options.pending.is_none() {
            continue;
        }
        let pods: Vec<_> =
            world.look(|seen| seen.pods.values().map(|pod| (pod.name.clone(), pod.ip.clone())).collect());
        next = begins + EVERY.max(Duration::from_secs((pods.len() / A_SECOND) as u64));
        let answers = stream::iter(pods).map(|(pod, ip)| async move { Some((pod, ask(&ip, most_bytes).await?)) });
        let answers = answers.buffer_unordered(AT_ONCE).filter_map(std::future::ready);
        let mut common = Common::default();
        let heard = answers.map(|(pod, mut answer): (String, Answer)| {
            let mut told = std::mem::take(&mut answer.pipelines);
            common.share(&mut told);
            world.look(|seen| seen.said.hear(&pod, told));
            (pod, answer)
        });
        let mut answers: BTreeMap<_, _> = heard.collect().await;
        if let Some(pending) = &options.pending {
            pending.set(&options.namespace, world.look(|seen| waiting(&seen.pods, &answers)), Instant::now());
        }
        // Nothing is decided by it.
        answers.values_mut().for_each(|answer| answer.waiting_bytes = 0);
        world.see_whether(|seen| seen.answer(answers));
        // After a round that took long there is a rest, too.
        next = next.max(Instant::now() + REST);
    }
}

/// What waits in each pod, with its application.
fn waiting(
    pods: &BTreeMap<String, PodState>,
    answers: &BTreeMap<String, Answer>,
) -> BTreeMap<String, (&'static str, u64)> {
    let said = answers.iter().filter_map(|(name, answer)| Some((name, pods.get(name)?, answer.waiting_bytes)));
    said.map(|(name, pod, bytes)| (name.clone(), (pod.workload.name(), bytes))).collect()
}

/// Nothing if the node cannot be reached, or says what is no answer: how its pod is says the API server.
async fn ask(ip: &str, most_bytes: usize) -> Option<Answer> {
    let address = SocketAddr::new(ip.parse::<IpAddr>().ok()?, METRICS_PORT);
    match timeout(PATIENCE, get(address, most_bytes, &ROOM)).await {
        // It is paid for until it is read. What is made of it is not, but only one is read at a time.
        Ok(Ok(page)) => {
            let answer = serde_json::from_slice(&page.text);
            if let Err(error) = &answer {
                tracing::debug!(%address, %error, "a node's answer cannot be read");
            }
            answer.ok()
        }
        Ok(Err(error)) => {
            tracing::debug!(%address, error, "cannot ask a node");
            None
        }
        Err(_) => {
            tracing::debug!(%address, "a node did not answer in time");
            None
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A page as it came.
#[derive(Debug)]
struct Page<'a> {
    text: Vec<u8>,
    /// Pays for the text.
    _paid: SemaphorePermit<'a>,
}

/// A page is paid for from the room before it is fetched: as long as it says that it is, or as any may be.
async fn get(address: SocketAddr, most_bytes: usize, room: &Semaphore) -> Result<Page<'_>, Failure> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(PAGE).header("host", address.to_string()).body(Empty::<Bytes>::new())?;
    let answer = async {
        let answer = sender.send_request(request).await?;
        if !answer.status().is_success() {
            return Err(format!("status {}", answer.status()).into());
        }
        let body = Limited::new(answer.into_body(), most_bytes);
        let said = body.size_hint().upper().and_then(|most| usize::try_from(most).ok());
        let most = said.unwrap_or(most_bytes);
        // All of it at once: pages of which each has half would wait for each other.
        let paid = room.acquire_many(u32::try_from(most).unwrap_or(u32::MAX).min(BYTES_AT_ONCE)).await?;
        Ok::<_, Failure>(Page { text: whole(body, most).await?, _paid: paid })
    };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => {
            ended?;
            // What arrived before the end is there.
            answer.await
        }
    }
}

/// All of a body, of at most so many bytes, in one buffer with room for them. A frame would keep what it was read into,
/// and takes some forty bytes beside; a frame may be a byte.
async fn whole<B: Body<Data = Bytes> + Unpin>(mut body: B, most: usize) -> Result<Vec<u8>, B::Error> {
    let mut text = Vec::with_capacity(most);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            text.extend_from_slice(&data);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use weir_observe::State;

    use super::*;
    use crate::node::page;
    use crate::operator::flow::Troubled;

    /// As many pipelines as run by default.
    const MOST_BYTES: usize = most_page_bytes(768);

    async fn served(response: impl AsRef<[u8]>) -> Result<Vec<u8>, Failure> {
        Ok(served_within(&ROOM, response).await?.text)
    }

    async fn served_within(room: &Semaphore, response: impl AsRef<[u8]>) -> Result<Page<'_>, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            let n = stream.read(&mut asked).await.unwrap();
            assert!(asked[..n].starts_with(b"GET /node HTTP/1.1\r\n"));
            drop(stream.write_all(response.as_ref()).await);
        };
        let ((), got) = tokio::join!(serve, get(address, MOST_BYTES, room));
        got
    }

    #[tokio::test]
    async fn answers_are_read_and_bounded() {
        let body = r#"{"revision":"ab","error":null,"later":1,"pipelines":[
            {"pipeline":"traces/shop","delivered":3,"verdict":{"roles":{"gateway":true,"agent":false},"delivers":true,
                "trouble":{"state":"some_dropped","since":7,"amounts":{"rejected":5},"kept":{"items":1}}}},
            {"pipeline":"traces/other","delivered":3},
            {"pipeline":"of/others","delivered":3}]}"#;
        let got = served(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await.unwrap();
        let answer: Answer = serde_json::from_slice(&got).unwrap();
        let trouble = |of: &Troubled| (of.trouble.state, of.trouble.amounts.rejected, of.roles.gateway);
        let told: Vec<_> =
            answer.pipelines.each().map(|(id, delivers, of)| (id.to_string(), delivers, of.map(trouble))).collect();
        let expected = [
            ("traces/other".to_owned(), false, None),
            ("traces/shop".to_owned(), true, Some((State::SomeDropped, 5, true))),
        ];
        assert_eq!((answer.revision.as_deref(), told.as_slice()), (Some("ab"), expected.as_slice()));
        assert!(served("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").await.is_err());
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(MOST_BYTES + 1));
        assert!(served(endless).await.is_err());
        assert!(served("nonsense\r\n\r\n").await.is_err());
    }

    #[tokio::test]
    async fn a_page_is_paid_for_before_it_is_fetched_and_until_it_is_read() {
        let room = Semaphore::new(1);
        let mut page = std::pin::pin!(served_within(&room, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}\n"));
        assert!(timeout(Duration::from_millis(200), &mut page).await.is_err(), "there is no room for it");
        room.add_permits(2);
        let page = timeout(10 * PATIENCE, page).await.unwrap().unwrap();
        assert_eq!((page.text.as_slice(), room.available_permits()), (b"{}\n".as_slice(), 0), "it is there");
        drop(page);
        assert_eq!(room.available_permits(), 3, "given back");
        let page = served_within(&room, "HTTP/1.1 200 OK\r\n\r\n{}");
        assert!(timeout(Duration::from_millis(200), page).await.is_err(), "it does not say how long it is");
    }

    /// A byte, and what tells whether it is still there.
    struct Crumb {
        _there: Arc<()>,
    }

    impl AsRef<[u8]> for Crumb {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    /// A frame that is kept takes forty times the room of its byte.
    #[tokio::test]
    async fn of_a_page_in_single_bytes_no_frame_is_kept() {
        let count = Arc::new(());
        let crumb = |_| {
            assert_eq!(Arc::strong_count(&count), 1, "those before are gone");
            Ok::<_, Infallible>(Frame::data(Bytes::from_owner(Crumb { _there: Arc::clone(&count) })))
        };
        let text = whole(StreamBody::new(stream::iter((0..1000).map(crumb))), 1000).await.unwrap();
        assert_eq!((text.as_slice(), text.capacity()), ([b'x'; 1000].as_slice(), 1000));
    }

    #[tokio::test]
    async fn a_page_in_single_bytes_is_read() {
        let page = page::tests::of_troubles(8, 'x');
        let mut response = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        response.extend(page.iter().flat_map(|byte| [b'1', b'\r', b'\n', *byte, b'\r', b'\n']));
        response.extend(b"0\r\n\r\n");
        assert_eq!(served(response).await.unwrap(), page);
    }

    #[test]
    fn pages_of_nodes_with_little_memory_are_read_as_before() {
        assert_eq!([1, 768].map(most_bytes), [2 << 20; 2]);
        assert_eq!(most_bytes(4096), most_page_bytes(4096));
    }

    /// A node is not silent when it has most to tell.
    #[tokio::test]
    async fn a_node_is_heard_of_which_every_pipeline_is_in_trouble() {
        let mut response = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        response.extend(page::tests::of_troubles(768, '\u{1f525}'));
        let answer: Answer = serde_json::from_slice(&served(response).await.unwrap()).unwrap();
        assert_eq!(answer.pipelines.each().filter(|(_, _, trouble)| trouble.is_some()).count(), 768);
    }
}
