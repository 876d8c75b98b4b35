//! `weir tap PIPELINE --attributes`: which attributes recent items have, how many values each has, and what it takes.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;
use weir_loadtest::output::printed;

use super::Format;
use crate::ask::{Admin, number, seconds_since};
use crate::tables::{bytes, count, legible, legible_json, table, time};

/// Shows those of a pipeline, and ends.
pub(super) fn show(admin: &Admin, pipeline: &str, format: Format) -> anyhow::Result<ExitCode> {
    let page = admin.get(&format!("/api/attributes?pipeline={pipeline}"))?;
    let mut out = io::stdout().lock();
    printed(match format {
        Format::Text => text(&mut out, &page),
        Format::Json => writeln!(out, "{}", legible_json(&page.to_string())),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(out: &mut impl Write, page: &Value) -> io::Result<()> {
    let items = number(&page["items"]);
    if items == 0 {
        return writeln!(out, "Nothing has passed since the rules of this pipeline changed.");
    }
    let left_out = match number(&page["left_out"]) {
        0 => String::new(),
        left_out => format!("; {} more had no room here", count(left_out, "attribute")),
    };
    let (shown, ago, size) = (count(items, "recent item"), time(seconds_since(&page["since"])), &page["bytes"]);
    writeln!(out, "{shown}, the oldest {ago} ago, {} with all that is around them{left_out}", bytes(number(size)))?;
    let attributes = page["attributes"].as_array().into_iter().flatten();
    table(out, ["key", "of", "items", "values", "bytes"], attributes.map(row))
}

fn row(attribute: &Value) -> [String; 5] {
    let [key, of] = ["key", "of"].map(|field| legible(attribute[field].as_str().unwrap_or("-")));
    let [items, values, size] = ["items", "values", "bytes"].map(|field| number(&attribute[field]));
    [key, of, items.to_string(), values.to_string(), bytes(size)]
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_attribute_is_a_row_in_the_order_of_the_page() {
        let attribute = |key: &str, of: &str, values: u64| json!({"key": key, "of": of, "items": 4, "values": values, "bytes": 2048});
        let page = json!({"since": Timestamp::now().to_string(), "items": 4, "bytes": 4096, "left_out": 7,
            "attributes": [attribute("user\u{1b}", "span", 3), attribute("service.name", "resource", 1)]});
        let mut out = Vec::new();
        text(&mut out, &page).unwrap();
        let expected = "\
4 recent items, the oldest 0s ago, 4.0 KiB with all that is around them; 7 attributes more had no room here

KEY                 OF  ITEMS  VALUES    BYTES
user              span      4       3  2.0 KiB
service.name  resource      4       1  2.0 KiB
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        text(&mut out, &json!({"since": null, "items": 0, "attributes": []})).unwrap();
        assert_eq!(out, b"Nothing has passed since the rules of this pipeline changed.\n");
    }
}
