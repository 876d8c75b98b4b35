//! Asking a token server by the client-credentials grant (RFC 6749 4.4). When to ask is decided by its caller.

use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use weir_plan::{OAuth2, Tls};

use super::{Grant, Granting, Issuer};

/// The life of a token whose server names none.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);
/// No token is kept longer, whatever its server says.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long the token server may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Token answers are small.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The token server of one backend.
#[derive(Debug)]
pub(super) struct TokenServer {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    settings: OAuth2,
}

/// The answer of a token server (RFC 6749 5.1).
#[derive(serde::Deserialize)]
struct Answer {
    access_token: String,
    expires_in: Option<u64>,
}

impl TokenServer {
    pub(super) fn new(settings: &OAuth2) -> Result<Self, String> {
        let tls = settings.token_url.starts_with("https:").then(Tls::default);
        let config = crate::export::tls::client_config(tls.as_ref())?;
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, settings: settings.clone() })
    }

    async fn ask(&self) -> Result<Grant, String> {
        let response = self.client.request(self.request()?).await.map_err(|error| crate::export::chain(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if !head.status.is_success() {
            return Err(format!("the token server answered {}", head.status));
        }
        grant(&head.headers, &body)
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let OAuth2 { client_id, client_secret, scopes, params, token_url } = &self.settings;
        let mut form = String::from("grant_type=client_credentials");
        if !scopes.is_empty() {
            append(&mut form, "scope", &scopes.join(" "));
        }
        params.iter().for_each(|(name, value)| append(&mut form, name, value.reveal()));
        // RFC 6749 2.3.1: identifier and secret are form-encoded before they become basic credentials.
        let credentials = format!("{}:{}", encode(client_id.reveal()), encode(client_secret.reveal()));
        let basic = base64::engine::general_purpose::STANDARD.encode(credentials);
        Request::post(token_url)
            .header(AUTHORIZATION, format!("Basic {basic}"))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(Full::new(Bytes::from(form)))
            .map_err(|error| error.to_string())
    }
}

impl Issuer for TokenServer {
    fn issue(&self) -> Granting<'_> {
        Box::pin(async {
            let answered = tokio::time::timeout(TIMEOUT, self.ask()).await;
            let answered = answered.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())));
            answered.map_err(|cause| {
                // The URL may hold credentials: its host is enough to find the culprit.
                let uri = self.settings.token_url.parse::<Uri>().unwrap_or_default();
                format!("cannot get a token from {}: {cause}", uri.host().unwrap_or("the token server"))
            })
        })
    }
}

fn grant(headers: &HeaderMap, body: &[u8]) -> Result<Grant, String> {
    // The body may hold a token: its text never becomes part of a message.
    let answer: Answer = serde_json::from_slice(body).map_err(|_| {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("not given");
        let content_type = crate::export::answer::shorten(content_type);
        format!("the answer is not a JSON object with access_token (its content type: {content_type})")
    })?;
    let mut header = HeaderValue::from_str(&format!("Bearer {}", answer.access_token))
        .map_err(|_| "the token has characters that HTTP does not allow".to_owned())?;
    header.set_sensitive(true);
    let life = answer.expires_in.map_or(DEFAULT_LIFE, Duration::from_secs).min(LONGEST_LIFE);
    Ok(Grant { header, life })
}

fn append(form: &mut String, name: &str, value: &str) {
    form.push('&');
    form.push_str(&encode(name));
    form.push('=');
    form.push_str(&encode(value));
}

/// application/x-www-form-urlencoded.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push_str(&format!("{byte:02X}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(body: &str) -> Result<(String, Duration), String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        let grant = grant(&headers, body.as_bytes())?;
        Ok((grant.header.to_str().unwrap().to_owned(), grant.life))
    }

    #[test]
    fn lives_are_bounded() {
        let life = |expires_in: &str| granted(&format!(r#"{{"access_token": "t"{expires_in}}}"#));
        for (expires_in, seconds) in
            [("", 300), (r#", "expires_in": 0"#, 0), (r#", "expires_in": 18446744073709551615"#, 24 * 3600)]
        {
            assert_eq!(life(expires_in), Ok(("Bearer t".to_owned(), Duration::from_secs(seconds))), "{expires_in}");
        }
    }

    /// The clock stands still while anything is to be done: what has not happened by the limit never does.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secret = || weir_plan::Secret::new("hunter2");
        let settings = OAuth2 {
            token_url: format!("http://{}/hunter2", listener.local_addr().unwrap()),
            client_id: secret(),
            client_secret: secret(),
            scopes: Vec::new(),
            params: Vec::new(),
        };
        let server = TokenServer::new(&settings).unwrap();
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
