#!/usr/bin/env bash
# What reading container logs costs: files that are there already, read and delivered without compression, on one core.
# Usage: bench-container-logs.sh [MB per container, 8 containers]
set -euo pipefail
cd "$(dirname "$0")/.."
weir=target/release/weir
megabytes=${1:-50}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$work"' EXIT

cat > "$work/logs.yaml" << YAML
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: backend}
spec:
  output:
    otlp:
      endpoint: {value: "http://127.0.0.1:25317"}
      tls: {insecure: true}
      compression: none
YAML

delivered() {
    curl --silent --fail localhost:25320/metrics | awk '/^weir_pipeline_delivered_items_total/ {print $2}'
}

measure() { # SHAPE LINE_SIZE
    local pods=$work/pods lines last now cpu
    rm -rf "$pods" "$work/data"
    "$weir" load log-files "$pods" --manifest "$work/manifest.json" --containers 8 --shape "$1" --line-size "$2" \
        --byte-rate $((megabytes * 500000)) --duration 2s --rotate-size 10GiB > "$work/load.log" 2>&1
    taskset -c 1 "$weir" sink --grpc-port 25317 --http-port 25318 --control-port 25319 > "$work/sink.log" 2>&1 &
    local sink=$!
    taskset -c 0 "$weir" run "$work/logs.yaml" --pod-logs "$pods" --data-dir "$work/data" --grpc-port 0 --http-port 0 \
        --metrics-port 25320 --health-port 0 --admin-port 0 --memory 256MiB > "$work/weir.log" 2>&1 &
    local gateway=$!
    last=-1
    for _ in $(seq 240); do
        sleep 0.5
        now=$(delivered || true)
        if [ -n "$now" ] && [ "$now" != 0 ] && [ "$now" = "$last" ]; then break; fi
        last=$now
    done
    cpu=$(awk -v hz="$(getconf CLK_TCK)" '{print ($14 + $15) / hz}' "/proc/$gateway/stat")
    lines=$(find "$pods" -name '*.log' -exec cat {} + | wc --lines)
    awk -v shape="$1" -v size="$2" -v lines="$lines" -v delivered="$last" -v cpu="$cpu" \
        -v bytes="$(find "$pods" -name '*.log' -exec cat {} + | wc --bytes)" -v rss="$(awk '/VmHWM/ {print $2}' "/proc/$gateway/status")" \
        'BEGIN {printf "%-5s %5d B: %d of %d lines, %.0f MB/s and %.0f thousand lines/s for each second of CPU time, %.0f MB resident\n", shape, size, delivered, lines, bytes / 1e6 / cpu, delivered / 1e3 / cpu, rss / 1e3}'
    kill "$gateway" "$sink"
    wait "$gateway" "$sink" || true
}

measure plain 200
measure plain 2000
measure json 400
