//! What matching keeps of memory, whatever the texts. A process of its own: the peak is that of all tests.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

use weir_re2::Regex;

/// Each character of the text that may match makes twice as many states.
const GREEDY: &str = "(?:a|b)*a(?:a|b){14}c";
const PATTERNS: usize = 64;

fn kilobytes(of: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn texts_fill_little_memory_with_what_matching_keeps() {
    let patterns: Vec<_> = (0..PATTERNS).map(|_| Regex::new(GREEDY, 1 << 20, 64).unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let text: String = std::iter::repeat_with(|| if random.bool() { 'a' } else { 'b' }).take(200_000).collect();
    let before = kilobytes("VmRSS");
    assert!(!patterns.iter().any(|pattern| pattern.is_match(&text)));
    let took = kilobytes("VmHWM").saturating_sub(before) << 10;
    assert!(took < PATTERNS * (512 << 10), "{took} bytes");
}
