//! Diagnostics as a person sees them.

use weir_resources::{Source, load};

use crate::options;

fn render(text: &str, color: bool) -> String {
    let report = load(&[Source { name: "x.yaml".to_owned(), text: text.to_owned() }], &options())
        .expect_err("the text has mistakes");
    report.iter().map(|diagnostic| diagnostic.render(text, color)).collect::<Vec<_>>().join("\n")
}

const TEXT: &str = "apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata:
  name: x
spec:
  output:
    otlp:
      protocol: grcp
      endpoint: {value: 4317}
      headers:
        - nmae: x-token
          value: hunter2
        - value: \"hunter2\"
      pasword: hunter2
";

#[test]
fn the_line_and_a_caret() {
    let expected = r#"error: spec.output.otlp.protocol: "grcp" is not a protocol
 --> x.yaml:8:17
  |
8 |       protocol: grcp
  |                 ^^^^ expected one of: grpc, http (did you mean "grpc"?)

error: spec.output.otlp.endpoint.value: found the number 4317
 --> x.yaml:9:25
  = expected a string: put the value in quotes

error: spec.output.otlp.headers[0].name: is required
  --> x.yaml:11:11
   |
11 |         - nmae: ***
   |           ^

error: spec.output.otlp.headers[0].nmae: unknown field
  --> x.yaml:11:11
   |
11 |         - nmae: ***
   |           ^^^^ expected one of: name, prefix, value, valueFrom (did you mean "name"?)

error: spec.output.otlp.headers[1].name: is required
  --> x.yaml:13:11
   |
13 |         - value: ***
   |           ^

error: spec.output.otlp.pasword: unknown field
  --> x.yaml:14:7
   |
14 |       pasword: ***
   |       ^^^^^^^ expected one of: endpoint, protocol, path, compression, headers, authentication, tls
"#;
    assert_eq!(render(TEXT, false), expected);
}

/// Elements of a list are one field; mappings in it, and what stands beside it, may be others.
#[test]
fn a_list_of_conditions_is_shown_unless_something_else_shares_its_line() {
    let text =
        |conditions: &str| TEXT.replace("  output:", &format!("  filter:\n  - conditions: {conditions}\n  output:"));
    let shown = |conditions: &str| render(&text(conditions), false);
    let expected = r#"
 --> x.yaml:7:19
  |
7 |   - conditions: ['isMatch(span.name, "a")']
  |                   ^^^^^^^
"#;
    let listed = shown(r#"['isMatch(span.name, "a")']"#);
    assert!(listed.contains(expected), "{listed}");
    for shared in [r#"['isMatch(span.name, "a")', password: hunter2]"#, r#"['isMatch(span.name, "a")', {p: hunter2}]"#]
    {
        assert!(!shown(shared).contains("hunter2"), "{}", shown(shared));
    }
}

#[test]
fn colour_adds_nothing_but_escape_sequences() {
    let coloured = render(TEXT, true);
    assert!(coloured.starts_with("\x1b[1;31merror\x1b[0m"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain += before;
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(plain + rest, render(TEXT, false));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let text = TEXT.replace("grcp", "\"gr\\ecp\t\u{85}\"");
    let shown = render(&text, false);
    assert!(shown.contains(r#""gr\u{1b}cp\t\u{85}" is not a protocol"#), "{shown}");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
}

#[test]
fn another_text_than_the_one_loaded_does_no_harm() {
    let report = load(&[Source { name: "x.yaml".to_owned(), text: TEXT.to_owned() }], &options()).unwrap_err();
    for text in ["", "\n", "short\n".repeat(20).as_str()] {
        for diagnostic in &report {
            assert!(diagnostic.render(text, false).contains("x.yaml:"));
        }
    }
}

#[test]
fn endless_mistakes_are_counted_not_listed() {
    let many: String = (0..2500).map(|i| format!("field{i}: a\n")).collect();
    let report = load(&[Source { name: "x.yaml".to_owned(), text: format!("{TEXT}{many}") }], &options()).unwrap_err();
    assert_eq!(report.diagnostics.len(), 1001);
    let last = &report.diagnostics[1000];
    assert_eq!((&*last.message, &*last.expected), ("1506 more problems are not shown", "1000 at most"));
}

#[test]
fn the_reason_of_a_condition() {
    let text = "apiVersion: telemetry.kyma-project.io/v1beta1
kind: MetricPipeline
metadata: {name: x}
spec:
  output:
    otlp:
      endpoint: {value: 'b:1'}
      tls:
        ca: {value: garbage}
";
    let report = load(&[Source { name: "x.yaml".to_owned(), text: text.to_owned() }], &options()).unwrap_err();
    let [error] = report.diagnostics.as_slice() else { panic!("{report}") };
    let place = "x.yaml:9:21: error: ";
    let plain = error.to_string();
    let finding = plain.strip_prefix(place).unwrap();
    assert!(finding.starts_with("spec.output.otlp.tls.ca.value: TLS configuration invalid: "), "{finding}");
    assert_eq!(format!("{error:#}"), format!("{place}metrics/x: TLSConfigurationInvalid: {finding}"));
    let rendered = error.render(text, false);
    assert!(rendered.ends_with("  = condition TLSConfigurationInvalid of metrics/x\n"), "{rendered}");
}
