#!/usr/bin/env bash
# Runs the tests that need a cluster. Arguments go to pytest. Without arguments it runs all of them, and those of the
# workspace that need an API server: where there was none, `make test` has left them out.
#   run.sh short   only test_short.py, which needs no Helm; on a machine that cannot have a cluster it says so, and that is all
# WEIR=PATH tests that binary; otherwise target/release/weir is built and tested.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root

if [[ ${1:-} == short ]]; then
    "$here/cluster.sh" can-up || { echo "tests/cluster/run.sh: NOT TESTED on this machine, see above" >&2; exit 0; }
    set -- test_short.py "${@:2}"
else
    "$here/build.sh" helm
    "$here/build.sh" kwok
fi
"$here/build.sh"
"$root/tests/interop/setup.sh" cluster
if [[ -z "${WEIR:-}" ]]; then
    (cd "$root" && cargo build --release --locked -p weir)
    WEIR="${CARGO_TARGET_DIR:-$root/target}/release/weir"
fi
[[ -x "$WEIR" ]] || { echo "tests/cluster/run.sh: WEIR=$WEIR is not an executable file" >&2; exit 1; }
if (($# == 0)); then
    # Of the whole workspace, so that what `make test` has built is used again.
    (
        WEIR_CLUSTER_BIN=$(realpath "${WEIR_CLUSTER_CACHE:-$here/.cache}/bin")
        export WEIR_CLUSTER_BIN
        cd "$root"
        cargo test --workspace --test api_server
        cargo test --workspace --test program node::
    )
fi
WEIR=$(realpath "$WEIR")
export WEIR PYTHONDONTWRITEBYTECODE=1
cd "$here"
exec "$root/.venv/bin/python" -m pytest "$@"
