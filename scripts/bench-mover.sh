#!/usr/bin/env bash
# The least that it costs to scrape pages and to send what is made of them: receiving and sending alone, of the same
# pages and requests of the same length (`crates/loadtest/examples/mover.rs`), on core 0, with all else on core 1.
# Needs `cargo build --release`, and the same of `-p weir-loadtest --example mover`.
# Usage: bench-mover.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
mover=${MOVER:-target/release/examples/mover}
readonly targets=24327 sink=24328
# What Weir makes of a page of 10,000 gauges.
readonly bytes=2557173

pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
taskset -c 1 "$weir" load scrape-targets --port $targets --targets 20 >/dev/null 2>&1 &
pids+=($!)
sleep 2
for ((round = 0; round < ${1:-3}; round++)); do
    echo "received alone: $(taskset -c 0 "$mover" scrape $targets 0 $bytes)"
    taskset -c 1 "$mover" sink $((sink + round)) $bytes &
    pids+=($!)
    sleep 0.2
    echo "received and sent: $(taskset -c 0 "$mover" scrape $targets $((sink + round)) $bytes)"
done
