#!/usr/bin/env bash
# Weir beside the least that a gateway over gRPC costs: a bare tonic relay that holds each message as bytes and sends it on
# (`crates/loadtest/examples/relay.rs`), once announcing HTTP/2 frames of 1 MiB to clients and once of 16 KiB. In each
# shape all three get the same load in turn, ROUNDS times, each on core CORE alone; load and sink share the other cores.
# Beside a relay that knows no gRPC: scripts/bench-haproxy.sh.
#
#   scripts/bench-tonic.sh [ROUNDS [SECONDS [SHAPE...]]]     # 3 rounds of 5 s in every shape
#   CORE=3 OTHERS=0-2 WEIR=old/weir scripts/bench-tonic.sh 3 5 span-455
#   SINK_FRAME_BYTES=1048576 scripts/bench-tonic.sh          # with a sink that takes larger frames, too
#
# Prints items per CPU second (user and system time of the process, from /proc) in thousands: the median of all rounds, and
# the median of Weir's ratio to each relay in the same round. Needs `cargo build --release` of the program and of
# `-p weir-loadtest --example relay`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/beside.sh
source scripts/beside.sh

rounds=${1:-3}
seconds=${2:-5}
shift $(($# < 2 ? $# : 2))
core=${CORE:-0} others=${OTHERS:-1}
weir=${WEIR:-target/release/weir}
relay=${RELAY:-target/release/examples/relay}
judge=${JUDGE:-target/release/weir}
readonly entry=24327 sink=24328

# What is sent in each shape.
declare -A shapes=(
    [span-3200]="traces --batch 512"
    [span-455]="traces --batch 1000 --attributes 5 --attribute-bytes 64"
    [span-215]="traces --batch 512 --attributes 5 --attribute-bytes 16"
    [span-220x10]="traces --batch 10 --attributes 5 --attribute-bytes 16 -c 64"
    [record-2000]="logs --batch 512"
)
order=("$@")
((${#order[@]})) || order=(span-3200 span-455 span-215 span-220x10 record-2000)

for kind in TracePipeline LogPipeline; do pipeline $kind $sink; done >"$dir/pipelines.yaml"

# SHAPE COMMAND...: thousands of items that the command passes on per CPU second.
measure() {
    local shape=$1 before after
    shift
    taskset -c "$others" "$judge" sink --grpc-port $sink --http-port 0 --control-port 0 \
        --frame-bytes "${SINK_FRAME_BYTES:-16384}" >/dev/null 2>"$dir/sink.log" &
    pids+=($!)
    until_open $sink
    taskset -c "$core" "$@" >"$dir/subject.log" 2>&1 &
    local subject=$!
    pids+=("$subject")
    until_open $entry
    before=$(cpu_seconds "$subject")
    # shellcheck disable=SC2086
    taskset -c "$others" "$judge" load ${shapes[$shape]} --max --endpoint 127.0.0.1:$entry -d "${seconds}s" \
        --report "$dir/report.json" >/dev/null 2>"$dir/load.log"
    after=$(cpu_seconds "$subject")
    awk -v before="$before" -v after="$after" -v items="$(acked_items "$dir/report.json")" \
        'BEGIN { printf "%.1f\n", items / 1000 / (after - before) }'
    stop
}

printf '%-12s %9s %12s %12s %10s %10s\n' shape weir relay-1MiB relay-16KiB /1MiB /16KiB
for shape in "${order[@]}"; do
    : >"$dir/rounds"
    for _ in $(seq "$rounds"); do
        large=$(measure "$shape" "$relay" --listen 127.0.0.1:$entry --backend http://127.0.0.1:$sink --frame-bytes 1048576)
        own=$(measure "$shape" "$weir" run "$dir/pipelines.yaml" --no-data-dir --memory 512MiB --grpc-port $entry \
            --http-port 0 --metrics-port 0 --health-port 0 --admin-port 0)
        small=$(measure "$shape" "$relay" --listen 127.0.0.1:$entry --backend http://127.0.0.1:$sink --frame-bytes 16384)
        echo "$own $large $small" >>"$dir/rounds"
    done
    printf '%-12s %9s %12s %12s %10.2f %10.2f\n' "$shape" \
        "$(awk '{ print $1 }' "$dir/rounds" | median)" "$(awk '{ print $2 }' "$dir/rounds" | median)" \
        "$(awk '{ print $3 }' "$dir/rounds" | median)" "$(awk '{ print $1 / $2 }' "$dir/rounds" | median)" \
        "$(awk '{ print $1 / $3 }' "$dir/rounds" | median)"
done
