#!/usr/bin/env bash
# The figures of the log agent that are no rates: 10,000 idle files, the time from a write to delivery with 1,000 files, and
# memory at 50 MB/s. Weir has the first core, generator and sink the second.
# Usage: bench-log-agent.sh [SECONDS for each; at least 60 for the idle files, at which Weir looks every 30 s]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/beside.sh
source scripts/beside.sh
weir=${WEIR:-target/release/weir}
seconds=${1:-20}

# [FIELDS]: of `output.http` beside those of the address; otherwise OTLP.
start() {
    taskset -c 1 "$weir" sink --log-lines --grpc-port 25317 --http-port 25318 --control-port 25319 >"$dir/sink.log" 2>&1 &
    pids+=($!)
    until_open 25317
    mkdir -p "$dir/pods"
    pipeline LogPipeline 25317 | sed 's/enabled: false/enabled: true/' >"$dir/logs.yaml"
    if [[ -n ${1:-} ]]; then
        sed --in-place "s/, otlp: {}//; s/output: .*/output: {http: {host: {value: 127.0.0.1}, port: \"25318\", tls: {insecure: true}, $1}}/" \
            "$dir/logs.yaml"
    fi
    taskset -c 0 "$weir" run "$dir/logs.yaml" --pod-logs "$dir/pods" --data-dir "$dir/data" --grpc-port 0 --http-port 0 \
        --metrics-port 25320 --health-port 0 --admin-port 0 >"$dir/weir.log" 2>&1 &
    agent=$!
    pids+=("$agent")
    until_open 25320
}

write() { taskset -c 1 "$weir" load log-files "$dir/pods" --manifest "$dir/manifest.json" "$@" >"$dir/load.log" 2>&1; }

# TEXT KEY: the first number with this key.
number() { [[ $1 =~ \"$2\":\ *([0-9.]+) ]] && echo "${BASH_REMATCH[1]}"; }
reported() { number "$(curl --silent --fail localhost:25319/report)" "$1"; }
written() { number "$(cat "$dir/manifest.json")" "$1"; }

until_delivered() {
    local lines _
    lines=$(written lines)
    for _ in $(seq 600); do
        [[ $(reported received) -lt $lines ]] || return 0
        sleep 0.1
    done
    echo "of $lines lines $(reported received) arrived" >&2
    exit 1
}

end() {
    awk '/VmHWM/ { printf "%.0f MB resident at most\n", $2 / 1e3 }' "/proc/$agent/status"
    stop
    rm -rf "$dir/pods" "$dir/data"
}

start
write --containers 10000 --lines 10
until_delivered
# The first look at everything lists all directories once more: they are too young to be told apart by their times.
sleep 35
before=$(cpu_seconds "$agent")
sleep "$seconds"
awk -v before="$before" -v after="$(cpu_seconds "$agent")" -v seconds="$seconds" \
    'BEGIN { printf "10,000 idle files: %.2f %% of a core, ", (after - before) / seconds * 100 }'
end

for fields in "" "format: json, compress: none"; do
    start "$fields"
    write --containers 1000 --rate 10 --duration "${seconds}s"
    until_delivered
    latency=$(curl --silent --fail localhost:25319/report | tr -d '\n')
    latency=${latency#*\"latency_ms\"}
    printf '1,000 files, 10 lines/s each, %s: from write to delivery %.1f ms (median), %.1f ms (99th percentile), %.0f ms at most, ' \
        "${fields:-OTLP}" "$(number "$latency" p50)" "$(number "$latency" p99)" "$(number "$latency" max)"
    awk -v cpu="$(cpu_seconds "$agent")" -v seconds="$seconds" 'BEGIN { printf "%.0f %% of a core, ", cpu / seconds * 100 }'
    end
done

start
write --containers 10 --byte-rate 5MB --duration "${seconds}s" --rotate-size 10MiB
until_delivered
awk -v bytes="$(written bytes)" -v cpu="$(cpu_seconds "$agent")" -v seconds="$seconds" \
    'BEGIN { printf "%.0f MB/s: %.0f %% of a core, ", bytes / 1e6 / seconds, cpu / seconds * 100 }'
end
