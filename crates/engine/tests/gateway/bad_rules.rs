//! Rules that are hostile or broken: refused with their place when they are checked or taken up, harmless when they run.

use std::fmt::Write;

use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::grpc::{OK, frame};
use weir_testkit::metrics::whole;
use weir_testkit::signals::{document, encoded, items};

use crate::support::{Gateway, settings};

/// Each signal, and what the context of its items is called.
const ITEMS: [(Signal, &str); 3] = [(Signal::Traces, "span"), (Signal::Metrics, "datapoint"), (Signal::Logs, "log")];

/// Patterns on which an engine that backtracks would try in vain for ages; how many of the texts "aaaa...!" and "aaa"
/// each of them matches.
const CATASTROPHIC: [(&str, u64); 4] = [("(a+)+$", 1), ("(a|a)*$", 2), ("(.*a){12}$", 0), ("^(([a-z])+.)+[A-Z]$", 0)];

/// They match in linear time: that requests are answered at all is what is tested here. A pattern that comes with the
/// data is held to the limits of others.
#[tokio::test]
async fn patterns_that_explode_elsewhere_only_take_their_time() {
    for (signal, item) in ITEMS {
        let (ruled, plain) = (Backend::start().await, Backend::start().await);
        let mut rules = "  transform:\n  - statements:\n".to_owned();
        for (pattern, _) in CATASTROPHIC {
            let matches = format!("IsMatch(resource.attributes[\"text\"], \"{pattern}\")");
            writeln!(rules, "    - set({item}.attributes[\"hit\"], true) where {matches}").unwrap();
        }
        let theirs = format!("IsMatch({item}.attributes[\"team\"], resource.attributes[\"pattern\"])");
        writeln!(
            rules,
            "    - set({item}.attributes[\"hit\"], true) where resource.attributes[\"pattern\"] != nil and {theirs}\n    \
             - replace_pattern(resource.attributes[\"text\"], \"(a+)+b\", \"\") where {item}.attributes != nil\n  \
             filter:\n  - conditions: ['IsMatch(resource.attributes[\"text\"], \"^(a+)+$\") and {item}.attributes != nil']"
        )
        .unwrap();
        let documents =
            document(signal, "ruled", ruled.address, &rules) + &document(signal, "plain", plain.address, "");
        let gateway = Gateway::configured(&documents, settings()).await;

        let texts = [("text", "a".repeat(100_000) + "!"), ("text", "aaa".to_owned())];
        let patterns =
            [("pattern", "(".repeat(1_000)), ("pattern", "a".repeat(17 << 10)), ("pattern", "(x+x+)+y".into())];
        let of = |(key, value): &(&str, String)| encoded(signal, &[("service.name", "shop"), (key, value)], 1..2);
        let request: Vec<u8> = texts.iter().chain(&patterns).flat_map(of).collect();
        let each = items(signal, &request) / 5;
        let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
        assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
        gateway.settle().await;
        assert_eq!(plain.captured()[0].plain, request, "{signal:?}: others go on");
        assert_eq!(items(signal, &ruled.captured()[0].plain), 4 * each, "{signal:?}: one text matches the filter");

        let page = gateway.scrape().await;
        let figure = |name: &str, line: usize| {
            let signal = signal.name();
            let rule = format!("kind=\"transform_statement\",rule=\"0\",line=\"{line}\"");
            whole(page.get(&format!("{name}{{pipeline=\"ruled\",signal=\"{signal}\",{rule}}}"))) / each
        };
        let matched: Vec<_> = (0..4).map(|line| figure("weir_rule_matches_total", line)).collect();
        assert_eq!(matched, CATASTROPHIC.map(|(_, texts)| texts), "{signal:?}");
        let theirs = (figure("weir_rule_matches_total", 4), figure("weir_rule_errors_total", 4));
        assert_eq!(theirs, (0, 2), "{signal:?}: two of their patterns are refused");
    }
}
