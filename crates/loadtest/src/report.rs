//! `report.html`: a page that needs nothing but itself, from what a load test found.
//!
//! It knows neither scenarios nor figures: whoever tests makes sections of texts, tables and plots, and all of their text is
//! escaped here.

mod axis;
pub(crate) mod environment;
pub(crate) mod history;
mod html;
pub(crate) mod markdown;
pub(crate) mod plot;

use std::fmt::Write;

pub(crate) use self::environment::Environment;
use self::html::escape;
pub(crate) use self::html::{Kind, Row, Table};
pub(crate) use self::plot::{Across, Band, Line, Plot};

const STYLE: &str = include_str!("report/style.css");

/// Points of a line: more than the pixels of a plot cannot be seen. All plots of a page share what is more than one page's.
const POINTS_OF_A_PAGE: usize = 16_000;
const MOST_POINTS: usize = 400;
const FEWEST_POINTS: usize = 40;

/// As many as two systems have.
const MANY_FINDINGS: usize = 24;

/// Everything on a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) environment: Environment,
    /// What stands above all sections.
    pub(crate) overview: Vec<Table>,
    pub(crate) sections: Vec<Section>,
}

/// What one test found.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// What was done, in words.
    pub(crate) lead: String,
    pub(crate) findings: Vec<Finding>,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
}

/// Something that was judged, or is worth knowing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// Whom it is about.
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// What follows from a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A promise was kept.
    Passed,
    /// A promise was broken.
    Failed,
    /// Figures are to be doubted.
    Doubt,
    /// Neither.
    Fact,
}

impl Verdict {
    fn class(self) -> &'static str {
        match self {
            Self::Passed => "well",
            Self::Failed => "bad",
            Self::Doubt => "warn",
            Self::Fact => "fact",
        }
    }
}

impl Section {
    /// Whether a promise was broken.
    pub(crate) fn has_failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Failed)
    }

    fn render(&self, out: &mut String, folded: bool, points: usize) {
        let (class, word) = if self.has_failed() { ("bad", "failed") } else { ("well", "passed") };
        let title = escape(&self.title);
        let verdict = format!("<span class=\"verdict {class}\">{word}</span>");
        // Writing to a String cannot fail.
        let _ = match folded {
            true => writeln!(
                out,
                "<details{}><summary>{title} {verdict}</summary>",
                if self.has_failed() { " open" } else { "" }
            ),
            false => writeln!(out, "<section>\n<h2>{title} {verdict}</h2>"),
        };
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape(self.lead.trim()));
        self.render_findings(out);
        self.tables.iter().for_each(|table| out.push_str(&table.render()));
        // One axis of time for all of them.
        let end = self.seen_plots().map(Plot::ends).fold(0.0, f64::max);
        let plots: String = self.seen_plots().map(|plot| plot.render(points, end)).collect();
        if !plots.is_empty() {
            let _ = writeln!(out, "<div class=\"plots\">\n{plots}</div>");
        }
        out.push_str(if folded { "</details>\n" } else { "</section>\n" });
    }

    /// Of many findings, only the broken promises are seen at first.
    fn render_findings(&self, out: &mut String) {
        let (failed, others): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.verdict == Verdict::Failed);
        if self.findings.len() <= MANY_FINDINGS {
            out.push_str(&list(&self.findings.iter().collect::<Vec<_>>()));
            return;
        }
        out.push_str(&list(&failed));
        let count = |verdict| others.iter().filter(|finding| finding.verdict == verdict).count();
        let (kept, doubts) = (count(Verdict::Passed), count(Verdict::Doubt));
        let _ = writeln!(out, "<details><summary>{kept} promises kept, {doubts} doubts</summary>");
        out.push_str(&list(&others));
        out.push_str("</details>\n");
    }

    fn seen_plots(&self) -> impl Iterator<Item = &Plot> {
        self.plots.iter().filter(|plot| !plot.is_empty())
    }
}

fn list(findings: &[&Finding]) -> String {
    let item = |finding: &&Finding| {
        let (class, subject, text) = (finding.verdict.class(), escape(&finding.subject), escape(&finding.text));
        format!("<li class=\"{class}\"><b>{subject}</b> <span>{text}</span></li>\n")
    };
    match findings {
        [] => String::new(),
        some => format!("<ul class=\"found\">\n{}</ul>\n", some.iter().map(item).collect::<String>()),
    }
}

impl Page {
    /// The whole document.
    pub(crate) fn render(&self) -> String {
        let title = escape(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        out.push_str(&self.environment.render());
        self.overview.iter().for_each(|table| out.push_str(&table.render()));
        let folded = self.sections.len() > 1;
        self.sections.iter().for_each(|section| section.render(&mut out, folded, self.points_of_a_line()));
        out.push_str("</body>\n</html>\n");
        out
    }

    fn points_of_a_line(&self) -> usize {
        let lines: usize = self.sections.iter().flat_map(Section::seen_plots).map(|plot| plot.lines.len()).sum();
        (POINTS_OF_A_PAGE / lines.max(1)).clamp(FEWEST_POINTS, MOST_POINTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(lines: usize) -> Section {
        let points: Vec<(f64, f64)> = (0..3600).map(|second| (f64::from(second), f64::from(second % 977))).collect();
        let line = Line { label: "weir".to_owned(), points, ..Line::default() };
        let plot =
            Plot { title: "Rate".to_owned(), unit: "spans/s".to_owned(), lines: vec![line; lines], ..Plot::default() };
        let finding = |verdict, text: &str| Finding { verdict, subject: "weir".to_owned(), text: text.to_owned() };
        Section {
            title: "traces <script>alert(1)</script>".to_owned(),
            lead: "a & b".to_owned(),
            findings: vec![finding(Verdict::Passed, "kept"), finding(Verdict::Doubt, "busy")],
            tables: Vec::new(),
            plots: vec![plot; 6],
        }
    }

    #[test]
    fn a_page_needs_nothing_else_and_runs_nothing() {
        let page = Page { title: "a < b".to_owned(), sections: vec![section(2)], ..Page::default() }.render();
        for foreign in ["<script", "http:", "https:", "<link", "<img", "@import", "url(", "onload"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("<title>a &lt; b</title>") && page.contains("prefers-color-scheme: dark"));
        assert!(page.contains(">passed</span>") && page.contains("<li class=\"warn\">"));
    }

    #[test]
    fn a_page_of_many_long_tests_stays_below_a_megabyte() {
        let page = Page { sections: vec![section(4); 20], ..Page::default() };
        let length = page.render().len();
        assert!(length < 1_000_000, "{length}");
    }

    #[test]
    fn what_failed_is_said_and_open() {
        let mut failed = section(1);
        failed.findings.push(Finding {
            verdict: Verdict::Failed,
            subject: "weir".to_owned(),
            text: "3 lost".to_owned(),
        });
        let page = Page { sections: vec![section(1), failed], ..Page::default() }.render();
        assert_eq!((page.matches("<details>").count(), page.matches("<details open>").count()), (1, 1));
        assert!(page.contains("<li class=\"bad\"><b>weir</b> <span>3 lost</span></li>"));
    }

    #[test]
    fn of_many_findings_the_bad_ones_are_seen() {
        let finding = |verdict| Finding { verdict, subject: "weir".to_owned(), text: "it".to_owned() };
        let mut findings = vec![finding(Verdict::Passed); 30];
        findings.push(finding(Verdict::Failed));
        let page = Page { sections: vec![Section { findings, ..Section::default() }], ..Page::default() }.render();
        let (seen, folded) = page.split_once("<details><summary>30 promises kept, 0 doubts</summary>").unwrap();
        assert_eq!(
            (seen.matches("<li class=\"bad\">").count(), folded.matches("<li class=\"well\">").count()),
            (1, 30)
        );
    }
}
