//! What judgements look like: the text of a terminal, and the section of a report.

use serde_json::Value;

use super::judgement::Judgement;
use super::published::Published;
use super::{isolation, plots, table};
use crate::report::history::{Entry, Figures};
use crate::report::{Finding, Kind, Row, Section, Table, Verdict};

/// Everything that a test has shown.
pub(crate) struct Shown<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) heading: &'a str,
    /// What is counted.
    pub(crate) items: &'a str,
    pub(crate) judgements: &'a [Judgement],
    /// Rows that are compared.
    pub(crate) pairs: &'a [(usize, usize)],
    /// Whether what stands beside each other is a system alone and the same beside sick neighbours.
    pub(crate) isolation: bool,
    pub(crate) published: &'a [Published],
}

impl Shown<'_> {
    /// The table, what the scenario was made for, and the doubts.
    pub(crate) fn text(&self) -> String {
        let mut text = table::render(self.judgements, self.pairs, self.published);
        for judgement in self.judgements {
            let failures = judgement.failures.iter().map(|failure| format!("FAILED: {failure}"));
            for line in judgement.facts.iter().chain(&judgement.warnings).cloned().chain(failures) {
                text += &format!("{}: {line}\n", judgement.label);
            }
        }
        for (system, goal) in self.goals() {
            text += &format!("{system}: {goal}\n");
        }
        text
    }

    /// The same and more: what was judged, all figures, and how they went over time.
    pub(crate) fn section(&self, rows: &[Figures], previous: Option<&Entry>, error: Option<&anyhow::Error>) -> Section {
        let mut findings: Vec<Finding> = self.judgements.iter().flat_map(findings).collect();
        findings.extend(self.goals().map(|(system, goal)| finding(Verdict::Fact, system, goal)));
        findings.extend(error.map(|error| finding(Verdict::Failed, "test", format!("{error:#}"))));
        Section {
            title: self.scenario.to_owned(),
            lead: self.heading.to_owned(),
            findings,
            tables: vec![
                table::html(self.judgements, self.pairs, self.published, previous),
                all_figures(self.judgements, rows),
            ],
            plots: plots::of(self.judgements, self.items),
        }
    }

    fn goals(&self) -> impl Iterator<Item = (&str, String)> {
        let pairs = self.judgements.chunks_exact(2).filter(|_| self.isolation);
        pairs.flat_map(|pair| {
            let goals = isolation::compare(&pair[0], &pair[1]);
            goals.into_iter().map(move |goal| (pair[1].kpis.system.as_str(), goal))
        })
    }
}

fn findings(judgement: &Judgement) -> Vec<Finding> {
    let label = &judgement.label;
    let mut findings = Vec::new();
    for check in &judgement.checks {
        let promise = &check.promise;
        findings.extend(
            check.failures.iter().map(|failure| finding(Verdict::Failed, label, format!("{promise}: {failure}"))),
        );
        if check.failures.is_empty() {
            let seen = if check.seen.is_empty() { String::new() } else { format!(": {}", check.seen) };
            findings.push(finding(Verdict::Passed, label, format!("{promise}{seen}")));
        }
    }
    findings.extend(judgement.warnings.iter().map(|doubt| finding(Verdict::Doubt, label, doubt.clone())));
    findings.extend(judgement.facts.iter().map(|fact| finding(Verdict::Fact, label, fact.clone())));
    findings
}

/// One finding.
pub(crate) fn finding(verdict: Verdict, subject: &str, text: String) -> Finding {
    Finding { verdict, subject: subject.to_owned(), text }
}

/// A row for each figure of `result.json`, and a column for each system.
fn all_figures(judgements: &[Judgement], rows: &[Figures]) -> Table {
    let labels = judgements.iter().map(|judgement| judgement.label.clone());
    let mut keys: Vec<&String> = rows.iter().flat_map(Figures::keys).collect();
    keys.sort_unstable();
    keys.dedup();
    let cell = |figures: &Figures, key: &str| figures.get(key).map_or_else(String::new, written);
    let row = |key: &&String| {
        let cells = rows.iter().map(|figures| cell(figures, key));
        Row { kind: Kind::Measured, cells: std::iter::once((*key).clone()).chain(cells).collect() }
    };
    Table {
        title: "All figures, as in result.json".to_owned(),
        folded: true,
        header: std::iter::once("figure".to_owned()).chain(labels).collect(),
        rows: keys.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Numbers as they are read.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.3}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::judgement::checks::Check;
    use super::*;

    #[test]
    fn every_promise_is_there_whether_it_was_kept_or_broken() {
        let checks = vec![
            Check::new("nothing is lost", "0 of 10", None),
            Check::new("memory is bounded", "9 of 5 MB", ["it used 9 MB".to_owned()]),
        ];
        let judgement = Judgement {
            label: "weir".to_owned(),
            failures: vec!["it used 9 MB".to_owned()],
            checks,
            warnings: vec!["busy".to_owned()],
            ..Judgement::default()
        };
        let shown = Shown {
            scenario: "traces",
            heading: "heading",
            items: "spans",
            judgements: &[judgement],
            pairs: &[],
            isolation: false,
            published: &[],
        };
        let section = shown.section(&[], None, Some(&anyhow::anyhow!("cannot start otelcol")));
        let texts: Vec<(Verdict, &str)> =
            section.findings.iter().map(|finding| (finding.verdict, finding.text.as_str())).collect();
        let expected = [
            (Verdict::Passed, "nothing is lost: 0 of 10"),
            (Verdict::Failed, "memory is bounded: it used 9 MB"),
            (Verdict::Doubt, "busy"),
            (Verdict::Failed, "cannot start otelcol"),
        ];
        assert_eq!(texts, expected);
        assert!(shown.text().contains("weir: busy\nweir: FAILED: it used 9 MB\n"), "{}", shown.text());
    }
}
