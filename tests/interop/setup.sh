#!/usr/bin/env bash
# Brings everything that tests/interop needs and that is missing: the peers of bench/peers, a Python
# environment in .venv, and a Prometheus binary. Nothing is installed into the system: Debian's prometheus
# package is unpacked into .venv, so that no service of it is ever started.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root venv="$root/.venv"

fail() {
    echo "tests/interop/setup.sh: $*" >&2
    exit 1
}

as_root() {
    if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

install_debian() {
    as_root apt-get -qq update && as_root apt-get -qq -y install "$@"
}

set_up_python() {
    command -v python3 >/dev/null || fail "cannot set up Python: no 'python3' in PATH; install python3 (>= 3.10) and python3-venv"
    local stamp="$venv/requirements.stamp"
    cmp -s "$here/requirements.txt" "$stamp" && return
    python3 -m venv "$venv" || { install_debian python3-venv && python3 -m venv "$venv"; } ||
        fail "cannot create $venv: install python3-venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" ||
        fail "cannot install tests/interop/requirements.txt into $venv"
    cp "$here/requirements.txt" "$stamp"
}

set_up_prometheus() {
    command -v prometheus >/dev/null && return
    [[ -x "$venv/prometheus/usr/bin/prometheus" ]] && return
    command -v apt-get >/dev/null ||
        fail "cannot get Prometheus: no 'prometheus' in PATH and no apt-get; install Prometheus >= 2.42"
    local download="$venv/prometheus-package"
    mkdir -p "$download"
    (cd "$download" && { apt-get -qq download prometheus 2>/dev/null ||
        { as_root apt-get -qq update && apt-get -qq download prometheus; }; }) ||
        fail "cannot download Debian's prometheus package; install Prometheus >= 2.42 by hand"
    dpkg-deb -x "$download"/prometheus_*.deb "$venv/prometheus"
    rm -rf "$download"
    "$venv/prometheus/usr/bin/prometheus" --version >/dev/null 2>&1 ||
        fail "the unpacked $venv/prometheus/usr/bin/prometheus does not run"
}

command -v openssl >/dev/null || install_debian openssl || fail "cannot make test certificates: no 'openssl' in PATH; install openssl"
"$root/bench/peers/build.sh"
set_up_python
set_up_prometheus
