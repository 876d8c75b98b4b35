#!/usr/bin/env bash
# What the journal costs per CPU second of the gateway: everything is written while the backend is down, and read back and
# delivered when it returns. The raw figure of the same disk is taken in the same run. Then many parked batches: what
# they cost while they wait. Seconds of load are the first argument.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-8}
weir=target/release/weir
out=target/bench-journal
rm -rf "$out" && mkdir -p "$out"
pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; }
trap stop EXIT

# The gateway has the first core to itself where there are two.
if [ "$(nproc)" -ge 2 ]; then ours=(taskset -c 0) theirs=(taskset -c 1); else ours=() theirs=(); fi
metrics=127.0.0.1:28888
figure() { curl -s "http://$metrics/metrics" | awk -v name="$1" '$1 == name || index($1, name "{") == 1 { sum += $2 } END { printf "%.6f", sum }'; }
# Waits until the figure is what the condition on x says.
until_figure() {
    for _ in $(seq 1200); do
        awk -v x="$(figure "$1")" "BEGIN { exit !($2) }" && return
        sleep 0.1
    done
    echo "$1 is still $(figure "$1") after two minutes, not $2" >&2
    exit 1
}
per() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.0f", a / b / 1e6 }'; }

manifest() { printf 'apiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata:\n  name: backend\n  annotations:\n    weir.dev/backlog-max-bytes: 40Gi\nspec:\n  output:\n    otlp:\n      compression: none\n      endpoint:\n        value: http://127.0.0.1:24318\n'; }
manifest > "$out/pipeline.yaml"

gateway() {
    "${ours[@]}" "$weir" run "$out/pipeline.yaml" --data-dir "$out/data" --grpc-port 24317 --http-port 24316 --metrics-port 28888 \
        --health-port 23133 --admin-port 0 --log-format json "$@" 2>> "$out/gateway.log" &
    pids+=($!)
    for _ in $(seq 100); do curl -sf http://127.0.0.1:23133/ > "$out/health" && return; sleep 0.1; done
    echo "the gateway does not start; see $out/gateway.log" >&2
    exit 1
}

raw_started=$(date +%s.%N)
dd if=/dev/zero of="$out/raw" bs=4M count=256 oflag=dsync 2> "$out/dd.log"
raw=$(per 1073741824 "$(awk -v a="$raw_started" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')")
rm "$out/raw"

gateway
"${theirs[@]}" "$weir" load traces --endpoint 127.0.0.1:24317 --max --concurrency 32 --duration "${seconds}s" --retry > "$out/load.log" 2>&1
spilled=$(figure weir_journal_spilled_bytes_total)
cpu=$(figure otelcol_process_cpu_seconds_total)
echo "raw disk, 4 MiB writes, each synced:  $raw MB/s"
echo "written:                              $(per "$spilled" "$seconds") MB/s, $(per "$spilled" "$cpu") MB per CPU second ($(figure weir_pipeline_backlog_items | cut -d. -f1) spans)"

read_before=$(figure weir_journal_read_back_bytes_total)
"${theirs[@]}" "$weir" sink --grpc-port 24318 --http-port 0 --control-port 0 > "$out/sink.log" 2>&1 &
pids+=($!)
until_figure weir_pipeline_pending_items 'x == 0'
read_back=$(awk -v a="$(figure weir_journal_read_back_bytes_total)" -v b="$read_before" 'BEGIN { print a - b }')
echo "read back and delivered:              $(per "$read_back" "$(awk -v a="$(figure otelcol_process_cpu_seconds_total)" -v b="$cpu" 'BEGIN { print a - b }')") MB per CPU second"
echo "resident memory:                      $(per "$(figure otelcol_process_memory_rss)" 1) MB"
stop
pids=()
rm -rf "$out/data"

# A backend that takes four requests in ten and wants to see the others again in five minutes.
"${theirs[@]}" "$weir" sink --grpc-port 24318 --http-port 0 --control-port 0 --fault 503:60 --retry-after 300 > "$out/sink.log" 2>&1 &
pids+=($!)
gateway
rss_before=$(figure otelcol_process_memory_rss)
"${theirs[@]}" "$weir" load traces --endpoint 127.0.0.1:24317 --max --concurrency 256 --attributes 5 --attribute-bytes 16 --duration 1h --retry > "$out/load.log" 2>&1 &
load=$!
pids+=("$load")
until_figure weir_pipeline_parked_batches 'x >= 10000'
kill "$load"
sleep 10
cpu=$(figure otelcol_process_cpu_seconds_total)
sleep 10
echo "parked batches:                       $(figure weir_pipeline_parked_batches | cut -d. -f1) with $(per "$(figure weir_pipeline_backlog_bytes)" 1) MB of payload"
echo "resident memory, and before:          $(per "$(figure otelcol_process_memory_rss)" 1) MB, $(per "$rss_before" 1) MB"
echo "CPU while they wait:                  $(awk -v a="$(figure otelcol_process_cpu_seconds_total)" -v b="$cpu" 'BEGIN { printf "%.2f", (a - b) * 10 }') % of a core"
