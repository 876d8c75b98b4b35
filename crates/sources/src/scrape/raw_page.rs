//! A page as its target sends it, for people who want to know why it is read as it is. Nothing is fetched before somebody
//! asks, and then as a scrape fetches it, but in text. Only its beginning is kept.

use std::borrow::Cow;
use std::mem;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use weir_engine::{MemoryPart, Permit};
use weir_plan::CollectionIntervals;

use super::failure::FetchError;
use super::fetch::{Fetcher, patience};
use super::negotiation::{Compressed, TEXTS, format};
use super::page::Format;
use super::scraper::{BODY_LIMIT, interval_of};
use super::target::{Target, shown};
use crate::download::{DownloadError, clipped};
use crate::inlet::reserve;

/// Bytes of a page that are kept at most.
pub const SHOWN_BYTES: usize = 256 << 10;

/// Reads pages for people, with what targets are scraped with.
#[derive(Debug, Clone)]
pub(crate) struct PageReader {
    pub(super) fetcher: Fetcher,
    /// Pays for what is kept of pages.
    pub(super) memory: MemoryPart,
    pub(super) intervals: CollectionIntervals,
}

/// The page of a target, which is read at once when that is wanted.
#[derive(Debug)]
pub struct Viewing {
    reader: PageReader,
    target: Target,
    patience: Duration,
}

/// What a target answered, whether that is a page of metrics or not.
#[derive(Debug, Default)]
pub struct RawPage {
    /// Of the answer; `None` if there was none.
    pub status: Option<StatusCode>,
    /// What the answer says of itself.
    pub content_type: Option<String>,
    /// How long it took until the page was there, or was not.
    pub took: Duration,
    /// Why a scrape would fail, as far as that is known before lines are read; or why nothing is shown.
    pub error: Option<String>,
    /// Bytes that came of it. Of a page that comes compressed, those that it has without that, if it can be inflated.
    pub bytes: usize,
    /// Its beginning.
    body: Vec<u8>,
    /// Nobody can read it as it is.
    is_compressed: bool,
    /// Pays for that.
    permit: Option<Permit>,
}

/// Why a scrape would fail, or why a page is not shown.
#[derive(Debug, thiserror::Error)]
enum RawPageError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("redirects to {0}: what another address answers is not shown")]
    Elsewhere(String),
    #[error("answered in protobuf although it was asked for text, so what is shown is none")]
    Protobuf,
    #[error(
        "compressed the page although it was asked not to, and to more than {} KiB, which is too long to be shown",
        SHOWN_BYTES >> 10
    )]
    Compressed,
}

impl PageReader {
    /// The page of a target that is scraped.
    pub(crate) fn viewing(&self, target: &Target) -> Viewing {
        let patience = patience(interval_of(target.job(), self.intervals));
        Viewing { reader: self.clone(), target: target.clone(), patience }
    }
}

impl Viewing {
    /// Where the page is.
    pub fn url(&self) -> &Uri {
        self.target.url()
    }

    /// Reads the page, for as long as a scrape may take. What came until then is shown, whatever went wrong.
    pub async fn read(self) -> RawPage {
        let (began, mut page) = (Instant::now(), RawPage::default());
        let deadline = began + self.patience;
        let read = timeout_at(deadline, self.fill(&mut page, deadline)).await;
        let read = read.unwrap_or_else(|_| Err(page.late(self.patience).into()));
        page.error = read.err().map(|error| error.to_string());
        page.took = began.elapsed();
        page.trim();
        page
    }

    async fn fill(&self, page: &mut RawPage, deadline: Instant) -> Result<(), RawPageError> {
        let Self { reader: PageReader { fetcher, memory, .. }, target, patience } = self;
        let (answer, url) = fetcher.follow(target, TEXTS, *patience).await?;
        if !is_at(target, &url) {
            return Err(RawPageError::Elsewhere(shown(&url.to_string())));
        }
        page.status = Some(answer.status());
        page.content_type =
            answer.headers().get(CONTENT_TYPE).map(|value| clipped(&String::from_utf8_lossy(value.as_bytes())));
        let verdict = verdict(&answer, &url);
        let compressed = Compressed::of(answer.headers())?;
        page.is_compressed = !compressed.is_none();
        page.permit = Some(reserve(memory, SHOWN_BYTES, deadline).await.ok_or(FetchError::NoMemory)?);
        page.body.reserve_exact(SHOWN_BYTES);
        page.take(answer.into_body()).await?;
        page.inflate(compressed).await?;
        verdict
    }
}

/// Whether an answer is of the target itself. Whoever writes what a target answers could otherwise have somebody shown what
/// Weir alone can reach.
fn is_at(target: &Target, url: &Uri) -> bool {
    let port = |url: &Uri| {
        url.port_u16().or(match url.scheme_str() {
            Some("https") => Some(443),
            _ => Some(80),
        })
    };
    (url.host(), port(url)) == (target.url().host(), port(target.url()))
}

/// Why a scrape takes no such answer, as far as its head says.
fn verdict(answer: &Response<Incoming>, url: &Uri) -> Result<(), RawPageError> {
    if answer.status() != StatusCode::OK {
        return Err(FetchError::of_status(answer.status(), url).into());
    }
    match format(answer.headers())? {
        Format::Text | Format::OpenMetrics => Ok(()),
        Format::Protobuf => Err(RawPageError::Protobuf),
    }
}

impl RawPage {
    /// Its beginning. What is not UTF-8 is replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Bytes that came and are not in the text.
    pub fn left_out(&self) -> usize {
        self.bytes - self.body.len()
    }

    /// What there was no time for.
    fn late(&self, patience: Duration) -> FetchError {
        if self.status.is_none() { FetchError::Silent(patience) } else { FetchError::Slow(patience) }
    }

    /// Keeps the beginning, and counts all of it.
    async fn take(&mut self, mut page: Incoming) -> Result<(), FetchError> {
        while let Some(frame) = page.frame().await {
            let broken = |error| FetchError::of_page(DownloadError::Broken(error, self.bytes), BODY_LIMIT);
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            let room = SHOWN_BYTES - self.body.len();
            self.body.extend_from_slice(&data[..data.len().min(room)]);
            self.bytes += data.len();
            if self.bytes > BODY_LIMIT {
                return Err(FetchError::TooLarge(BODY_LIMIT));
            }
        }
        Ok(())
    }

    /// Undoes compression, for which all of the page has to be there.
    async fn inflate(&mut self, compressed: Compressed) -> Result<(), RawPageError> {
        if !self.is_compressed {
            return Ok(());
        }
        let is_whole = self.left_out() == 0;
        let body = mem::take(&mut self.body);
        let permit = self.permit.take().filter(|_| is_whole).ok_or(RawPageError::Compressed)?;
        let (page, permit) = compressed.undo(body, permit, BODY_LIMIT).await?;
        (self.bytes, self.body, self.permit) = (page.len(), page, Some(permit));
        self.body.truncate(SHOWN_BYTES);
        self.is_compressed = false;
        Ok(())
    }

    /// Ends with a whole line, if not with the page, and gives back what was not needed.
    fn trim(&mut self) {
        if self.is_compressed {
            self.body.clear();
        }
        if self.left_out() > 0
            && let Some(end) = memchr::memrchr(b'\n', &self.body)
        {
            self.body.truncate(end + 1);
        }
        self.body.shrink_to_fit();
        if let Some(permit) = &mut self.permit {
            permit.shrink_to(self.body.capacity());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(body: &str, bytes: usize) -> RawPage {
        let mut page = RawPage { bytes, body: body.as_bytes().to_vec(), ..RawPage::default() };
        page.trim();
        page
    }

    #[test]
    fn a_page_that_is_not_whole_ends_with_a_whole_line() {
        let shown = |page: RawPage| (page.text().into_owned(), page.left_out());
        assert_eq!(shown(page("a 1\nb 2", 7)), ("a 1\nb 2".to_owned(), 0));
        assert_eq!(shown(page("a 1\nb 2", 9)), ("a 1\n".to_owned(), 5));
        assert_eq!(shown(page("{\"a\"", 9)), ("{\"a\"".to_owned(), 5), "and one of a single line is shown");
    }

    #[test]
    fn what_another_address_answers_is_not_shown() {
        let target = Target::new("http://10.0.0.1:9100/metrics", crate::scrape::Job::Static).unwrap();
        let is_at = |url: &str| is_at(&target, &url.parse().unwrap());
        assert!(is_at("http://10.0.0.1:9100/other?a=b") && is_at("https://10.0.0.1:9100/"));
        assert!(!is_at("http://10.0.0.1/metrics") && !is_at("http://169.254.169.254:9100/metrics"));
    }
}
