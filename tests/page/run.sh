#!/usr/bin/env bash
# Clicks through the page of real processes, in Chromium without a window. Arguments go to pytest; --screenshots=DIR leaves
# pictures there. WEIR=PATH tests that binary; otherwise target/release/weir is built and tested.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root

"$here/setup.sh"
if [[ -z "${WEIR:-}" ]]; then
    (cd "$root" && cargo build --release --locked -p weir)
    WEIR="${CARGO_TARGET_DIR:-$root/target}/release/weir"
fi
[[ -x "$WEIR" ]] || { echo "tests/page/run.sh: WEIR=$WEIR is not an executable file" >&2; exit 1; }
WEIR=$(realpath "$WEIR")
export WEIR PYTHONDONTWRITEBYTECODE=1
cd "$here"
exec "$root/.venv/bin/python" -m pytest "$@"
