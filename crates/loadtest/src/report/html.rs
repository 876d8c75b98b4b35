//! Text that stands for itself in HTML, and tables.

use std::borrow::Cow;
use std::fmt::Write;

/// The text, whatever it contains, as the content of an element or of a quoted attribute.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Cells with a heading; the first column names the rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Whether only the title is seen at first.
    pub(crate) folded: bool,
    /// Headings over several columns each, above the others.
    pub(crate) groups: Vec<(String, usize)>,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) cells: Vec<String>,
}

/// How a row looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What was measured now.
    #[default]
    Measured,
    /// What is there to compare with.
    Context,
    /// Measured, and a promise was broken.
    Failed,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Measured => "",
            Self::Context => " class=\"context\"",
            Self::Failed => " class=\"failed\"",
        }
    }
}

/// A table of more columns is set closer.
const MANY_COLUMNS: usize = 12;

impl Table {
    /// As HTML.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        let title = escape(&self.title);
        // Writing to a String cannot fail.
        let _ = match (self.folded, title.is_empty()) {
            (true, _) => writeln!(out, "<details><summary>{title}</summary>"),
            (false, false) => writeln!(out, "<h3>{title}</h3>"),
            (false, true) => Ok(()),
        };
        let dense = if self.header.len() > MANY_COLUMNS { " class=\"dense\"" } else { "" };
        let _ = write!(out, "<div class=\"scroll\"><table{dense}>\n<thead>");
        if !self.groups.is_empty() {
            let group = |(name, columns): &(String, usize)| {
                format!("<th class=\"group\" colspan=\"{columns}\">{}</th>", escape(name))
            };
            let _ = write!(out, "<tr><th></th>{}</tr>", self.groups.iter().map(group).collect::<String>());
        }
        let heading = |name: &String| format!("<th scope=\"col\">{}</th>", escape(name));
        let _ = writeln!(out, "<tr>{}</tr></thead>\n<tbody>", self.header.iter().map(heading).collect::<String>());
        for row in &self.rows {
            let cell = |(column, text): (usize, &String)| match column {
                0 => format!("<th scope=\"row\">{}</th>", escape(text)),
                _ => format!("<td>{}</td>", escape(text)),
            };
            let cells: String = row.cells.iter().enumerate().map(cell).collect();
            let _ = writeln!(out, "<tr{}>{cells}</tr>", row.kind.class());
        }
        out.push_str("</tbody></table></div>\n");
        out.push_str(if self.folded { "</details>\n" } else { "" });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(escape("<b a='1' c=\"2\">&"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
        assert!(matches!(escape("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_table_escapes_its_cells_and_names_its_groups() {
        let row = Row { kind: Kind::Context, cells: vec!["a<b".to_owned(), "1&2".to_owned()] };
        let table = Table {
            title: "T".to_owned(),
            folded: false,
            groups: vec![("single".to_owned(), 1)],
            header: vec!["system".to_owned(), "rate".to_owned()],
            rows: vec![row],
        };
        let html = table.render();
        assert!(html.contains("<tr class=\"context\"><th scope=\"row\">a&lt;b</th><td>1&amp;2</td></tr>"), "{html}");
        assert!(html.contains("<th class=\"group\" colspan=\"1\">single</th>"), "{html}");
    }
}
