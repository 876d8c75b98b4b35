#!/usr/bin/env bash
# What scraping costs: Weir, vmagent, the OpenTelemetry Collector and Prometheus as an agent, one after the other in each
# case, each on one core, with targets and sinks on the others. Needs `bench/peers/build.sh scrapers` for the peers; those
# that are not there are left out. The figures stand below each table, and in OUT/CASE/result.json.
# Usage: bench-metric-agent.sh [SECONDS for each system in a case] [OUT] [CASE...]
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
bin=${PEERS:-bench/peers/bin}
seconds=${1:-60}
out=${2:-target/bench-metrics}
cases=("${@:3}")

peers=()
for peer in vmagent otelcol prometheus; do
    [[ ! -x $bin/$peer ]] || peers+=(--peer "$peer=$bin/$peer")
done

# NAME, options
run() {
    local name=$1
    shift
    [[ ${#cases[@]} == 0 || " ${cases[*]} " == *" $name "* ]] || return 0
    # The Collector gives up most pages when it may use no more than 512 MiB.
    "$weir" loadtest -t metricagent -n "$name" -d "$seconds" -o "$out/$name" --memory 2GiB "$@"
}

# 20 pages of 10,000 lines of 220 bytes. OTLP is not compressed; vmagent and Prometheus always compress what they send.
run steady --scrape-interval 2s --warmup 6s "${peers[@]}"
run churn --scrape-interval 2s --warmup 6s --page-arg=--churn=10 "${peers[@]}"
run types --scrape-interval 2s --warmup 6s --page-arg=--metrics=200 \
    --page-arg=--types=gauge,counter,histogram,summary "${peers[@]}"
run zstd --scrape-interval 2s --warmup 6s --compression zstd
run published "${peers[@]}"
# A million series.
run scale --scenario scale --compression zstd
