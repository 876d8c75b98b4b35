//! Makes foreign text fit for the log and for pages: what a backend says, what a client's data holds, why something
//! failed.

/// The beginning of a text, in one line and without what a terminal obeys.
pub(crate) fn line(text: &str, most_chars: usize) -> String {
    text.chars().take(most_chars).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// An error and its causes in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(line("no\r\nlevel=error \x1b[31mgré\u{9b}1m\0\x7f", 100), "no  level=error  [31mgré 1m  ");
        assert_eq!(line("déjà vu", 4), "déjà");
    }
}
