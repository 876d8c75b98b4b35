//! Answers that are not about the data never cost data: credentials, routes, proxies, throttling, pages for people, and
//! backends that refuse everything in whatever words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::backend::{Backend, Say};
use weir_testkit::clients::send_all;
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;

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
