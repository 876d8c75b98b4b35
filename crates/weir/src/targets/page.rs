//! `weir targets --page`: the page of a target as the target sends it now.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use weir_loadtest::output::printed;

use super::{Format, words};
use crate::ask::{Admin, number};
use crate::tables::{bytes, legible, legible_json};

/// How often it is asked whether the page is there.
const EVERY: Duration = Duration::from_millis(100);
/// A target has much less time than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shows the page of the target that is meant, of these.
pub(super) fn show(
    admin: &Admin,
    targets: &Value,
    (wanted, redact): (&str, bool),
    format: Format,
) -> anyhow::Result<ExitCode> {
    let wish = json!({"target": number(&target(targets, wanted)?["id"]), "redact": redact});
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let read = runtime.block_on(async { timeout(PATIENCE, read(admin, &wish)).await });
    let page = read.context("the process does not say what it has read")??;
    printed(match format {
        Format::Text => page["text"].as_str().unwrap_or_default().lines().try_for_each(line),
        Format::Json => line(&legible_json(&page.to_string())),
    })?;
    if format == Format::Text {
        writeln!(io::stderr(), "{}", said(&page)).context("cannot write to standard error")?;
    }
    Ok(if page["error"].is_null() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{}", legible(text))
}

/// The target with this address, or else the only one with this in its address.
fn target<'a>(targets: &'a Value, wanted: &str) -> anyhow::Result<&'a Value> {
    let all = || targets["targets"].as_array().into_iter().flatten();
    if let Some(found) = all().find(|target| target["url"] == wanted) {
        return Ok(found);
    }
    let mut found = all().filter(|target| target["url"].as_str().is_some_and(|url| url.contains(wanted)));
    match (found.next(), found.count()) {
        (Some(only), 0) => Ok(only),
        (None, _) => bail!("no target has {wanted:?} in its address: `weir targets` shows all of them"),
        (Some(_), more) => bail!("{} targets have {wanted:?} in their addresses: write more of the one", more + 1),
    }
}

async fn read(admin: &Admin, wish: &Value) -> anyhow::Result<Value> {
    let path = format!("/api/pages/{}", admin.post("/api/pages", wish)?["page"]);
    loop {
        let page = admin.get(&path)?;
        if page["state"] != "reading" {
            return Ok(page);
        }
        sleep(EVERY).await;
    }
}

/// What is to be said of a page beside its text.
fn said(page: &Value) -> String {
    let status = page["status"].as_u64().map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let took = page["took_seconds"].as_f64().unwrap_or_default() * 1000.0;
    let head = format!("{}: {status}, {}, {took:.0}ms", words(page, "url"), words(page, "content_type"));
    let size = match number(&page["left_out_bytes"]) {
        0 => bytes(number(&page["bytes"])),
        left_out => format!("{}, of which the last {left_out} bytes are left out", bytes(number(&page["bytes"]))),
    };
    let error = page["error"].as_str().map_or_else(String::new, |error| format!("\n{}", legible(error)));
    format!("{}, {size}{error}", legible(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_by_its_address_or_what_no_other_has_in_it() {
        let of = |id: u64, url: &str| json!({"id": id, "url": url});
        let targets = json!({"targets": [of(1, "http://a/m"), of(2, "http://a/m/b"), of(3, "http://c/m")]});
        let id = |wanted: &str| target(&targets, wanted).map(|target| number(&target["id"]));
        assert_eq!((id("http://a/m").unwrap(), id("a/m/b").unwrap(), id("c/").unwrap()), (1, 2, 3));
        assert!(id("http://a").unwrap_err().to_string().starts_with("2 targets have \"http://a\" in their addresses"));
        assert!(id("d").unwrap_err().to_string().contains("`weir targets` shows all of them"));
    }

    #[test]
    fn what_is_left_out_or_wrong_is_said() {
        let page = json!({"url": "http://a/m", "status": 200, "content_type": "text/plain", "took_seconds": 0.0123,
            "bytes": 2048, "left_out_bytes": 0, "error": null});
        assert_eq!(said(&page), "http://a/m: 200, text/plain, 12ms, 2.0 KiB");
        let page = json!({"url": "http://a/m", "status": null, "content_type": null, "took_seconds": 1.0, "bytes": 0,
            "left_out_bytes": 0, "error": "cannot be reached: \u{1b}[31m"});
        assert_eq!(said(&page), "http://a/m: no answer, -, 1000ms, 0 B\ncannot be reached:  [31m");
        let page = json!({"url": "http://a/m", "status": 200, "content_type": "text/plain", "took_seconds": 0.0123,
            "bytes": 2048, "left_out_bytes": 1024, "error": null});
        assert!(said(&page).ends_with("2.0 KiB, of which the last 1024 bytes are left out"));
    }
}
