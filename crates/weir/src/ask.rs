//! Asks the admin port of a running process: for the commands that show what it does.

mod connection;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use rustls::ClientConfig;
use serde_json::Value;
use weir_plan::{Identity, Secret, Tls};

use crate::security;
use connection::{connect, read_all};

/// The admin port of a process on this machine that was not told otherwise.
pub(crate) const URL: &str = "http://127.0.0.1:55679";
/// The largest page that is read.
const MOST_BYTES: u64 = 256 << 20;

/// Whom to ask.
#[derive(Args, Debug)]
pub(crate) struct AskArgs {
    /// The admin port of a running process; of a pod, use `kubectl port-forward`
    #[arg(long, default_value = URL, value_name = "URL")]
    url: String,
    #[command(flatten)]
    access: AccessArgs,
}

/// What it takes to be answered there.
#[derive(Args, Debug)]
pub(crate) struct AccessArgs {
    /// A file with the token that the admin port asks for: that of `--admin-token-file`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM certificates of the authorities that may have signed the admin port's certificate [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM certificate chain to show to the admin port
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM private key for --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl AskArgs {
    /// # Errors
    /// When the URL, the token or a certificate cannot be used.
    pub(crate) fn admin(&self) -> anyhow::Result<Admin> {
        self.access.admin(&self.url)
    }
}

impl AccessArgs {
    /// # Errors
    /// The same.
    pub(crate) fn admin(&self, url: &str) -> anyhow::Result<Admin> {
        let token = security::tokens(self.token_file.as_deref(), "--token-file")?.into_values().next_back();
        let mut admin = Admin::new(url, token)?;
        if url.starts_with("https://") {
            admin.tls = Some(Arc::new(self.tls()?));
        } else if self.ca.is_some() || self.cert.is_some() {
            bail!("--ca and --cert are for TLS: write the URL as https://HOST:PORT");
        }
        Ok(admin)
    }

    fn tls(&self) -> anyhow::Result<ClientConfig> {
        let ca_pem = self.ca.as_ref().map(|file| security::text(file, "--ca")).transpose()?.map(Arc::from);
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(Identity {
                cert_pem: security::text(cert, "--cert")?,
                key_pem: Secret::new(security::text(key, "--key")?),
            }),
            _ => None,
        };
        let tls = Tls { ca_pem, identity, insecure_skip_verify: false };
        weir_engine::client_config(Some(&tls)).map_err(|error| anyhow!("cannot use the certificates: {error}"))
    }
}

/// The admin port of a process.
#[derive(Debug)]
pub(crate) struct Admin {
    /// Host and port.
    address: String,
    token: Option<Secret>,
    tls: Option<Arc<ClientConfig>>,
}

impl Admin {
    /// # Errors
    /// When the URL is none.
    pub(crate) fn new(url: &str, token: Option<Secret>) -> anyhow::Result<Self> {
        let address = url.strip_prefix("http://").or(url.strip_prefix("https://")).unwrap_or(url).trim_end_matches('/');
        if address.contains('/') || !address.contains(':') {
            bail!(
                "cannot use {url:?}: write it as http://HOST:PORT or https://HOST:PORT, with the port of --admin-port"
            );
        }
        Ok(Self { address: address.to_owned(), token, tls: None })
    }

    /// A page as JSON.
    ///
    /// # Errors
    /// When nothing answers, or something else than a page.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        as_json(path, &self.get_bytes(path)?)
    }

    /// A page as it is.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn get_bytes(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        self.body(path, &self.ask("GET", path, None)?)
    }

    /// Sends a document, and returns the answer.
    ///
    /// # Errors
    /// The same, and when the process says that the document is wrong.
    pub(crate) fn post(&self, path: &str, document: &Value) -> anyhow::Result<Value> {
        as_json(path, &self.body(path, &self.ask("POST", path, Some(document))?)?)
    }

    /// # Errors
    /// The same.
    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.body(path, &self.ask("DELETE", path, None)?).map(drop)
    }

    /// The body of an answer that is OK.
    fn body(&self, path: &str, answer: &[u8]) -> anyhow::Result<Vec<u8>> {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| match self.tls {
            None => anyhow!("the answer is not HTTP: does it want https?"),
            Some(_) => anyhow!("the answer is not HTTP"),
        })?;
        let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
        let status = head.split(' ').nth(1).unwrap_or_default();
        let error = || serde_json::from_slice::<Value>(body).ok()?["error"].as_str().map(str::to_owned);
        match (status, error()) {
            ("200" | "204", _) => Ok(body.to_vec()),
            ("401", _) if self.token.is_none() => bail!("it wants a token: name the file with it with --token-file"),
            ("401", _) => {
                bail!("it takes another token: give the file that is its --admin-token-file, or the last line of it")
            }
            ("404", None) => bail!(wrong_port(&format!("it has no page {path}"))),
            (_, Some(error)) => bail!("{error}"),
            (_, None) => bail!("it answered {status}: {}", String::from_utf8_lossy(body).trim_end()),
        }
    }

    /// In HTTP/1.0, so that the answer ends with the connection.
    fn ask(&self, method: &str, path: &str, document: Option<&Value>) -> anyhow::Result<Vec<u8>> {
        let address = &self.address;
        let mut connection = connect(address, self.tls.as_ref())?;
        let mut request = format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\n");
        if let Some(token) = &self.token {
            let _ = write!(request, "authorization: Bearer {}\r\n", token.reveal());
        }
        let content = document.map_or_else(String::new, Value::to_string);
        if document.is_some() {
            let _ = write!(request, "content-type: application/json\r\ncontent-length: {}\r\n", content.len());
        }
        let cannot = || format!("{address} does not answer");
        connection.write_all(format!("{request}\r\n{content}").as_bytes()).with_context(cannot)?;
        read_all(&mut *connection, MOST_BYTES).with_context(cannot)
    }
}

/// What was found where the admin port was looked for, and what to look at.
pub(crate) fn wrong_port(found: &str) -> String {
    format!("{found}: is it the admin port of weir?")
}

/// How fast losses grow: the history without its points.
pub(crate) const LOSSES: &str = "/api/history?since=9999-01-01T00:00:00Z";

/// A number on a page; 0 if there is none.
pub(crate) fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_default()
}

/// A time on a page, if it is one.
pub(crate) fn moment(of: &Value) -> Option<Timestamp> {
    of.as_str()?.parse().ok()
}

/// Whole seconds since a time on a page; 0 if it is none.
pub(crate) fn seconds_since(of: &Value) -> u64 {
    let passed = moment(of).map(|at| Timestamp::now().duration_since(at).as_secs());
    passed.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default()
}

/// All of what a page counts by reason.
pub(crate) fn sum(of: &Value) -> u64 {
    of.as_object().into_iter().flat_map(|reasons| reasons.values()).map(number).sum()
}

fn as_json(path: &str, page: &[u8]) -> anyhow::Result<Value> {
    serde_json::from_slice(page).with_context(|| wrong_port(&format!("{path} is not JSON")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_no_page_say_what_to_do() {
        let [without, with] =
            [None, Some(Secret::new("abc"))].map(|token| Admin::new("http://localhost:1", token).unwrap());
        let said = |answer: &[u8]| without.body("/x", answer).unwrap_err().to_string();
        assert_eq!(without.body("/x", b"HTTP/1.0 200 OK\r\na: b\r\n\r\n{}").unwrap(), b"{}");
        let unauthorized = b"HTTP/1.1 401 Unauthorized\r\n\r\n";
        assert!(said(unauthorized).contains("it wants a token"));
        assert!(with.body("/x", unauthorized).unwrap_err().to_string().contains("another token"));
        assert!(said(b"HTTP/1.1 404 Not Found\r\n\r\n").contains("admin port"));
        assert_eq!(said(b"HTTP/1.1 410 Gone\r\n\r\n{\"error\":\"no tap 7\"}\n"), "no tap 7");
        assert_eq!(said(b"HTTP/1.1 503 Busy\r\n\r\ntry again\n"), "it answered 503: try again");
        assert_eq!(said(b"220 mail"), "the answer is not HTTP: does it want https?");
        assert!(Admin::new("http://localhost:1/x", None).unwrap_err().to_string().contains("http://HOST:PORT"));
    }
}
