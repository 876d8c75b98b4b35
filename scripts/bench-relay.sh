#!/usr/bin/env bash
# How much of the gateway's CPU time is the network's: the load of `weir loadtest -t SIGNAL --max`, through a relay that only
# copies bytes (HAProxy in TCP mode, one thread) in the gateway's place, then through Weir, in turn, ROUNDS times. The
# relay reads no request, answers none, and keeps nothing: no gateway can cost less on these sockets.
#
#   scripts/bench-relay.sh logs 5 10        # signal, rounds, seconds
#
# Needs two cores, a release build and haproxy (Debian package).
set -euo pipefail
cd "$(dirname "$0")/.."

signal=${1:-logs}
rounds=${2:-5}
seconds=${3:-10}
shift $(($# < 3 ? $# : 3))
weir=target/release/weir
command -v haproxy >/dev/null || { echo "haproxy is missing: apt-get install haproxy" >&2; exit 2; }
dir=$(mktemp -d)
pids=()
stop() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    pids=()
}
trap 'stop; rm -rf "$dir"' EXIT

readonly entry=24317 sink=24318
case $signal in
traces) kind=TracePipeline input= ;;
metrics) kind=MetricPipeline input= ;;
logs) kind=LogPipeline input='input: {runtime: {enabled: false}, otlp: {}}' ;;
*) echo "cannot use signal \"$signal\": use traces, metrics or logs" >&2; exit 2 ;;
esac
cat >"$dir/pipeline.yaml" <<YAML
apiVersion: telemetry.kyma-project.io/v1beta1
kind: $kind
metadata: {name: backend}
spec:
  $input
  output: {otlp: {compression: none, endpoint: {value: "http://127.0.0.1:$sink"}}}
YAML
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

# User and system time of a process, in clock ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

until_open() {
    local _
    for _ in $(seq 100); do
        (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.05
    done
    echo "nobody listens on port $1; see the logs above" >&2
    exit 1
}

# NAME COMMAND...: CPU seconds per million items of the command between load and sink.
measure() {
    local name=$1 before
    shift
    taskset -c 1 "$weir" sink --grpc-port $sink --http-port 0 --control-port 0 2>"$dir/sink.log" &
    pids+=($!)
    until_open $sink
    taskset -c 0 "$@" 2>"$dir/$name.log" &
    pids+=($!)
    local subject=$!
    until_open $entry
    before=$(ticks $subject)
    taskset -c 1 "$weir" load "$signal" --endpoint 127.0.0.1:$entry -d "${seconds}s" --max \
        --report "$dir/report.json" "${load[@]}" >/dev/null 2>"$dir/load.log"
    awk -v ticks=$(($(ticks $subject) - before)) -v hz="$(getconf CLK_TCK)" -v name="$name" -v seconds="$seconds" \
        -v items="$(grep -o '"acked_items": *[0-9]*' "$dir/report.json" | grep -o '[0-9]*$')" \
        'BEGIN { printf "%s %.3f CPU s/M, %.0f items/s\n", name, ticks / hz / items * 1e6, items / seconds }'
    stop
}

load=("$@")
for _ in $(seq "$rounds"); do
    measure relay haproxy -f "$dir/haproxy.cfg"
    measure weir "$weir" run "$dir/pipeline.yaml" --no-data-dir --memory 512MiB --grpc-port $entry --http-port 0 \
        --metrics-port 0 --health-port 0 --admin-port 0
done | tee "$dir/rounds"
for name in relay weir; do
    grep "^$name " "$dir/rounds" | awk '{ print $2 }' | sort -n |
        awk -v name=$name '{ all[NR] = $1 } END { printf "%s: median %.3f CPU s/M of %d runs\n", name, all[int((NR + 1) / 2)], NR }'
done
