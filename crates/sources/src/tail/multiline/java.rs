//! Traces of Java, as the JVM, Log4j and Logback print them.
//!
//! ```text
//! Exception in thread "main" java.lang.IllegalStateException: no cart
//! <tab>at shop.Cart.open(Cart.java:17)
//! <tab>Suppressed: java.io.IOException: closed
//! <tab><tab>at shop.Store.close(Store.java:9)
//! Caused by: java.lang.NullPointerException
//! <tab>... 23 more
//! ```

use memchr::memmem::Finder;

use super::{Grammar, Needle, Rule, States, TraceLine, names, needle, starts_with_any};

const TRACE: States = States::only(0);

pub(super) const GRAMMAR: Grammar = Grammar {
    begin,
    rules: &[Rule { from: TRACE, looks: is_frame, to: TRACE }, Rule { from: TRACE, looks: is_cause, to: TRACE }],
};

/// What the names of what is thrown end with.
static CLASSES: [Needle; 3] =
    [needle(|| Finder::new("Exception")), needle(|| Finder::new("Error")), needle(|| Finder::new("Throwable"))];

fn begin(line: TraceLine<'_>) -> States {
    let is_exception = !line.is_indented && CLASSES.iter().any(|class| names(line.text, class));
    if is_exception { TRACE } else { States::NONE }
}

fn is_frame(line: TraceLine<'_>) -> bool {
    let is_omission = |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit);
    line.is_indented
        && (starts_with_any(line.text, &[b"at ", b"eval at "])
            || line.text.strip_prefix(b"... ").is_some_and(is_omission))
}

fn is_cause(line: TraceLine<'_>) -> bool {
    starts_with_any(line.text, &[b"Caused by: ", b"Suppressed: ", b"Wrapped by: ", b"[CIRCULAR REFERENCE:"])
}
