//! Asks the admin port of a running process: for the commands that show what it does.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use weir_plan::Secret;

use crate::security;

/// The admin port of a process on this machine that was not told otherwise.
pub(crate) const URL: &str = "http://127.0.0.1:55679";
/// A connection, and each read of it, takes at most so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest page that is read.
const MOST_BYTES: u64 = 256 << 20;

/// Whom to ask.
#[derive(Args, Debug)]
pub(crate) struct AdminArgs {
    /// The admin port of a running process; of a pod, use `kubectl port-forward`
    #[arg(long, default_value = URL, value_name = "URL")]
    url: String,
    /// A file with the token that the admin port asks for: that of `--admin-token-file`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl AdminArgs {
    /// # Errors
    /// When the token or the URL cannot be used.
    pub(crate) fn admin(&self) -> anyhow::Result<Admin> {
        Admin::new(&self.url, security::tokens(self.token_file.as_deref(), "--token-file")?.pop())
    }
}

/// The admin port of a process.
#[derive(Debug)]
pub(crate) struct Admin {
    /// Host and port.
    address: String,
    token: Option<Secret>,
}

impl Admin {
    /// # Errors
    /// When the URL is none.
    pub(crate) fn new(url: &str, token: Option<Secret>) -> anyhow::Result<Self> {
        let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        if address.contains('/') || !address.contains(':') {
            bail!("cannot use {url:?}: write it as http://HOST:PORT, with the port of --admin-port");
        }
        Ok(Self { address: address.to_owned(), token })
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
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").context("the answer is not HTTP")?;
        let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
        let status = head.split(' ').nth(1).unwrap_or_default();
        let error = || serde_json::from_slice::<Value>(body).ok()?["error"].as_str().map(str::to_owned);
        match (status, error()) {
            ("200" | "204", _) => Ok(body.to_vec()),
            ("401", _) if self.token.is_none() => bail!("it wants a token: name the file with it with --token-file"),
            ("401", _) => {
                bail!("it takes another token: give the file that is its --admin-token-file, or the last line of it")
            }
            ("404", None) => bail!("it has no page {path}: is it the admin port?"),
            (_, Some(error)) => bail!("{error}"),
            (_, None) => bail!("it answered {status}: {}", String::from_utf8_lossy(body).trim_end()),
        }
    }

    /// In HTTP/1.0, so that the answer ends with the connection.
    fn ask(&self, method: &str, path: &str, document: Option<&Value>) -> anyhow::Result<Vec<u8>> {
        let address = &self.address;
        let found = address.to_socket_addrs().with_context(|| format!("cannot find {address}"))?.next();
        let found = found.ok_or_else(|| anyhow!("{address} has no address"))?;
        let mut stream = TcpStream::connect_timeout(&found, PATIENCE)
            .with_context(|| format!("nothing answers at {address}: is it the admin port of a running `weir run`?"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\n");
        if let Some(token) = &self.token {
            let _ = write!(request, "authorization: Bearer {}\r\n", token.reveal());
        }
        let content = document.map_or_else(String::new, Value::to_string);
        if document.is_some() {
            let _ = write!(request, "content-type: application/json\r\ncontent-length: {}\r\n", content.len());
        }
        stream.write_all(format!("{request}\r\n{content}").as_bytes())?;
        let mut answer = Vec::new();
        stream.take(MOST_BYTES).read_to_end(&mut answer).with_context(|| format!("{address} does not answer"))?;
        Ok(answer)
    }
}

/// A number on a page; 0 if there is none.
pub(crate) fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_default()
}

/// A time on a page, if it is one.
pub(crate) fn moment(of: &Value) -> Option<Timestamp> {
    of.as_str()?.parse().ok()
}

/// All of what a page counts by reason.
pub(crate) fn sum(of: &Value) -> u64 {
    of.as_object().into_iter().flat_map(|reasons| reasons.values()).map(number).sum()
}

fn as_json(path: &str, page: &[u8]) -> anyhow::Result<Value> {
    serde_json::from_slice(page).with_context(|| format!("{path} is not JSON: is it the admin port?"))
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
        assert_eq!(said(b"220 mail"), "the answer is not HTTP");
        assert!(Admin::new("https://localhost:1/x", None).unwrap_err().to_string().contains("http://HOST:PORT"));
    }
}
