//! Requests to the API server.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use tokio::time::timeout;

use crate::client::{retry_after, words};
use crate::operator::object::ObjectKey;
use crate::operator::object::kinds::{self, Kind};

/// A request that takes longer has failed. One that is throttled is answered, too.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("{}", words(.0))]
    Api(#[from] kube::Error),
    /// Another leads by now, or may.
    #[error("this process does not lead any more")]
    NotLeading,
}

impl RequestError {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// What is refused is that a field changes which never can; a value that is wrong would be refused again.
    pub(crate) fn is_immutable(&self) -> bool {
        let says = |text: &str| text.contains("immutable") || text.contains("cannot change roleRef");
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 422 && says(&status.message))
    }

    /// It was judged, by the API server or a webhook, and may be refused again. To be too busy is no judgement.
    pub(crate) fn is_refusal(&self) -> bool {
        self.code().is_some_and(|code| !matches!(code, 408 | 409 | 429 | 503 | 504))
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// How long the API server wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api(error) => retry_after(error),
            _ => None,
        }
    }
}

/// Waits for a request, but not for ever.
pub(crate) async fn request<T>(asked: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
    Ok(timeout(PATIENCE, asked).await.map_err(|_| RequestError::Timeout)??)
}

/// What the client needs to know of a kind.
pub(crate) fn resource((api_version, kind): Kind) -> ApiResource {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &kinds::plural(kind))
}

/// Where an object is.
pub(crate) fn api_of(client: &Client, key: &ObjectKey) -> Api<DynamicObject> {
    let resource = resource((key.api_version, key.kind));
    match &key.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
