# shellcheck shell=bash
# What the bench scripts in Bash share that measure Weir beside something else in its place. Sourced, after
# `set -euo pipefail`. Those in Python have bench.py for it.
#
# A script gets a directory of its own in $dir. What it starts and notes in `pids` ends with it.

dir=$(mktemp -d)
pids=()
stop() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    pids=()
}
trap 'stop; rm -rf "$dir"' EXIT

# KIND PORT: a pipeline that passes on what it gets to the backend on this port.
pipeline() {
    echo "---"
    echo "apiVersion: telemetry.kyma-project.io/v1beta1"
    echo "kind: $1"
    echo "metadata: {name: backend}"
    echo "spec:"
    [[ $1 != LogPipeline ]] || echo "  input: {runtime: {enabled: false}, otlp: {}}"
    echo "  output: {otlp: {compression: none, endpoint: {value: \"http://127.0.0.1:$2\"}}}"
}

until_open() {
    local _
    for _ in $(seq 100); do
        (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.05
    done
    echo "nobody listens on port $1; see the logs above" >&2
    exit 1
}

# Seconds that a process has run, as user and in the kernel.
cpu_seconds() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$1/stat"; }

# What a report of `weir load` says was accepted.
acked_items() { grep -o '"acked_items": *[0-9]*' "$1" | grep -o '[0-9]*$'; }

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
