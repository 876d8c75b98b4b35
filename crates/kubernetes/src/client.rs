//! How the API server is reached.

mod reads;

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use weir_legible::line_with_causes;

use reads::Ways;

/// A connection takes no longer.
const CONNECT: Duration = Duration::from_secs(5);

/// Every answer begins within this time: that to a watch at once, whatever there is to tell.
pub(crate) const BEGIN: Duration = Duration::from_secs(30);

/// A watch is silent for no longer: the API server says every minute how far it is.
const SILENCE: Duration = Duration::from_secs(150);

/// What is kept of an error that is no answer of the API server, in characters.
const MOST_CHARS: usize = 500;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {0}: {1}")]
    Kubeconfig(String, kube::config::KubeconfigError),
    /// The process is not in a cluster.
    #[error("this is no pod of a cluster: {0}; name a kubeconfig with --kubeconfig")]
    NotInCluster(kube::config::InClusterError),
    /// Neither a kubeconfig nor a cluster is known.
    #[error("cannot find a cluster: {0}; name a kubeconfig with --kubeconfig")]
    NoCluster(kube::config::InferConfigError),
    /// Certificates or the like.
    #[error("cannot make a client for the API server: {0}")]
    Client(kube::Error),
}

/// A client for the API server: that of a kubeconfig, or that of the cluster in which this process is a pod. Nothing is
/// asked of the server as yet.
///
/// # Errors
/// When it is not known where the API server is, or how to speak with it.
pub async fn client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let config = match kubeconfig {
        Some(path) => {
            let wrong = |error| ClientError::Kubeconfig(path.display().to_string(), error);
            let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(wrong)?
        }
        None => Config::incluster().map_err(ClientError::NotInCluster)?,
    };
    limited(config)
}

/// The same for a command of a person: without a kubeconfig, it is the one that kubectl would use.
///
/// # Errors
/// When it is not known where the API server is, or how to speak with it.
pub async fn client_of_user(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    match kubeconfig {
        Some(_) => client(kubeconfig).await,
        None => limited(Config::infer().await.map_err(ClientError::NoCluster)?),
    }
}

fn limited(mut config: Config) -> Result<Client, ClientError> {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    // Watches try again by themselves, and say so.
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    Ok(Client::new(Ways::new(config).map_err(ClientError::Client)?, namespace))
}

/// The words of the API server: what the client adds says everything twice. Where it said nothing, all causes.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => line_with_causes(other, MOST_CHARS),
    }
}

/// How long the API server wants to be left alone: a minute at most.
pub(crate) fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let asked = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    let is_throttled = matches!(status.code, 429 | 503);
    asked.or(is_throttled.then_some(1)).map(|seconds| Duration::from_secs(seconds.min(60).into()))
}
