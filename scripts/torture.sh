#!/usr/bin/env bash
# The four trace scenarios of the load test for SECONDS each: every acknowledged span must have
# arrived, so that each command's exit code is the verdict.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-10}
out=target/torture
rm -rf "$out"
passed=0
for scenario in "single" "multi -m true" "backpressure -b true" "multi-backpressure -m true -b true"; do
    read -r name flags <<<"$scenario"
    # shellcheck disable=SC2086
    target/release/weir loadtest -t traces -n "$name" -d "$seconds" -o "$out/$name" $flags
    passed=$((passed + 1))
done
echo "load test: $passed passed, 0 failed"
