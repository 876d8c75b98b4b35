//! Options of runtime metrics.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use http::Uri;

const RUNTIME: &str = "Runtime metrics, for MetricPipelines with runtime input";

/// Where runtime metrics come from.
#[derive(Args, Debug)]
pub(crate) struct RuntimeArgs {
    /// The kubelet of this node [default: https://NODE:10250, if --node-name or its default names the node]
    #[arg(long, help_heading = RUNTIME, value_name = "URL", value_parser = kubelet_url)]
    pub(crate) kubelet: Option<Uri>,
    /// A file with the token that the kubelet is sent, over TLS only; read again each time [default: that of the pod's
    /// service account, if there is one]
    #[arg(long, help_heading = RUNTIME, value_name = "FILE")]
    pub(crate) kubelet_token: Option<PathBuf>,
    /// PEM certificates of the authorities that must have signed that of the kubelet; read again each time [default: any
    /// certificate will do, as most kubelets have one that nobody signed]
    #[arg(long, help_heading = RUNTIME, value_name = "FILE")]
    pub(crate) kubelet_ca: Option<PathBuf>,
    /// Send metrics of cluster objects and of the status of resources; exactly one process per cluster should [default:
    /// on, but off in a pod]
    #[arg(long, help_heading = RUNTIME, value_enum, value_name = "WHETHER")]
    pub(crate) cluster_metrics: Option<Switch>,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

fn kubelet_url(text: &str) -> Result<Uri, String> {
    let url: Option<Uri> = text.parse().ok();
    let is_kubelet = |url: &Uri| {
        let has_scheme = matches!(url.scheme_str(), Some("http" | "https"));
        has_scheme && url.host().is_some_and(|host| !host.is_empty()) && matches!(url.path(), "" | "/")
    };
    url.filter(is_kubelet).filter(|url| url.query().is_none()).ok_or_else(|| "write https://HOST:PORT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::kubelet_url;

    #[test]
    fn a_kubelet_is_an_address_without_a_path() {
        for right in ["https://node-1:10250", "https://10.0.0.1:10250/", "http://[::1]:10255"] {
            assert!(kubelet_url(right).is_ok(), "{right}");
        }
        for wrong in
            ["", "node-1", "node-1:10250", "https://node-1:10250/pods", "https://node-1/?a", "ftp://node-1", "https://"]
        {
            assert!(kubelet_url(wrong).is_err(), "{wrong}");
        }
    }
}
