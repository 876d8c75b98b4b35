//! Response bodies: one piece of data, then trailers if there are any.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

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
