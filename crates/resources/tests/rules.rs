//! Every rule of the configuration, as data: `cases/*.txt` hold texts and exactly what is reported about them.
//!
//! A case is `=== NAME`, the text, and after `=>` the expected lines (none: it loads without a word). In a case whose
//! name starts with `otlp:` the text is what stands under `spec.output.otlp` of a pipeline in the current version
//! (`alpha:` in the older one): its first line is line 8 and it is indented by 6. The Secret `default/backend` is
//! always there.

use std::fs;
use std::path::Path;

use weir_resources::{Source, load};

const SECRET: &str = "---
apiVersion: v1
kind: Secret
metadata: {name: backend}
data: {binary: //79, wrapped: aHVu\tdGVy\n  Mg==}
stringData: {password: hunter2, line: \"hunter2\\n\", token: \"hunter2\\n\", unicode: hünter2, empty: '',
  endpoint: \"https://hunter2.example.com:4317/x\\n\"}
";

struct Case<'a> {
    name: &'a str,
    text: &'a str,
    expected: Vec<&'a str>,
}

fn cases(file: &str) -> Vec<Case<'_>> {
    let parse = |block| {
        let (name, rest) = str::split_once(block, '\n').expect("a case has a text");
        let (text, expected) = rest.split_once("=>\n").unwrap_or_else(|| panic!("{name}: no =>"));
        Case { name, text, expected: expected.lines().filter(|line| !line.is_empty()).collect() }
    };
    file.split("=== ").skip(1).map(parse).collect()
}

/// The text of a case as a whole file.
fn document(case: &Case<'_>) -> String {
    let version = match case.name.split_once(':') {
        Some(("otlp", _)) => "v1beta1",
        Some(("alpha", _)) => "v1alpha1",
        _ => return case.text.to_owned(),
    };
    let mut document = format!(
        "apiVersion: telemetry.kyma-project.io/{version}\nkind: TracePipeline\nmetadata:\n  name: x\nspec:\n  output:\n    otlp:\n"
    );
    for line in case.text.lines() {
        document += &format!("      {line}\n");
    }
    document + SECRET
}

fn reported(text: String) -> Vec<String> {
    let diagnostics = match load(&[Source { name: "x.yaml".to_owned(), text }]) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report.diagnostics,
    };
    diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn every_rule_reports_what_it_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut failures = String::new();
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let file = fs::read_to_string(entry.unwrap().path()).unwrap();
        for case in cases(&file) {
            count += 1;
            let reported = reported(document(&case));
            if reported != case.expected {
                failures += &format!("=== {}\n{}=>\n{}\n\n", case.name, case.text, reported.join("\n"));
            }
        }
    }
    assert!(count > 90, "only {count} cases found");
    assert!(failures.is_empty(), "these cases report something else now:\n{failures}");
}
