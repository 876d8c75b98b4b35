//! Response bodies: one piece of data, then trailers if there are any.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};

use super::streams::Stream;

/// A small response body.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl Reply {
    pub(super) fn new(data: impl Into<Bytes>) -> Self {
        Self { data: data.into(), trailers: None }
    }

    pub(super) fn with_trailers(data: impl Into<Bytes>, trailers: HeaderMap) -> Self {
        Self { data: data.into(), trailers: Some(trailers) }
    }
}

/// Bytes of an answer. Its stream is open for as long as they are kept.
struct Last {
    bytes: Bytes,
    _stream: Stream,
}

impl AsRef<[u8]> for Last {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn last(bytes: &[u8], stream: Stream) -> Bytes {
    Bytes::from_owner(Last { bytes: Bytes::copy_from_slice(bytes), _stream: stream })
}

/// Keeps the stream open until the last frame of its answer was sent. HTTP/2 lets clients take their time to read, and
/// the frames wait in memory.
pub(super) fn keep_open(mut response: Response<Reply>, stream: Stream) -> Response<Reply> {
    let Reply { data, trailers } = response.body_mut();
    let value = match trailers {
        None if !data.is_empty() => {
            *data = last(data, stream);
            return response;
        }
        Some(trailers) => trailers.values_mut().next(),
        None => response.headers_mut().get_mut(CONTENT_TYPE),
    };
    if let Some(value) = value
        && let Ok(mut kept) = HeaderValue::from_maybe_shared(last(value.as_bytes(), stream))
    {
        // Otherwise header compression remembers the value, and the stream with it.
        kept.set_sensitive(true);
        *value = kept;
    }
    response
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.data.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.data)))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}
