#!/usr/bin/env bash
# The figures of the log agent that are no rates: 10,000 idle files, the time from a write to delivery with 1,000 files, and
# memory at 50 MB/s. Weir has the first core, generator and sink the second.
# Usage: bench-log-agent.sh [SECONDS for each]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/beside.sh
source scripts/beside.sh
weir=${WEIR:-target/release/weir}
seconds=${1:-20}

start() {
    taskset -c 1 "$weir" sink --log-lines --grpc-port 25317 --http-port 25318 --control-port 25319 >"$dir/sink.log" 2>&1 &
    pids+=($!)
    until_open 25317
    mkdir -p "$dir/pods"
    {
        pipeline LogPipeline 25317 | sed 's/enabled: false/enabled: true/'
    } >"$dir/logs.yaml"
    taskset -c 0 "$weir" run "$dir/logs.yaml" --pod-logs "$dir/pods" --data-dir "$dir/data" --grpc-port 0 --http-port 0 \
        --metrics-port 25320 --health-port 0 --admin-port 0 >"$dir/weir.log" 2>&1 &
    agent=$!
    pids+=("$agent")
    until_open 25320
}

write() { taskset -c 1 "$weir" load log-files "$dir/pods" --manifest "$dir/manifest.json" "$@" >"$dir/load.log" 2>&1; }

# A number of the sink's report.
reported() { curl --silent --fail localhost:25319/report | grep -o "\"$1\": *[0-9.]*" | head -n 1 | grep -o '[0-9.]*$'; }

until_delivered() {
    local lines _
    lines=$(grep -o '"lines": *[0-9]*' "$dir/manifest.json" | head -n 1 | grep -o '[0-9]*$')
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
before=$(cpu_seconds "$agent")
sleep "$seconds"
awk -v before="$before" -v after="$(cpu_seconds "$agent")" -v seconds="$seconds" \
    'BEGIN { printf "10,000 idle files: %.2f %% of a core, ", (after - before) / seconds * 100 }'
end

start
write --containers 1000 --rate 10 --duration "${seconds}s"
until_delivered
curl --silent --fail localhost:25319/report | tr -d '\n' | grep -o '"latency_ms": *{[^}]*}' |
    sed 's/.*"p50": *\([0-9.]*\).*"p99": *\([0-9.]*\).*"max": *\([0-9.]*\).*/\1 \2 \3/' |
    awk '{ printf "1,000 files, 10 lines/s each: from write to delivery %.0f ms (median), %.0f ms (99th percentile), %.0f ms at most, ", $1, $2, $3 }'
awk -v cpu="$(cpu_seconds "$agent")" -v seconds="$seconds" 'BEGIN { printf "%.0f %% of a core, ", cpu / seconds * 100 }'
end

start
write --containers 10 --byte-rate 5MB --duration "${seconds}s" --rotate-size 10MiB
until_delivered
grep -o '"bytes": *[0-9]*' "$dir/manifest.json" | head -n 1 | grep -o '[0-9]*$' |
    awk -v cpu="$(cpu_seconds "$agent")" -v seconds="$seconds" '{ printf "%.0f MB/s: %.0f %% of a core, ", $1 / 1e6 / seconds, cpu / seconds * 100 }'
end
