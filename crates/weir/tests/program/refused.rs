//! Answers that are not about the data never cost data: credentials, routes, proxies, throttling, pages for people, and
//! backends that refuse everything in whatever words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::backend::{Backend, Say};
use weir_testkit::clients::send_all;
use weir_testkit::data_dir::DataDir;
use weir_testkit::{eventually, http};

use crate::process::{Weir, manifest};

const REQUESTS: u64 = 12;

/// A backend that says this to everything while it is `away`.
async fn refusing(away: &Arc<AtomicBool>, said: Say) -> Backend {
    let away = Arc::clone(away);
    Backend::scripted(move |_, _| if away.load(Ordering::SeqCst) { said.clone() } else { Say::Ok }).await
}

/// What a backend says of itself is in the log once, and its end as well.
#[tokio::test]
async fn what_a_backend_says_is_told_once_and_so_is_its_end() {
    for (code, begins) in [(7, "backend refuses what it is sent"), (14, "backend does not take data now")] {
        let (dir, away) = (DataDir::new(), Arc::new(AtomicBool::new(true)));
        let backend = refusing(&away, Say::Code(code, "for a reason", None)).await;
        let manifest = manifest("backend", backend.address);
        let weir = Weir::start(&manifest, &["--data-dir", dir.arg(), "--spill-after", "10ms"]).await;
        send_all(weir.grpc, 0..REQUESTS, 100).await;
        let logged = |message: &str| {
            let lines = weir.logs().into_iter();
            lines.filter(|line| line["message"].as_str().unwrap().contains(message)).collect::<Vec<_>>()
        };
        eventually("it is logged", async || logged(begins).len() == 1).await;
        assert!(logged(begins)[0]["cause"].as_str().unwrap().contains("for a reason"), "{:?}", logged(begins));
        away.store(false, Ordering::SeqCst);
        eventually("its end is logged", async || logged("takes data again").len() == 1).await;
        assert_eq!(logged(begins).len(), 1);
    }
}

/// It is what somebody may put into any item, and backends quote items in their words.
#[tokio::test]
async fn what_a_backend_quotes_of_a_person_is_hidden_wherever_its_words_are_shown() {
    const SAID: &str = "user anna.smith@example.com of tenant shop may not write {user_password='hunter2'}";
    const SHOWN: &str = "user [redacted] of tenant shop may not write {user_password='[redacted]'}";
    let (dir, away) = (DataDir::new(), Arc::new(AtomicBool::new(true)));
    let backend = refusing(&away, Say::Code(7, SAID, None)).await;
    let options = ["--data-dir", dir.arg(), "--spill-after", "10ms", "--look-every", "500ms"];
    let weir = Weir::start(&manifest("backend", backend.address), &options).await;
    send_all(weir.grpc, 0..REQUESTS, 100).await;
    let hides = |text: &str| !text.contains("anna") && !text.contains("hunter");
    for path in ["/health/pipelines", "/api/now"] {
        let mut page = String::new();
        eventually("the backend's words are shown", async || {
            page = http::get(weir.metrics, path).await.text();
            page.contains(SHOWN)
        })
        .await;
        assert!(hides(&page), "{path}: {page}");
    }
    let cause = |line: &serde_json::Value| line["cause"].as_str().is_some_and(|cause| cause.contains(SHOWN));
    eventually("they are in the log", async || weir.logs().iter().any(cause)).await;
    weir.logs().iter().for_each(|line| assert!(hides(&line.to_string()), "{line}"));
}
