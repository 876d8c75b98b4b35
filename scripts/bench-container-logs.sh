#!/usr/bin/env bash
# What reading container logs costs: files that are there already, read on one core, and delivered without compression as
# OTLP over gRPC, as the records of output.http, or to nowhere (which takes lines unparsed). All cases take turns; the
# figures are medians of the rounds.
# Usage: bench-container-logs.sh [MB per container, 8 containers] [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/beside.sh
source scripts/beside.sh
weir=${WEIR:-target/release/weir}
megabytes=${1:-50}
rounds=${2:-3}

# FORMAT: otlp, null, or one of output.http
configure() {
    local output="{otlp: {compression: none, endpoint: {value: \"http://127.0.0.1:25317\"}}}"
    case $1 in
    otlp) ;;
    null) output='{custom: "name null"}' ;;
    *) output="{http: {host: {value: 127.0.0.1}, port: \"25318\", tls: {insecure: true}, format: $1, compress: none}}" ;;
    esac
    cat >"$dir/logs.yaml" <<YAML
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: backend}
spec: {output: $output}
YAML
}

delivered() {
    curl --silent --fail localhost:25320/metrics | awk '/^weir_pipeline_delivered_items_total/ { print $2 }'
}

# What was delivered, when that is more than nothing and does not change any more.
until_delivered() {
    local last=-1 now _
    for _ in $(seq 240); do
        sleep 0.5
        now=$(delivered || true)
        if [[ -n $now && $now != 0 && $now == "$last" ]]; then
            echo "$now"
            return
        fi
        last=$now
    done
    echo "not everything was delivered within two minutes" >&2
    exit 1
}

measure() { # SHAPE LINE_SIZE FORMAT
    local pods=$dir/pods lines bytes agent
    rm -rf "$pods" "$dir/data"
    "$weir" load log-files "$pods" --manifest "$dir/manifest.json" --containers 8 --shape "$1" --line-size "$2" \
        --byte-rate $((megabytes * 500000)) --duration 2s --rotate-size 10GiB >"$dir/load.log" 2>&1
    configure "$3"
    taskset -c 1 "$weir" sink --grpc-port 25317 --http-port 25318 --control-port 25319 >"$dir/sink.log" 2>&1 &
    pids+=($!)
    until_open 25318
    taskset -c 0 "$weir" run "$dir/logs.yaml" --pod-logs "$pods" --data-dir "$dir/data" --grpc-port 0 --http-port 0 \
        --metrics-port 25320 --health-port 0 --admin-port 0 --memory 256MiB >"$dir/weir.log" 2>&1 &
    agent=$!
    pids+=("$agent")
    lines=$(until_delivered)
    bytes=$(find "$pods" -name '*.log' -exec cat {} + | wc --bytes)
    if [[ $lines != $(find "$pods" -name '*.log' -exec cat {} + | wc --lines) ]]; then
        echo "$lines lines were delivered, which are not all" >&2
        exit 1
    fi
    awk -v bytes="$bytes" -v lines="$lines" -v cpu="$(cpu_seconds "$agent")" \
        -v rss="$(awk '/VmHWM/ { print $2 }' "/proc/$agent/status")" \
        'BEGIN { printf "%.0f %.0f %.0f\n", bytes / 1e6 / cpu, lines / 1e3 / cpu, rss / 1e3 }' >>"$dir/figures-$1-$2-$3"
    stop
}

cases=("plain 200 otlp" "plain 2000 otlp" "json 400 otlp" "plain 200 null" "json 400 null"
    "plain 200 json" "json 400 json" "json 400 json_lines")
for _ in $(seq "$rounds"); do
    for one in "${cases[@]}"; do
        read -r shape size format <<<"$one"
        measure "$shape" "$size" "$format"
    done
done
for one in "${cases[@]}"; do
    read -r shape size format <<<"$one"
    figures=$dir/figures-$shape-$size-$format
    column() { cut --delimiter=' ' --fields="$1" "$figures" | median; }
    printf '%-5s %4d B, %-10s: %d MB/s and %d thousand lines/s for each second of CPU time, %d MB resident\n' \
        "$shape" "$size" "$format" "$(column 1)" "$(column 2)" "$(column 3)"
done
