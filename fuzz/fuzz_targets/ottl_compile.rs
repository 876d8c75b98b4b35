//! OTTL of any text, a statement or condition per line: it compiles, or each error has its place in the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::requests::signal;
use weir_ottl::{Error, Filter, Options, Transform};

fuzz_target!(|input: (u8, &str)| {
    let (choice, text) = input;
    let signal = signal(choice);
    let texts: Vec<String> = text.lines().map(str::to_owned).collect();
    let options = Options::transform(signal);
    check(Transform::compile(signal, &options, &[], &texts).err());
    check(Transform::compile(signal, &options, &texts, &[]).err());
    check(Filter::compile(signal, &Options::filter(signal), &texts).err());
});

fn check(errors: Option<Vec<Error>>) {
    for error in errors.into_iter().flatten() {
        assert!(error.text().get(error.range()).is_some(), "{:?} is no part of the text", error.range());
        assert!(error.to_string().starts_with(error.message()));
    }
}
