//! Units of OpenMetrics, which are words, as the symbols of UCUM that OTLP has.

/// Words and their symbols. Others stay as they are.
const SYMBOLS: [(&str, &str); 26] = [
    ("days", "d"),
    ("hours", "h"),
    ("minutes", "min"),
    ("seconds", "s"),
    ("milliseconds", "ms"),
    ("microseconds", "us"),
    ("nanoseconds", "ns"),
    ("bytes", "By"),
    ("kibibytes", "KiBy"),
    ("mebibytes", "MiBy"),
    ("gibibytes", "GiBy"),
    ("tibibytes", "TiBy"),
    ("kilobytes", "KBy"),
    ("megabytes", "MBy"),
    ("gigabytes", "GBy"),
    ("terabytes", "TBy"),
    ("meters", "m"),
    ("volts", "V"),
    ("amperes", "A"),
    ("joules", "J"),
    ("watts", "W"),
    ("grams", "g"),
    ("celsius", "Cel"),
    ("hertz", "Hz"),
    ("ratio", "1"),
    ("percent", "%"),
];

/// What a rate is per. These are in the singular.
const PER: [(&str, &str); 7] =
    [("second", "s"), ("minute", "m"), ("hour", "h"), ("day", "d"), ("week", "w"), ("month", "mo"), ("year", "y")];

/// The symbol of a unit, or of a rate such as `bytes_per_second`.
pub(super) fn symbol(unit: &str) -> String {
    match unit.split_once("_per_") {
        Some((of, "")) => word(&SYMBOLS, of).to_owned(),
        Some((of, per)) => format!("{}/{}", word(&SYMBOLS, of), word(&PER, per)),
        None => word(&SYMBOLS, unit).to_owned(),
    }
}

fn word<'w>(symbols: &[(&'w str, &'w str)], word: &'w str) -> &'w str {
    symbols.iter().find(|(known, _)| *known == word).map_or(word, |(_, symbol)| symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_symbols() {
        for (unit, expected) in [
            ("seconds", "s"),
            ("bytes_per_second", "By/s"),
            ("percent", "%"),
            ("ratio", "1"),
            ("parsecs", "parsecs"),
            ("parsecs_per_fortnight", "parsecs/fortnight"),
            ("bytes_per_", "By"),
            ("", ""),
        ] {
            assert_eq!(symbol(unit), expected, "{unit}");
        }
    }
}
