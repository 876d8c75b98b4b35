//! Asks a token server by the client-credentials grant (RFC 6749 4.4). The caller decides when.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, PROXY_AUTHORIZATION};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::Semaphore;
use weir_legible::line;
use weir_plan::{OAuth2, Protocol, Tls};

use super::{Grant, Granting, Issuer};
use crate::budget::{Budget, OVERHEAD_BYTES};
use crate::export::Target;
use crate::export::answer::{self, MAX_ANSWER_BYTES, ROOM_BYTES};
use crate::export::connections::HTTP1_BUFFER;
use crate::export::dial::{Connector, Dial};
use crate::export::outcome::{MAX_MESSAGE_CHARS, message_of};
use crate::export::proxy::Proxy;
use crate::export::resolve;
use crate::settings;

/// How long a token is taken to be valid if its server does not say so, or not in a way that can be understood.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);
/// A token is used for this long, whatever its server says: otherwise each request would ask for its own.
const SHORTEST_LIFE: Duration = Duration::from_secs(5);
/// No token is kept longer, whatever its server says.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long the token server may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Every request repeats the token, and every connection keeps a copy. Few servers take a head that is longer.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// What a form percent-encodes; a space becomes a plus sign.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*').remove(b' ');

/// The token server of one backend.
#[derive(Debug)]
pub(super) struct TokenServer {
    dial: Arc<Dial>,
    target: Target,
    proxy_authorization: Option<HeaderValue>,
    settings: OAuth2,
    /// Pays for one answer at a time. All other memory may belong to requests that wait for the token.
    room: Budget,
}

/// The answer of a token server (RFC 6749 5.1).
#[derive(serde::Deserialize)]
struct Answer {
    access_token: String,
    /// A number by the RFC; some servers write it as a text.
    #[serde(default)]
    expires_in: Value,
}

impl TokenServer {
    pub(super) fn new(settings: &OAuth2, proxy: &settings::Proxy) -> Result<Self, String> {
        // The URL may hold credentials: it is not shown.
        let uri: Uri = settings.token_url.parse().map_err(|error| format!("cannot use the token URL: {error}"))?;
        let secured = uri.scheme() == Some(&Scheme::HTTPS);
        let tls = secured.then(|| Tls { ca_pem: settings.ca_pem.clone(), ..Tls::default() });
        let config = crate::export::tls::client_config(tls.as_ref())?;
        let proxy = Proxy::find(proxy, &uri, Protocol::Http)?;
        let proxy_authorization = proxy.as_ref().and_then(Proxy::request_header).cloned();
        let dial = Arc::new(Dial::new(&uri, Box::new(resolve::System::new()), config, proxy));
        let room = Budget::new(ROOM_BYTES + OVERHEAD_BYTES);
        Ok(Self { dial, target: Target(uri), proxy_authorization, settings: settings.clone(), room })
    }

    async fn ask(&self) -> Result<Grant, String> {
        let addresses = Arc::new(self.dial.addresses().await?);
        let turns = Arc::new(Semaphore::new(1));
        let connector = Connector { dial: Arc::clone(&self.dial), addresses, first: 0, turns };
        // Tokens are needed seldom: no connection waits for the next one.
        let mut client = Client::builder(TokioExecutor::new());
        let client = client.pool_max_idle_per_host(0).http1_max_buf_size(HTTP1_BUFFER).build(connector);
        let response = client.request(self.request()?).await.map_err(|error| message_of(&error))?;
        if !response.status().is_success() {
            return Err(format!("the token server answered {}", response.status()));
        }
        // A longer answer is not read to its end: the connection is closed.
        let answer = answer::Answer::read(response, &self.room).await?;
        if answer.is_cut {
            return Err(format!("the answer is longer than {} KiB, or in very many pieces", MAX_ANSWER_BYTES / 1024));
        }
        grant(&answer.headers, &answer.body)
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let OAuth2 { client_id, client_secret, scopes, params, .. } = &self.settings;
        let mut form = String::from("grant_type=client_credentials");
        if !scopes.is_empty() {
            append(&mut form, "scope", &scopes.join(" "));
        }
        params.iter().for_each(|(name, value)| append(&mut form, name, value.reveal()));
        // RFC 6749 2.3.1: identifier and secret are form-encoded before they become basic credentials.
        let credentials = format!("{}:{}", encode(client_id.reveal()), encode(client_secret.reveal()));
        let basic = base64::engine::general_purpose::STANDARD.encode(credentials);
        let mut request = Request::post(self.target.0.clone())
            .header(AUTHORIZATION, format!("Basic {basic}"))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        if let Some(authorization) = &self.proxy_authorization {
            request = request.header(PROXY_AUTHORIZATION, authorization);
        }
        request.body(Full::new(Bytes::from(form))).map_err(|error| error.to_string())
    }
}

impl Issuer for TokenServer {
    fn issue(&self) -> Granting<'_> {
        Box::pin(async {
            let answered = tokio::time::timeout(TIMEOUT, self.ask()).await;
            let answered = answered.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())));
            answered.map_err(|cause| {
                // The URL may hold credentials. Its host is enough to find the culprit.
                let host = self.target.0.host().unwrap_or("the token server");
                line(&format!("cannot get a token from {host}: {cause}"), MAX_MESSAGE_CHARS)
            })
        })
    }
}

fn grant(headers: &HeaderMap, body: &[u8]) -> Result<Grant, String> {
    // The body may hold a token: its text never becomes part of a message.
    let answer: Answer = serde_json::from_slice(body).map_err(|_| {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("not given");
        format!("the answer is not a JSON object with access_token (its content type: {content_type})")
    })?;
    if answer.access_token.len() > MAX_TOKEN_BYTES {
        return Err(format!("the token is longer than {} KiB", MAX_TOKEN_BYTES / 1024));
    }
    let mut header = HeaderValue::try_from(format!("Bearer {}", answer.access_token))
        .map_err(|_| "the token has characters that HTTP does not allow".to_owned())?;
    header.set_sensitive(true);
    let life = life(&answer.expires_in).unwrap_or(DEFAULT_LIFE).clamp(SHORTEST_LIFE, LONGEST_LIFE);
    Ok(Grant { header, life })
}

/// Seconds, as a number or as a text.
fn life(expires_in: &Value) -> Option<Duration> {
    let seconds = match expires_in {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }?;
    let seconds = if seconds > LONGEST_LIFE.as_secs_f64() { LONGEST_LIFE.as_secs_f64() } else { seconds };
    Duration::try_from_secs_f64(seconds).ok()
}

fn append(form: &mut String, name: &str, value: &str) {
    form.push('&');
    form.push_str(&encode(name));
    form.push('=');
    form.push_str(&encode(value));
}

/// application/x-www-form-urlencoded.
fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string().replace(' ', "+")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn granted(body: &str) -> Result<(String, Duration), String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        let grant = grant(&headers, body.as_bytes())?;
        Ok((grant.header.to_str().unwrap().to_owned(), grant.life))
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(encode("aZ9-._* +&=%~/\n\u{e9}"), "aZ9-._*+%2B%26%3D%25%7E%2F%0A%C3%A9");
    }

    #[test]
    fn lives_are_bounded() {
        let life = |expires_in: &str| granted(&format!(r#"{{"access_token": "t"{expires_in}}}"#));
        for (expires_in, seconds) in [
            ("", 300),
            (r#", "expires_in": null"#, 300),
            (r#", "expires_in": 3600"#, 3600),
            (r#", "expires_in": "3600""#, 3600),
            (r#", "expires_in": " 3599.5 ""#, 3599),
            (r#", "expires_in": "an hour""#, 300),
            (r#", "expires_in": "NaN""#, 300),
            (r#", "expires_in": -1"#, 300),
            (r#", "expires_in": {}"#, 300),
            (r#", "expires_in": 0"#, 5),
            (r#", "expires_in": 18446744073709551615"#, 24 * 3600),
            (r#", "expires_in": "inf""#, 24 * 3600),
        ] {
            let granted = life(expires_in).map(|(header, life)| (header, life.as_secs()));
            assert_eq!(granted, Ok(("Bearer t".to_owned(), seconds)), "{expires_in}");
        }
    }

    fn token_server(address: std::net::SocketAddr) -> TokenServer {
        let secret = || weir_plan::Secret::new("hunter2");
        let oauth2 = OAuth2 {
            token_url: format!("http://{address}/hunter2"),
            client_id: secret(),
            client_secret: secret(),
            scopes: Vec::new(),
            params: Vec::new(),
            ca_pem: None,
        };
        TokenServer::new(&oauth2, &settings::Proxy::default()).unwrap()
    }

    /// What a server is understood to say that answers with `said`.
    async fn heard(said: &str) -> Result<Grant, String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = token_server(listener.local_addr().unwrap());
        let says = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            while socket.read_u8().await.unwrap() != b'\n' {}
            // It may not be read to its end.
            let _ = socket.write_all(format!("HTTP/1.1 200 OK\r\n{said}").as_bytes()).await;
            socket
        };
        let (granted, _socket) = tokio::join!(server.issue(), says);
        granted
    }

    /// Each of them takes some memory, however short it is.
    #[tokio::test]
    async fn an_answer_in_very_many_pieces_is_not_read() {
        let pieces = "1\r\n \r\n".repeat(20_000);
        let error = heard(&format!("transfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n")).await.unwrap_err();
        let expected = "cannot get a token from 127.0.0.1: the answer is longer than 64 KiB, or in very many pieces";
        assert_eq!(error, expected);
    }

    #[tokio::test]
    async fn tokens_are_not_longer_than_heads_may_be() {
        let answer = |bytes: usize, rest: usize| {
            let (token, rest) = ("t".repeat(bytes), "r".repeat(rest));
            let body = format!(r#"{{"access_token": "{token}", "refresh_token": "{rest}"}}"#);
            format!("content-length: {}\r\n\r\n{body}", body.len())
        };
        let token = heard(&answer(16 * 1024, 40 * 1024)).await.unwrap().header;
        assert_eq!(token.len(), 16 * 1024 + "Bearer ".len());
        for (long, error) in [
            (answer(16 * 1024 + 1, 0), "the token is longer than 16 KiB"),
            (answer(1, 64 * 1024), "the answer is longer than 64 KiB, or in very many pieces"),
        ] {
            assert_eq!(heard(&long).await.unwrap_err(), format!("cannot get a token from 127.0.0.1: {error}"));
        }
    }

    /// The clock stands still while anything is to be done: what has not happened by the limit never does.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = token_server(listener.local_addr().unwrap());
        let asked = tokio::time::Instant::now();
        let error = server.issue().await.unwrap_err();
        assert_eq!(error, "cannot get a token from 127.0.0.1: no answer within 10 s");
        assert_eq!(asked.elapsed(), TIMEOUT);
    }

    /// It may hold a token, or the credentials that it repeats.
    #[test]
    fn a_message_has_nothing_of_the_answer_but_its_content_type() {
        for body in ["<html>hunter2</html>", r#"{"token": "hunter2"}"#, r#"{"access_token": 7, "a": "hunter2"}"#, ""] {
            let expected =
                "the answer is not a JSON object with access_token (its content type: text/html; charset=utf-8)";
            assert_eq!(granted(body), Err(expected.to_owned()), "{body}");
        }
        let expected = "the token has characters that HTTP does not allow";
        assert_eq!(granted(r#"{"access_token": "hunter2\n"}"#), Err(expected.to_owned()));
    }
}
