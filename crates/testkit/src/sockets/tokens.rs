//! Token servers of OAuth2 with faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_plan::{OAuth2, Secret};

use super::backend::{Backend, Say};

/// A token server that is ill at first.
pub struct TokenServer {
    /// What is asked for tokens.
    pub backend: Backend,
    well: Arc<AtomicBool>,
}

impl TokenServer {
    /// Answers everybody with `illness`, until it recovers.
    pub async fn ill(illness: Say) -> Self {
        let well = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&well);
        let backend = Backend::scripted(move |_, _| {
            if switch.load(Ordering::SeqCst) { Say::Json(r#"{"access_token": "t"}"#.into()) } else { illness.clone() }
        })
        .await;
        Self { backend, well }
    }

    /// It issues tokens from now on.
    pub fn recover(&self) {
        self.well.store(true, Ordering::SeqCst);
    }

    /// What a backend says that wants its tokens.
    pub fn oauth2(&self) -> OAuth2 {
        OAuth2 {
            token_url: format!("http://{}/", self.backend.address),
            client_id: Secret::new("id"),
            client_secret: Secret::new("secret"),
            scopes: Vec::new(),
            params: Vec::new(),
            ca_pem: None,
        }
    }
}

/// What a token server may do instead of issuing a token.
pub fn illnesses() -> [Say; 6] {
    [
        Say::Code(500, "down", None),
        Say::Code(302, "log in elsewhere", None),
        Say::Html("<html><body>Please log in</body></html>"),
        Say::Json(r#"{"token": "t"}"#.into()),
        Say::Json(r#"{"access_token": "a\nb"}"#.into()),
        Say::Nothing,
    ]
}
