//! The list of functions for users is what the code has. `WEIR_WRITE_DOCS=1` writes it anew.

use std::fmt::Write;

use weir_ottl::signatures;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ottl-functions.md");

fn page() -> String {
    let mut page = String::from(
        "# OTTL functions\n\nMade from the code. A parameter with `?` may be left out; parameters may be named\n\
         (`limit(log.attributes, limit = 10, priority_keys = [])`).\n",
    );
    for (title, editors) in [("Editors", true), ("Converters", false)] {
        write!(page, "\n## {title}\n\n| function | only in |\n|---|---|\n").expect("a string takes everything");
        for function in signatures().iter().filter(|function| function.is_editor == editors) {
            let mut contexts: Vec<_> = function.contexts.iter().map(|context| format!("`{context}`")).collect();
            if function.only_in_statements && !editors {
                contexts.push("transforms".to_owned());
            }
            let signature = function.signature.replace('|', "\\|");
            writeln!(page, "| `{signature}` | {} |", contexts.join(", ")).expect("a string takes everything");
        }
    }
    page
}

#[test]
fn the_page_lists_every_function() {
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(PATH, page()).expect("docs can be written");
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(
        found == page(),
        "docs/ottl-functions.md is not current: WEIR_WRITE_DOCS=1 cargo test -p weir-ottl --test functions"
    );
}
