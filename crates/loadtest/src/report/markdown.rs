//! Tables for a terminal.

use std::fmt::Write;

/// Aligns the first column left and the others right, as a Markdown table. The first row is the header.
pub(crate) fn table<R: AsRef<[String]>>(rows: &[R]) -> String {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let width =
        |column: usize| rows.iter().filter_map(|row| row.as_ref().get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, (cell, &width)) in row.as_ref().iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = if column == 0 { write!(out, "| {cell:<width$} ") } else { write!(out, "| {cell:>width$} ") };
        }
        out.push_str("|\n");
        if index == 0 {
            for (column, &width) in widths.iter().enumerate() {
                let end = if column == 0 { "-" } else { ":" };
                let _ = write!(out, "|-{}{end}", "-".repeat(width));
            }
            out.push_str("|\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "rate"], ["weir", "5"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "| a    | rate |\n|------|-----:|\n| weir |    5 |\n");
    }
}
