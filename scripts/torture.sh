#!/usr/bin/env bash
# The scenarios of the load test, one after the other: everything acknowledged must have arrived, so that each command's
# exit code is the verdict.
#
#   scripts/torture.sh [SECONDS]   the published scenarios for SECONDS each (default 10), the harder ones in proportion
#   scripts/torture.sh full        the long forms: outages of five minutes, more than a thousand kills
set -euo pipefail
cd "$(dirname "$0")/.."

weir=${WEIR:-target/release/weir}
out=target/torture
rm -rf "$out"
passed=0

# NAME, SIGNAL, options. Who has handed over everything is waited for no longer, however long a busy machine may take.
run() {
    local name=$1 signal=$2
    shift 2
    "$weir" loadtest -t "$signal" -n "$name" -o "$out/$name" --settle 5m "$@"
    passed=$((passed + 1))
}

# The judge first: it has to see the loss when there is one.
if "$weir" loadtest -t traces -n judge -o "$out/judge" --scenario crash -d 5 --kill-every 1s --weir-arg=--no-data-dir \
    >"$out.judge.txt" 2>&1; then
    cat "$out.judge.txt"
    echo "load test: a gateway without a journal was killed, and the judge saw no loss" >&2
    exit 1
fi
grep -q "acknowledged spans are lost" "$out.judge.txt" || { cat "$out.judge.txt" && exit 1; }
passed=$((passed + 1))

if [[ ${1:-10} == full ]]; then
    # 100 MB/s with a rotation of each file every 50 ms, and a backend that answers nothing for 30 s; two hundred kills.
    run agent logagent
    run agent-multi-backpressure logagent -m true -b true -r 5000
    run agent-rotation logagent -d 60s --scenario rotation
    run agent-restart logagent -d 5m --scenario restart --kill-every 3s -r 20000
    run agent-crash logagent -d 5m --scenario crash --kill-every 1500ms -r 20000
    run agent-short-pods logagent -d 5m -c 20 --scenario short-pods
    run agent-outage logagent -d 10m --scenario outage
    run fluentbit logs-fluentbit
    run fluentbit-multi-backpressure logs-fluentbit -m true -b true -r 5000
    run fluentbit-rotation logs-fluentbit -d 60s --scenario rotation -r 100000
    run fluentbit-crash logs-fluentbit -d 5m --scenario crash --kill-every 1500ms -r 20000
    run metricagent metricagent -d 5m
    run metricagent-backpressure metricagent -d 5m -b true
    run metricagent-churn metricagent -d 5m --scrape-interval 2s --page-arg=--churn=10 --page-arg=--metrics=200 \
        --page-arg=--types=gauge,counter,histogram,summary --page-arg=--fault-503=10 --page-arg=--hang=2
    run metricagent-outage metricagent -d 10m --scenario outage --scrape-interval 10s
    run single traces -d 5m
    run multi traces -d 5m -m true
    run backpressure traces -d 5m -b true --rate 10000
    run multi-backpressure traces -d 5m -m true -b true --rate 5000
    run outage traces -d 10m --scenario outage
    run outage-silent traces -d 10m --scenario outage --outage silent
    run sick-neighbour traces -d 60s --scenario sick-neighbour
    run crash traces -d 20m --scenario crash --kill-every 1s
    run crash-multi traces -d 5m -m true --scenario crash --kill-every 3s
    for signal in metrics logs-otel; do
        run "$signal-multi-backpressure" "$signal" -d 5m -m true -b true
        run "$signal-outage" "$signal" -d 10m --scenario outage
        run "$signal-sick-neighbour" "$signal" -d 60s --scenario sick-neighbour
        run "$signal-crash" "$signal" -d 5m --scenario crash --kill-every 1s
    done
else
    seconds=${1:-10}
    run agent logagent --backlog 100MB
    run agent-rotation logagent -d "$seconds" --scenario rotation --outage refused -r 60000
    run agent-restart logagent -d "$seconds" --scenario restart --kill-every 1s -r 20000
    run agent-crash logagent -d "$seconds" --scenario crash --kill-every 1s -r 20000
    run agent-short-pods logagent -d "$seconds" -c 20 --scenario short-pods
    run agent-outage logagent -d "$seconds" --scenario outage -r 20000
    run fluentbit logs-fluentbit --backlog 50MB
    run fluentbit-backpressure logs-fluentbit -d "$seconds" -b true -r 5000
    run fluentbit-rotation logs-fluentbit -d "$seconds" --scenario rotation --outage refused -r 40000
    run fluentbit-crash logs-fluentbit -d "$seconds" --scenario crash --kill-every 1s -r 20000
    run metricagent metricagent -d "$seconds" --targets 10 --scrape-interval 2s --page-arg=--churn=10 --page-arg=--metrics=200 \
        --page-arg=--types=gauge,counter,histogram,summary --page-arg=--fault-503=10 --page-arg=--hang=2
    run metricagent-backpressure metricagent -d "$seconds" -b true --backpressure-percent 70 --scrape-interval 2s
    run metricagent-outage metricagent -d "$seconds" --scenario outage --scrape-interval 1s --page-arg=--metrics=200
    run single traces -d "$seconds"
    run multi traces -d "$seconds" -m true
    # At a rate that these backends can take. The last few batches of many may be unlucky for a minute.
    run backpressure traces -d "$seconds" -b true --rate 10000
    run multi-backpressure traces -d "$seconds" -m true -b true --rate 5000
    run outage traces -d $((2 * seconds)) --scenario outage
    run sick-neighbour traces -d "$seconds" --scenario sick-neighbour
    run crash traces -d $((6 * seconds)) --scenario crash --kill-every 500ms
    for signal in metrics logs-otel; do
        run "$signal-multi" "$signal" -d "$seconds" -m true
        run "$signal-outage" "$signal" -d "$seconds" --scenario outage
        run "$signal-crash" "$signal" -d $((2 * seconds)) --scenario crash --kill-every 500ms
    done
fi
echo "load test: $passed passed, 0 failed"
