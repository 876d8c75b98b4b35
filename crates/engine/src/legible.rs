//! Makes foreign text fit for the log and for pages: what a backend says, what a client's data holds, why something
//! failed. And many pipelines in few words.

use weir_plan::PipelineId;

/// So many pipelines are named at a time.
const MOST_NAMED: usize = 10;

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

/// The first few of some pipelines, and how many more they are.
pub(crate) fn names<'a>(mut pipelines: impl Iterator<Item = &'a PipelineId>) -> String {
    let named: Vec<String> = pipelines.by_ref().take(MOST_NAMED).map(PipelineId::to_string).collect();
    match pipelines.count() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::Signal;

    use super::*;

    #[test]
    fn many_pipelines_are_a_few_names_and_a_number() {
        let ids: Vec<PipelineId> = (0..12).map(|number| PipelineId::new(Signal::Logs, number.to_string())).collect();
        assert_eq!(names(ids[..2].iter()), "logs/0, logs/1");
        assert!(names(ids.iter()).ends_with(", logs/9 and 2 more"), "{}", names(ids.iter()));
    }

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(line("no\r\nlevel=error \x1b[31mgré\u{9b}1m\0\x7f", 100), "no  level=error  [31mgré 1m  ");
        assert_eq!(line("déjà vu", 4), "déjà");
    }
}
