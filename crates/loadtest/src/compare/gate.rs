//! A gate: how much worse than a baseline figures may be.
//!
//! A line for each rule, `SCENARIO FIGURE >= RATIO` or `<=`; a name may end in `*`. Behind `#` is a comment.

use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use serde::Serialize;

use super::figures;
use super::{Measured, Row, is_weir};

/// The rules of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gate {
    file: String,
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq)]
struct Rule {
    line: usize,
    scenario: String,
    figure: String,
    bound: Bound,
    ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Violation {
    /// Where the rule is.
    pub(crate) rule: String,
    pub(crate) scenario: String,
    pub(crate) system: String,
    pub(crate) figure: String,
    /// Of what was measured now, of the baseline, and of both.
    pub(crate) value: Option<f64>,
    pub(crate) baseline: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// As in `>= 0.9`.
    pub(crate) bound: String,
    pub(crate) text: String,
}

impl Gate {
    /// Reads a file; an error names file, line and field.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the gate {}", path.display()))?;
        Self::parse(&path.display().to_string(), &text)
    }

    fn parse(file: &str, text: &str) -> anyhow::Result<Self> {
        let mut rules = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default().trim();
            if !content.is_empty() {
                rules.push(Rule::parse(line, content).with_context(|| format!("cannot use the gate {file}:{line}"))?);
            }
        }
        ensure!(
            !rules.is_empty(),
            "cannot use the gate {file}: it has no rule, such as \"traces accepted_per_s >= 0.9\""
        );
        Ok(Self { file: file.to_owned(), rules })
    }

    /// What of Weir's figures breaks a rule. A rule about something that was not measured is broken, too, and so is one about
    /// what only the baseline has: nobody knows. `base`: all that was measured in the baseline.
    pub(crate) fn violations(&self, rows: &[Row], base: &[Measured]) -> Vec<Violation> {
        self.rules.iter().flat_map(|rule| self.violations_of(rule, rows, base)).collect()
    }

    fn violations_of(&self, rule: &Rule, rows: &[Row], base: &[Measured]) -> Vec<Violation> {
        let meant: Vec<&Row> =
            rows.iter().filter(|row| rule.is_about(&row.scenario, &row.system, &row.figure)).collect();
        let is_there = |of: &Measured| {
            meant.iter().any(|row| row.scenario == of.scenario && row.system == of.system && row.figure == of.figure)
        };
        let gone = base.iter().filter(|of| rule.is_about(&of.scenario, &of.system, of.figure) && !is_there(of));
        let gone: Vec<_> = gone.map(|of| self.unmeasured(rule, &of.scenario, &of.system, of.figure)).collect();
        if meant.is_empty() && gone.is_empty() {
            return vec![self.unmeasured(rule, &rule.scenario, "", &rule.figure)];
        }
        let broken = meant.iter().filter(|row| rule.is_broken_by(row)).map(|row| self.violation(rule, row));
        gone.into_iter().chain(broken).collect()
    }

    fn violation(&self, rule: &Rule, row: &Row) -> Violation {
        let (place, bound) = (self.place(rule), rule.bound());
        let Row { scenario, system, figure, ratio, .. } = row;
        let (value, baseline) = (row.new.mean, row.base.mean);
        // Noise that was only assumed did not decide.
        let noise = match row.is_repeated() {
            true => format!(", {:.3} to {:.3} with noise", ratio.low, ratio.high),
            false => String::new(),
        };
        let text = format!(
            "{place}: {scenario}, {system}: {figure} is {value:.3}, {:.3} times the baseline's {baseline:.3}{noise}; allowed is {bound}",
            ratio.value
        );
        Violation {
            rule: place,
            scenario: scenario.clone(),
            system: system.clone(),
            figure: figure.clone(),
            value: Some(value),
            baseline: Some(baseline),
            // JSON knows no infinity.
            ratio: Some(ratio.value).filter(|ratio| ratio.is_finite()),
            bound,
            text,
        }
    }

    fn unmeasured(&self, rule: &Rule, scenario: &str, system: &str, figure: &str) -> Violation {
        let (place, bound) = (self.place(rule), rule.bound());
        let text = if system.is_empty() {
            format!("{place}: nothing was measured on both sides for \"{scenario} {figure} {bound}\"")
        } else {
            format!(
                "{place}: {scenario}, {system}: {figure} was not measured beside the baseline's; allowed is {bound}"
            )
        };
        Violation {
            text,
            rule: place,
            scenario: scenario.to_owned(),
            system: system.to_owned(),
            figure: figure.to_owned(),
            value: None,
            baseline: None,
            ratio: None,
            bound,
        }
    }

    fn place(&self, rule: &Rule) -> String {
        format!("{}:{}", self.file, rule.line)
    }
}

impl Rule {
    fn parse(line: usize, content: &str) -> anyhow::Result<Self> {
        let fields: Vec<&str> = content.split_whitespace().collect();
        let [scenario, figure, bound, ratio] = fields.as_slice() else {
            return Err(anyhow!("\"{content}\" has {} fields; write SCENARIO FIGURE >= RATIO, or <=", fields.len()));
        };
        ensure!(
            figures::is_known(figure) || figure.ends_with('*'),
            "figure: there is no \"{figure}\"; use a key of result.json, such as accepted_per_s or memory_mb_peak"
        );
        let bound = match *bound {
            ">=" => Bound::AtLeast,
            "<=" => Bound::AtMost,
            other => return Err(anyhow!("bound: \"{other}\" is none; use >= or <=")),
        };
        let value: f64 = ratio.parse().map_err(|_| anyhow!("ratio: \"{ratio}\" is not a number such as 0.9"))?;
        ensure!(value.is_finite() && value > 0.0, "ratio: {ratio} is not above 0");
        Ok(Self { line, scenario: (*scenario).to_owned(), figure: (*figure).to_owned(), bound, ratio: value })
    }

    /// What peers do is no regression.
    fn is_about(&self, scenario: &str, system: &str, figure: &str) -> bool {
        is_weir(system) && matches(&self.scenario, scenario) && matches(&self.figure, figure)
    }

    /// The ratio is beyond the bound, and so is the end of its noise that is nearest to it. One run of each has no noise that
    /// is known: then the ratio alone decides.
    fn is_broken_by(&self, row: &Row) -> bool {
        let ratio = row.ratio;
        let nearest = match (row.is_repeated(), self.bound) {
            (false, _) => ratio.value,
            (true, Bound::AtLeast) => ratio.high,
            (true, Bound::AtMost) => ratio.low,
        };
        match self.bound {
            Bound::AtLeast => nearest < self.ratio,
            Bound::AtMost => nearest > self.ratio,
        }
    }

    fn bound(&self) -> String {
        let sign = if self.bound == Bound::AtLeast { ">=" } else { "<=" };
        format!("{sign} {}", self.ratio)
    }
}

/// Whether a name is meant by a pattern, which may end in a star.
fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::super::statistics::ratio;
    use super::*;

    fn row(scenario: &str, figure: &str, base: &[f64], new: &[f64]) -> Row {
        let ratio = ratio(base, new, 0.1);
        let [base, new] = Side::both(base.to_vec(), new.to_vec());
        Row {
            scenario: scenario.to_owned(),
            system: "weir".to_owned(),
            figure: figure.to_owned(),
            base,
            new,
            ratio,
            verdict: super::super::Verdict::Noise,
        }
    }

    fn violations(rules: &str, rows: &[Row]) -> Vec<String> {
        let gate = Gate::parse("gate.txt", rules).unwrap();
        gate.violations(rows, &[]).into_iter().map(|violation| violation.text).collect()
    }

    const RULES: &str = "# comment\ntraces* accepted_per_s >= 0.9\n\n*  memory_mb_peak <= 1.1 # too\n* lost <= 1\n";

    #[test]
    fn a_violation_names_figure_value_bound_and_baseline() {
        let rows = [
            row("traces", "accepted_per_s", &[1000.0], &[800.0]),
            row("traces-multi", "accepted_per_s", &[1000.0], &[950.0]),
            row("metrics", "memory_mb_peak", &[100.0], &[109.0]),
            row("metrics", "lost", &[0.0], &[3.0]),
        ];
        let texts = violations(RULES, &rows);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert_eq!(
            texts[0],
            "gate.txt:2: traces, weir: accepted_per_s is 800.000, 0.800 times the baseline's 1000.000; allowed is >= 0.9"
        );
        assert!(texts[1].contains("gate.txt:5") && texts[1].contains("lost is 3.000"), "{texts:?}");
    }

    #[test]
    fn what_may_be_noise_breaks_nothing() {
        let rule = "traces accepted_per_s >= 0.9";
        let noisy = row("traces", "accepted_per_s", &[1000.0, 1200.0, 800.0], &[850.0, 1000.0, 700.0]);
        assert!(noisy.ratio.value < 0.9 && violations(rule, &[noisy]).is_empty());
        let clear = row("traces", "accepted_per_s", &[1000.0, 1001.0, 999.0], &[850.0, 851.0, 849.0]);
        let broken = violations(rule, &[clear]);
        assert!(broken.len() == 1 && broken[0].contains(" with noise"), "{broken:?}");
        let rule = "crash duplicated <= 1.2";
        let of = |base: &[f64], new: &[f64]| violations(rule, &[row("crash", "duplicated", base, new)]).len();
        assert_eq!(of(&[0.0, 40.0, 0.0], &[0.0, 0.0, 60.0]), 0, "sometimes there is nothing");
        assert_eq!(of(&[0.0, 0.0, 0.0], &[59.0, 60.0, 61.0]), 1);
    }

    #[test]
    fn what_was_not_measured_is_a_violation_and_a_peer_is_not_judged() {
        let of_peer = Row { system: "otelcol".to_owned(), ..row("traces", "accepted_per_s", &[9.0], &[1.0]) };
        let texts = violations("traces accepted_per_s >= 0.9", &[of_peer]);
        assert!(texts.len() == 1 && texts[0].contains("nothing was measured"), "{texts:?}");
    }

    #[test]
    fn what_only_the_baseline_has_is_a_violation() {
        let gate = Gate::parse("gate.txt", "* lost <= 1\ntraces lost <= 1").unwrap();
        let of = |scenario: &str, system: &str| Measured {
            scenario: scenario.to_owned(),
            system: system.to_owned(),
            figure: "lost",
        };
        let base = [of("traces", "weir"), of("crash", "weir"), of("crash", "otelcol")];
        let violations = gate.violations(&[row("traces", "lost", &[0.0], &[0.0])], &base);
        let texts: Vec<_> = violations.into_iter().map(|violation| violation.text).collect();
        assert_eq!(texts, ["gate.txt:1: crash, weir: lost was not measured beside the baseline's; allowed is <= 1"]);
    }

    #[test]
    fn a_bad_file_is_named_with_line_and_field() {
        for (text, expected) in [
            ("traces accepted_per_s >= 0.9\ntraces speed >= 1", "gate.txt:2: figure: there is no \"speed\""),
            ("traces lost = 1", "gate.txt:1: bound: \"=\""),
            ("traces lost <= much", "gate.txt:1: ratio: \"much\""),
            ("traces lost <= -1", "gate.txt:1: ratio: -1"),
            ("\ntraces lost <=", "gate.txt:2: \"traces lost <=\" has 3 fields"),
            ("# nothing", "it has no rule"),
        ] {
            let error = format!("{:#}", Gate::parse("gate.txt", text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
