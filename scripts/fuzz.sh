#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds each, from the checked-in corpus.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-10}
version=0.13.2
if ! cargo fuzz --version 2>/dev/null | grep -q "$version"; then
    echo "installing cargo-fuzz $version"
    cargo install --quiet --locked cargo-fuzz --version "$version"
fi
command -v rustup >/dev/null || { echo "fuzzing needs a nightly toolchain, and that rustup: https://rustup.rs" >&2; exit 1; }
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
if ! command -v c++ >/dev/null; then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq g++
fi

# All targets are built here, once.
cargo +nightly fuzz build

passed=0
for target in $(cargo +nightly fuzz list); do
    # Long enough for an entry that claims to be owed to as many queues as can be.
    longest=()
    [[ $target == journal_* ]] && longest=(-max_len=262144)
    # What is found during a smoke run stays out of the checked-in corpus.
    scratch=$(mktemp -d)
    cargo +nightly fuzz run "$target" "$scratch" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 "${longest[@]}" -verbosity=0 -print_final_stats=1
    rm -rf "$scratch"
    passed=$((passed + 1))
done
echo "fuzz: $passed passed, 0 failed"
