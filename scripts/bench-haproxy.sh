#!/usr/bin/env bash
# How much of the gateway's CPU time is the network's: the load of `weir loadtest -t SIGNAL --max`, through a relay that only
# copies bytes (HAProxy in TCP mode, one thread) in the gateway's place, then through Weir, in turn, ROUNDS times. The
# relay reads no request, answers none, and keeps nothing: no gateway can cost less on these sockets. Beside a relay that
# speaks gRPC: scripts/bench-tonic.sh.
#
#   scripts/bench-haproxy.sh logs 5 10        # signal, rounds, seconds; then options of `weir load`
#
# Needs two cores, a release build and haproxy (Debian package).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/beside.sh
source scripts/beside.sh

signal=${1:-logs}
rounds=${2:-5}
seconds=${3:-10}
shift $(($# < 3 ? $# : 3))
load=("$@")
weir=target/release/weir
command -v haproxy >/dev/null || { echo "haproxy is missing: apt-get install haproxy" >&2; exit 2; }

readonly entry=24317 sink=24318
case $signal in
traces) kind=TracePipeline ;;
metrics) kind=MetricPipeline ;;
logs) kind=LogPipeline ;;
*) echo "cannot use signal \"$signal\": use traces, metrics or logs" >&2; exit 2 ;;
esac
pipeline $kind $sink >"$dir/pipeline.yaml"
cat >"$dir/haproxy.cfg" <<CFG
global
  nbthread 1
  tune.bufsize 131072
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen relay
  bind 127.0.0.1:$entry
  server sink 127.0.0.1:$sink
CFG

# NAME COMMAND...: CPU seconds per million items of the command between load and sink.
measure() {
    local name=$1 before after
    shift
    taskset -c 1 "$weir" sink --grpc-port $sink --http-port 0 --control-port 0 >/dev/null 2>"$dir/sink.log" &
    pids+=($!)
    until_open $sink
    taskset -c 0 "$@" 2>"$dir/$name.log" &
    local subject=$!
    pids+=("$subject")
    until_open $entry
    before=$(cpu_seconds "$subject")
    taskset -c 1 "$weir" load "$signal" --endpoint 127.0.0.1:$entry -d "${seconds}s" --max \
        --report "$dir/report.json" "${load[@]}" >/dev/null 2>"$dir/load.log"
    after=$(cpu_seconds "$subject")
    awk -v before="$before" -v after="$after" -v name="$name" -v seconds="$seconds" \
        -v items="$(acked_items "$dir/report.json")" \
        'BEGIN { printf "%s %.3f CPU s/M, %.0f items/s\n", name, (after - before) / items * 1e6, items / seconds }'
    stop
}

for _ in $(seq "$rounds"); do
    measure relay haproxy -f "$dir/haproxy.cfg"
    measure weir "$weir" run "$dir/pipeline.yaml" --no-data-dir --memory 512MiB --grpc-port $entry --http-port 0 \
        --metrics-port 0 --health-port 0 --admin-port 0
done | tee "$dir/rounds"
for name in relay weir; do
    echo "$name: median $(grep "^$name " "$dir/rounds" | awk '{ print $2 }' | median) CPU s/M of $rounds runs"
done
