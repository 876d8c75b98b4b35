#!/usr/bin/env bash
# Brings what tests/page needs and is missing: Debian's packages of Chromium and its driver, and the packages of
# requirements.txt, in .venv of the repository, which tests/interop uses as well.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root venv="$root/.venv"

fail() {
    echo "tests/page/setup.sh: $*" >&2
    exit 1
}

as_root() {
    if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

install_debian() {
    as_root apt-get -qq update && as_root apt-get -qq -y install "$@"
}

command -v chromium >/dev/null || install_debian chromium || fail "no 'chromium' in PATH; install it"
command -v chromedriver >/dev/null || install_debian chromium-driver || fail "no 'chromedriver' in PATH; install chromium-driver"
command -v python3 >/dev/null || fail "no 'python3' in PATH; install python3 (>= 3.10) and python3-venv"

readonly stamp="$venv/page.stamp"
cmp -s "$here/requirements.txt" "$stamp" && exit
[[ -x "$venv/bin/pip" ]] || python3 -m venv "$venv" || { install_debian python3-venv && python3 -m venv "$venv"; } ||
    fail "cannot create $venv: install python3-venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" ||
    fail "cannot install tests/page/requirements.txt into $venv"
cp "$here/requirements.txt" "$stamp"
