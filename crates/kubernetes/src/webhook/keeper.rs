//! Keeps the certificates: reads them from their Secret, renews what is due, takes up what others have renewed, and
//! tells the API server.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, PartialObjectMeta, PostParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use weir_legible::Seldom;

use super::registration::{MUTATING, VALIDATING, definitions, register, register_metrics};
use super::{Options, Webhook};
use crate::certificates::{CertificateError, Certificates, certified, due, renewed};
use crate::client::retry_after;
use crate::watch::{self, News, config};

/// The keys of the Secret.
pub(crate) const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
pub(crate) const SERVER: &str = "tls.crt";
const SERVER_KEY: &str = "tls.key";

/// How often everything is looked at although nothing is due. The clock may have been set.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// When something that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// When a watch that failed is tried again: the first time, and at the latest.
const RETRY_WATCH: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// For all that is to do at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a Secret is read again that somebody else has written at the same time.
const ATTEMPTS: usize = 5;
/// Changes within this time are looked at together: they come in groups, ours among them. And whoever writes against us
/// does not make us write faster.
const CALM: Duration = Duration::from_millis(500);

#[derive(Debug, Error)]
enum KeepError {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    #[error("the API server did not answer within {} s", PATIENCE.as_secs())]
    Timeout,
    #[error("Secret {0} is written by others all the time")]
    Contended(String),
}

impl KeepError {
    /// How long the API server wants to be left alone.
    fn asked(&self) -> Duration {
        match self {
            Self::Api(error) => retry_after(error).unwrap_or_default(),
            Self::Certificate(_) | Self::Timeout | Self::Contended(_) => Duration::ZERO,
        }
    }
}

pub(super) struct Keeper {
    client: Client,
    webhook: Arc<Webhook>,
}

impl Keeper {
    pub(super) fn new(client: Client, webhook: Arc<Webhook>) -> Self {
        Self { client, webhook }
    }

    /// Never ends.
    pub(super) async fn run(&self) {
        let changed = Notify::new();
        tokio::join!(follow(&self.client, &self.webhook.options, &changed), self.keep(&changed));
    }

    async fn keep(&self, changed: &Notify) {
        // Said once, not every few seconds.
        let (mut said, mut reported) = (String::new(), Seldom::default());
        loop {
            let settled = timeout(PATIENCE, self.settle()).await.unwrap_or(Err(KeepError::Timeout));
            let pause = match settled {
                Ok(pause) => {
                    said.clear();
                    pause
                }
                Err(error) => {
                    let (asked, error) = (error.asked(), error.to_string());
                    if said != error
                        && let Some(left_out) = reported.due(Instant::now())
                    {
                        tracing::warn!(
                            error,
                            left_out,
                            advice = "look whether the API server answers, and at the rights of this ServiceAccount",
                            "the webhooks are not set up; trying again"
                        );
                        said = error;
                    }
                    sleep(asked).await;
                    RETRY
                }
            };
            tokio::select! {
                () = changed.notified() => sleep(CALM).await,
                () = sleep(pause) => {}
            }
        }
    }

    /// Does what is due, and says how long there is nothing to do.
    async fn settle(&self) -> Result<Duration, KeepError> {
        let certificates = self.certificates().await?;
        let certificate = certified(&certificates)?;
        let current = &self.webhook.certificate;
        if current.get().is_none_or(|current| current.cert != certificate.cert) {
            current.set(certificate);
            tracing::info!("the webhooks have a new certificate");
        }
        self.register(&certificates.authorities).await?;
        Ok(due(&certificates).duration_since(SystemTime::now()).unwrap_or_default().clamp(RETRY, LOOK))
    }

    /// Tells the API server what it does not know. Nobody waits for metrics to be judged, so they keep no replica from being
    /// ready.
    async fn register(&self, authorities: &str) -> Result<(), kube::Error> {
        let options = &self.webhook.options;
        let registered = register(&self.client, options, authorities).await;
        if self.webhook.registered(&registered) {
            tracing::info!("the API server knows the webhooks");
        }
        registered.and(register_metrics(&self.client, options, authorities).await)
    }

    /// What the Secret has, renewed where that is due.
    async fn certificates(&self) -> Result<Certificates, KeepError> {
        let Options { namespace, secret: name, .. } = &self.webhook.options;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let names = self.webhook.options.names();
        for _ in 0..ATTEMPTS {
            let secret = api.get_opt(name).await?;
            let held = secret.as_ref().and_then(read);
            let Some(renewed) = renewed(held.as_ref(), &names, SystemTime::now())? else {
                if let Some(held) = held {
                    return Ok(held);
                }
                continue;
            };
            match write(&api, name, secret, &renewed).await {
                Ok(()) => return Ok(renewed),
                // Somebody else was faster.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(KeepError::Contended(format!("{namespace}/{name}")))
    }
}

fn read(secret: &Secret) -> Option<Certificates> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(Certificates {
        authorities: text(AUTHORITIES)?,
        authority_key: text(AUTHORITY_KEY)?,
        server: text(SERVER)?,
        server_key: text(SERVER_KEY)?,
    })
}

/// Writes certificates into the Secret, unless somebody has written it since it was read.
async fn write(
    api: &Api<Secret>,
    name: &str,
    found: Option<Secret>,
    certificates: &Certificates,
) -> Result<(), kube::Error> {
    let Certificates { authorities, authority_key, server, server_key } = certificates;
    let texts =
        [(AUTHORITIES, authorities), (AUTHORITY_KEY, authority_key), (SERVER, server), (SERVER_KEY, server_key)];
    let data: BTreeMap<_, _> =
        texts.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes()))).collect();
    let parameters = PostParams { field_manager: Some("weir-webhook".to_owned()), ..PostParams::default() };
    match found {
        Some(secret) => {
            let secret = Secret { data: Some(data), ..secret };
            api.replace(name, &parameters, &secret).await?;
        }
        None => {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let secret = Secret { metadata, data: Some(data), ..Secret::default() };
            api.create(&parameters, &secret).await?;
        }
    }
    tracing::info!(secret = name, "renewed the certificates of the webhooks");
    Ok(())
}

/// Tells when the Secret changes, or one of the objects that tell of the webhooks. Never ends.
async fn follow(client: &Client, options: &Options, changed: &Notify) {
    let definitions = definitions(options);
    let of_definitions = definitions
        .iter()
        .map(|name| follow_one::<CustomResourceDefinition>(Api::all(client.clone()), name, changed).boxed());
    let others = [
        follow_one::<Secret>(Api::namespaced(client.clone(), &options.namespace), &options.secret, changed).boxed(),
        follow_one::<ValidatingWebhookConfiguration>(Api::all(client.clone()), VALIDATING, changed).boxed(),
        follow_one::<MutatingWebhookConfiguration>(Api::all(client.clone()), MUTATING, changed).boxed(),
    ];
    join_all(of_definitions.chain(others)).await;
}

/// Only the metadata is kept: the rest is read when it is time.
async fn follow_one<K>(api: Api<PartialObjectMeta<K>>, name: &str, changed: &Notify)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let of_one = config().fields(&format!("metadata.name={name}"));
    let mut is_told = false;
    // Also of what was deleted while nobody watched: then everything is listed again.
    watch::follow(watch::events(api, of_one), RETRY_WATCH, drop, |news| match news {
        News::Change(_) => changed.notify_one(),
        News::Recovery => is_told = false,
        // That the API server is away is said by others.
        News::Failure(failure) if matches!(failure.code(), Some(401 | 403)) && !is_told => {
            is_told = true;
            let error = failure.words();
            tracing::warn!(
                watched = name,
                error,
                advice = "let the ServiceAccount of the operator list and watch it",
                "cannot watch; looking at it once an hour, and trying on"
            );
        }
        News::Failure(_) => {}
    })
    .await;
}
