//! Whatever the text is, loading ends in a plan or in diagnostics with a position, and shows no secret.

use std::collections::HashSet;

use weir_resources::{Files, Loaded, Report, Severity, Source, load};

use crate::options;

/// A configuration with this password wherever a secret can stand, in block style, flow style and block scalars.
const SECRETS: &str = include_str!("../secrets.yaml");

/// Between them, every field of every kind.
const FULL: [&str; 5] = [
    include_str!("../../../../examples/full.yaml"),
    include_str!("../../../../examples/metrics.yaml"),
    include_str!("../../../../examples/logs.yaml"),
    include_str!("../../../../examples/fluent-bit.yaml"),
    include_str!("../../../../examples/pods.yaml"),
];

fn load_text(text: &str) -> Result<Loaded, Report> {
    load(&[Source { name: "x.yaml".to_owned(), text: text.to_owned() }], &options())
}

/// Loads, checks what every diagnostic must be, and gives all that is shown of it.
fn shown(text: &str) -> String {
    let result = load_text(text);
    let mut shown = format!("{result:?}");
    let diagnostics = match result {
        Ok(loaded) => loaded.warnings,
        Err(report) => {
            assert!(!report.diagnostics.is_empty());
            report.diagnostics
        }
    };
    // A carriage return ends a line of YAML as well.
    let lines = text.matches(['\n', '\r']).count() + 1;
    for diagnostic in diagnostics {
        assert!(diagnostic.file == "x.yaml" && diagnostic.column > 0, "{diagnostic:?}");
        assert!((1..=lines + 1).contains(&diagnostic.line), "{diagnostic:?} of {lines} lines");
        assert!(!diagnostic.message.is_empty() && !diagnostic.message.contains('\n'), "{diagnostic:?}");
        assert!(diagnostic.severity == Severity::Error || !diagnostic.expected.is_empty(), "{diagnostic:?}");
        shown += &format!("\n{diagnostic}\n{}", diagnostic.render(text, false));
    }
    shown
}

/// A small generator (xorshift): the same mutations in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("it is below a usize")
    }
}

#[test]
fn every_truncation_ends_in_a_plan_or_a_position() {
    for text in FULL {
        for (end, _) in text.char_indices() {
            shown(&text[..end]);
        }
    }
}

#[test]
fn mutations_end_in_a_plan_or_a_position() {
    const PIECES: &[&str] = &[
        "\n", " ", "  ", "\t", ":", ": ", "-", "- ", "---\n", "...\n", "{", "}", "[", "]", ",", "\"", "'", "|\n",
        ">\n", "&a ", "*a", "!", "!!str ", "%YAML", "#", "? ", "<<: ", "\u{feff}", "\0", "\u{85}", "é", "0x", "~", "@",
        "`", "\\", "\r",
    ];
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..3000 {
        let mut text: Vec<char> = FULL[round % FULL.len()].chars().collect();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len());
            match random.below(3) {
                0 => drop(text.drain(at..(at + 1 + random.below(40)).min(text.len()))),
                1 => drop(text.splice(at..at, PIECES[random.below(PIECES.len())].chars())),
                _ => {
                    let from = random.below(text.len());
                    let copy: Vec<char> = text[from..(from + random.below(200)).min(text.len())].to_vec();
                    text.splice(at..at, copy);
                }
            }
        }
        shown(&text.iter().collect::<String>());
    }
}

#[test]
fn hostile_texts_cost_little() {
    let many = 200_000;
    for text in [
        "[".repeat(many),
        "{a: ".repeat(many),
        "- ".repeat(many),
        "? ".repeat(many),
        "a:\n".repeat(many),
        (0..many).map(|i| format!("k{i}: v\n")).collect(),
        "---\n".repeat(many),
        "&a ".repeat(many),
        "!".repeat(many),
        "#".repeat(many),
        format!("a: \"{}\"", "\\n".repeat(many)),
        format!("a: |\n{}", " b\n".repeat(many)),
        format!("a: {}", "b ".repeat(many)),
        format!("a: &a {}\nb: [{}]", "x".repeat(10_000), "*a, ".repeat(many)),
        (0..400).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(),
    ] {
        let report = load_text(&text).unwrap_err();
        assert!(report.diagnostics.len() <= 1001);
    }
}

/// Wherever a line is damaged, neither message, rendering nor `Debug` output shows a secret.
#[test]
fn no_damage_makes_a_secret_visible() {
    assert!(load_text(SECRETS).is_ok(), "{}", load_text(SECRETS).unwrap_err());
    let lines: Vec<&str> = SECRETS.lines().collect();
    let join = |lines: &[String]| lines.join("\n") + "\n";
    let mut texts = HashSet::from([SECRETS.to_owned()]);
    for at in 0..lines.len() {
        let mut damaged: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let line = damaged.remove(at);
        texts.insert(join(&damaged));
        for variant in [
            format!(" {line}"),
            format!("{line} [{{"),
            format!("{line}\""),
            line.replacen(':', "", 1),
            line.replacen(':', "x:", 1),
            line.replace(['"', '\''], ""),
            line.replace(['{', '['], ""),
            line.replace(['}', ']'], ""),
            line.replacen("value", "vaule", 1),
            line.replace("hunter2", "hunter2 @ü"),
            line.trim_start().to_owned(),
            format!("{line}\n{line}"),
            line.replacen("- ", "", 1),
        ] {
            let mut damaged = damaged.clone();
            damaged.insert(at, variant);
            texts.insert(join(&damaged));
        }
    }
    assert!(texts.len() > 500);
    for text in texts {
        let shown = shown(&text);
        assert!(!shown.contains("hunter2"), "{text}\n{shown}");
    }
}

#[test]
fn a_source_does_not_print_its_text() {
    let source = Source { name: "x.yaml".to_owned(), text: "hunter2".to_owned() };
    assert_eq!(format!("{source:?}"), "Source { name: \"x.yaml\", text_bytes: 7 }");
}

#[test]
fn files_that_cannot_be_read_are_all_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("binary.yaml"), b"a: b\nc\xC3\xA9: \xFF\n").unwrap();
    std::fs::File::create(path("large.yaml")).unwrap().set_len(weir_resources::MAX_BYTES + 1).unwrap();
    std::fs::create_dir(path("empty")).unwrap();
    std::fs::write(path("empty").join("notes.txt"), "a").unwrap();

    let names = ["missing.yaml", "binary.yaml", "large.yaml", "empty"];
    let report = Files::read(&names.map(path)).load(&options()).unwrap_err();
    let prefix = format!("{}/", directory.path().display());
    let expected = "binary.yaml:2:5: error: cannot read file: it is not UTF-8; expected YAML text in UTF-8
empty: error: cannot find configuration: the directory has no YAML or JSON file; expected at least one *.yaml, *.yml or *.json file
large.yaml: error: cannot read file: with it the configuration is larger than 32 MiB
missing.yaml: error: cannot read file: No such file or directory (os error 2)";
    assert_eq!(report.to_string().replace(&prefix, ""), expected);
}

/// What it would have said may be all that is missing elsewhere.
#[test]
fn a_file_that_cannot_be_read_hides_nothing_of_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let output = "{endpoint: {valueFrom: {secretKeyRef: {name: a, namespace: b, key: c}}}, protocol: grcp}";
    let text = format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata: {{name: x}}\nspec:\n  \
         output: {{otlp: {output}}}\n"
    );
    std::fs::write(path("a.yaml"), text).unwrap();
    std::fs::write(path("b.yaml"), "a: [\n").unwrap();
    std::fs::write(path("secrets.yaml"), b"\xFF").unwrap();
    let files = Files::read(&[directory.path().to_owned()]);
    let fields = |report: Report| {
        report.iter().map(|found| format!("{}: {}", &found.message[..12], found.field)).collect::<Vec<_>>()
    };
    let unread = ["invalid YAML: ", "cannot read : "];
    let report = files.load(&options()).unwrap_err();
    assert_eq!(fields(report)[..], ["\"grcp\" is no: spec.output.otlp.protocol", unread[0], unread[1]]);
    assert_eq!(fields(files.documents().unwrap_err())[..], unread);
}

#[test]
fn files_that_are_too_large_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let half = vec![b'#'; usize::try_from(weir_resources::MAX_BYTES / 2).unwrap()];
    let files = ["a.yaml", "b.yaml", "c.yaml"].map(|name| directory.path().join(name));
    files[..2].iter().for_each(|file| std::fs::write(file, &half).unwrap());
    std::fs::write(&files[2], "").unwrap();
    assert_eq!(Files::read(&files).sources.len(), 3);
    Files::read(&files).documents().unwrap();
    std::fs::write(&files[2], "#").unwrap();
    let expected = "c.yaml: error: cannot read file: with it the configuration is larger than 32 MiB";
    assert!(Files::read(&files).documents().unwrap_err().to_string().ends_with(expected));
}

#[test]
fn directories_give_their_yaml_files_in_order() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["b.yaml", "a.yml", "c.txt", ".hidden.yaml"] {
        std::fs::write(directory.path().join(name), name).unwrap();
    }
    std::fs::create_dir(directory.path().join("d.yaml")).unwrap();
    let file = directory.path().join("c.txt");
    let sources = Files::read(&[directory.path().to_owned(), file]).sources;
    let texts: Vec<_> = sources.iter().map(|source| source.text.as_str()).collect();
    assert_eq!(texts, ["a.yml", "b.yaml", "c.txt"]);
    assert!(sources.iter().all(|source| source.name.ends_with(&source.text)));
}
