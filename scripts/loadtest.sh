#!/usr/bin/env bash
# The comparison behind docs/benchmarks.md: Weir and the OpenTelemetry Collector, one after the other in each scenario,
# for SECONDS each. Needs `make peers` for the collector; without it, Weir runs alone.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
out=${2:-target/loadtest}
peer=()
[[ -x bench/peers/bin/otelcol ]] && peer=(--peer otelcol=bench/peers/bin/otelcol)

run() {
    local name=$1
    shift
    target/release/weir loadtest -t traces -n "$name" -d "$seconds" -o "$out/$name" "${peer[@]}" "$@"
}

run single --compression none
run single-gzip --compression gzip
run multi -m true --compression none
run small --compression none --attributes 5 --attribute-bytes 16
run small-gzip --compression gzip --attributes 5 --attribute-bytes 16
run ten-spans --compression none --attributes 5 --attribute-bytes 16 --batch 10 -c 64
run backpressure -b true
run multi-backpressure -m true -b true
run outage --scenario outage
run sick-neighbour --scenario sick-neighbour
run crash --scenario crash
