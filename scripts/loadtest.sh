#!/usr/bin/env bash
# The comparison behind docs/benchmarks.md: Weir and the OpenTelemetry Collector, one after the other in each scenario,
# for SECONDS each. Needs `make peers` for the collector; without it, Weir runs alone.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
out=${2:-target/loadtest}
peer=()
[[ -x bench/peers/bin/otelcol ]] && peer=(--peer otelcol=bench/peers/bin/otelcol)

# NAME, SIGNAL, options
run() {
    local name=$1 signal=$2
    shift 2
    target/release/weir loadtest -t "$signal" -n "$name" -d "$seconds" -o "$out/$name" "${peer[@]}" "$@"
}

run single traces --compression none
run single-gzip traces --compression gzip
run multi traces -m true --compression none
run small traces --compression none --attributes 5 --attribute-bytes 16
run small-gzip traces --compression gzip --attributes 5 --attribute-bytes 16
run ten-spans traces --compression none --attributes 5 --attribute-bytes 16 --batch 10 -c 64
run backpressure traces -b true
run multi-backpressure traces -m true -b true
run outage traces --scenario outage
run sick-neighbour traces --scenario sick-neighbour
run crash traces --scenario crash

# As published, and as much as goes through.
for variant in "" multi backpressure multi-backpressure; do
    flags=()
    [[ $variant == *multi* ]] && flags+=(-m true)
    [[ $variant == *backpressure* ]] && flags+=(-b true)
    run "metrics${variant:+-$variant}" metrics "${flags[@]}"
    run "logs${variant:+-$variant}" logs-otel "${flags[@]}"
done
run metrics-steady metrics --rate 5300 --attributes 7
run metrics-max metrics --max
run producers-max metrics --max --batch 1 --metric-type gauge -c 64
run logs-max logs-otel --max
# Nine runs in one.
seconds=$((seconds / 6 + 1)) run logs-matrix logs-otel --scenario matrix

# Files that are there when the agent starts.
run agent-plain logagent -s 200
run agent-plain-2k logagent -s 2000
run agent-json logagent -s 400 --writer-arg=--shape=json

# The same work on both sides, beside none.
for signal in traces metrics logs-otel; do
    for processing in none enrich filter97 insert rename4; do
        run "$signal-$processing" "$signal" --max --processing "$processing"
    done
done

# As published of Fluent Bit, whose records no collector sends.
peer=()
for variant in "" multi backpressure multi-backpressure; do
    flags=()
    [[ $variant == *multi* ]] && flags+=(-m true)
    [[ $variant == *backpressure* ]] && flags+=(-b true)
    run "fluentbit${variant:+-$variant}" logs-fluentbit "${flags[@]}"
done
