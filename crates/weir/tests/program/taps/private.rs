//! Telemetry, and what names something of it, is shown to those who may see it.

use std::collections::BTreeSet;

use super::*;
use crate::advice::all_sources;

/// What is beside the metrics, too, for whoever reaches that port. All other routes are of the admin port alone.
const OPEN: [&str; 6] = ["/", "/metrics", "/api/now", "/api/history", "/health/pipelines", "/health/changes"];

/// Routes whose paths are no texts: the page's own files, and pages of other ports.
const WITHOUT_TEXT: [&str; 3] = ["path, File", "LIVE, ", "node::PAGE, "];

/// What is said where nothing is.
const NOTHING: &str = "nothing is at this path";

/// The paths of all routes, as the sources have them: a new one is not forgotten.
fn paths() -> BTreeSet<String> {
    let sources = all_sources();
    let calls = sources.iter().flat_map(|(_, source)| source.split("Route::new(").skip(1));
    let (texts, others): (Vec<&str>, Vec<&str>) =
        calls.filter_map(|call| call.trim_start().lines().next()).partition(|call| call.starts_with('"'));
    let is_known = |call: &&str| WITHOUT_TEXT.iter().any(|known| call.starts_with(*known));
    assert!(others.iter().all(is_known), "write the path of a route as a text: {others:?}");
    texts.iter().filter_map(|call| call.split('"').nth(1)).map(str::to_owned).collect()
}

fn asking(method: &str, path: &str, fields: &str) -> Vec<u8> {
    http::head(method, path, JSON, &format!("content-length: 0\r\n{fields}"))
}

#[tokio::test]
async fn with_a_token_nothing_but_the_page_is_for_everybody() {
    let sink = sink("{}").await;
    let directory = tempfile::TempDir::new().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "good\n").unwrap();
    let weir = Weir::start(&manifest("shop", sink.grpc), &["--admin-token-file", tokens.to_str().unwrap()]).await;
    let port = admin(&weir);
    for path in ["/", "/page.js", "/page.css"] {
        assert_eq!(http::get(port, path).await.status, 200, "{path}");
    }
    let paths = paths();
    assert!(OPEN.iter().all(|open| paths.contains(*open)) && paths.len() > 15, "{paths:?}");
    for path in paths.iter().filter(|path| *path != "/") {
        // It stands for all that is below it.
        let path = if path.ends_with('/') { format!("{path}1") } else { path.clone() };
        for method in ["GET", "POST", "DELETE"] {
            for fields in ["", "authorization: Bearer wrong\r\n"] {
                let refused = exchange(port, &asking(method, &path, fields)).await;
                assert_eq!(refused.status, 401, "{method} {path} {fields}");
            }
            let answer = exchange(port, &asking(method, &path, "authorization: Bearer good\r\n")).await;
            assert!(answer.status != 401 && !answer.text().contains(NOTHING), "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn beside_the_metrics_nothing_is_that_is_not_for_everybody() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    for path in paths().iter().filter(|path| !OPEN.contains(&path.as_str())) {
        let path = if path.ends_with('/') { format!("{path}1") } else { path.clone() };
        let answer = exchange(weir.metrics, &asking("GET", &path, "")).await;
        assert!(answer.status == 404 && answer.text().contains(NOTHING), "{path}: {answer:?}");
        for method in ["POST", "DELETE"] {
            let refused = exchange(weir.metrics, &asking(method, &path, "")).await;
            // As for any other path there.
            assert_eq!((refused.status, refused.header("allow")), (405, "GET, HEAD"), "{method} {path}: {refused:?}");
        }
    }
}
