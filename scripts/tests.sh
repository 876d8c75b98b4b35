#!/usr/bin/env bash
# Runs all tests of the workspace, several programs at a time, because most of them wait more than they compute.
# Cargo builds them and says what it would run, so nothing has to be listed here. Of a program that fails, all output is
# shown.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=$PWD/target/tests
rm -rf "$logs"
mkdir -p "$logs"

# The directory and the path of each program. Large ones come first: they link the whole gateway, and take longest.
list='echo "$(stat -c %s "$0") $PWD $0"'
cargo test --workspace --tests --config "target.'cfg(all())'.runner = ['sh', '-c', '''$list''']" |
    sort --numeric-sort --reverse | cut --delimiter=' ' --fields=2- >"$logs/all"
[[ -s "$logs/all" ]] || { echo "scripts/tests.sh: cargo named no tests" >&2; exit 1; }

run() {
    local log=$logs/${2##*/}.log
    cd "$1"
    # Without --show-output, what a test says that passes is not even in its log.
    if CARGO_MANIFEST_DIR=$1 "$2" --show-output >"$log" 2>&1; then
        sed -n "s|^test result: |${2##*/}: &|p" "$log"
    else
        echo "${2##*/}: FAILED"
        mv "$log" "$log.failed"
        return 1
    fi
}
export -f run
export logs

# So do the tests of each program.
export RUST_TEST_THREADS=$((2 * $(nproc)))

failed=0
xargs --max-procs=$(($(nproc) + 1)) --max-lines=1 bash -c 'run "$0" "$1"' <"$logs/all" || failed=1
cargo test --workspace --doc --quiet >"$logs/doc.log" 2>&1 || { failed=1 && mv "$logs/doc.log" "$logs/doc.log.failed"; }

if ((failed)); then
    find "$logs" -name '*.failed' -exec cat {} +
    # Once more at the end, where it is seen however long the output is.
    grep --no-filename --after-context=4 ' panicked at ' "$logs"/*.failed || true
    find "$logs" -name '*.failed' -printf 'tests: FAILED, see above: %f\n'
    exit 1
fi
# What could not be tested on this machine must not go unnoticed: its tests count as passed.
find "$logs" -name '*.log' ! -name doc.log -exec sed -n 's|^warning: |tests: NOT TESTED: |p' {} + | sort --unique
cat "$logs"/*.log | awk '/^test result: ok/ { passed += $4 } END { print "tests: " passed " passed, 0 failed" }'
