#!/usr/bin/env bash
# Brings everything that tests/interop needs and that is missing: the peers of bench/peers, the clients in Python, Node.js
# and Java with their SDKs, a program in Go, and binaries of Prometheus and node_exporter, all in .venv. Into the system it
# installs only Debian's packages of openssl, Node.js, a JDK and Maven, each if the command is missing; those of
# Prometheus and node_exporter are unpacked into .venv, so that no service of them is ever started.
# With the argument `python` only the clients in Python, which the tests with a cluster run in too.
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

set_up_node() {
    local programs="$here/programs/node" installed="$venv/node"
    { command -v node && command -v npm; } >/dev/null || install_debian nodejs npm ||
        fail "cannot set up Node.js: no 'node' and 'npm' in PATH; install Node.js >= 18.19"
    cmp -s "$programs/package-lock.json" "$installed/stamp" && return
    mkdir -p "$installed"
    cp "$programs"/package*.json "$installed"
    npm ci --prefix "$installed" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null ||
        fail "cannot install the packages of $programs/package-lock.json into $installed"
    cp "$programs/package-lock.json" "$installed/stamp"
}

set_up_java() {
    local client="$here/programs/java" installed="$venv/java" stamp
    { command -v javac && command -v java && command -v mvn; } >/dev/null || install_debian default-jdk-headless maven ||
        fail "cannot set up Java: no 'javac', 'java' and 'mvn' in PATH; install a JDK >= 17 and Maven"
    stamp=$(cat "$client"/pom.xml "$client"/*.java | sha256sum)
    [[ -f "$installed/stamp" && "$(cat "$installed/stamp")" == "$stamp" ]] && return
    rm -rf "$installed"
    mkdir -p "$installed"
    mvn --quiet --batch-mode --no-transfer-progress --file "$client/pom.xml" \
        org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$installed/lib" ||
        fail "cannot get the libraries of $client/pom.xml"
    javac --release 17 -Xlint:all,-try -Werror -cp "$installed/lib/*" -d "$installed/classes" "$client"/*.java ||
        fail "cannot compile $client"
    echo "$stamp" >"$installed/stamp"
}

# bench/peers/build.sh has seen to it that there is Go.
set_up_go() {
    local program="$here/programs/go" installed="$venv/go" stamp
    stamp="$(go env GOVERSION) $(cat "$program"/* | sha256sum)"
    [[ -f "$installed/stamp" && "$(cat "$installed/stamp")" == "$stamp" ]] && return
    mkdir -p "$installed"
    (cd "$program" && go build -trimpath -o "$installed/pages" .) || fail "cannot build $program (see above)"
    echo "$stamp" >"$installed/stamp"
}

# Unpacks a package of Debian that is a program, and starts no service of it.
set_up_program() { # PACKAGE DIRECTORY COMMAND...
    local package="$1" unpacked="$venv/$2" command
    for command in "${@:3}"; do
        command -v "$command" >/dev/null && return
    done
    [[ -x "$unpacked/usr/bin/$package" ]] && return
    command -v apt-get >/dev/null ||
        fail "cannot get $package: no '$3' in PATH and no apt-get; install it"
    local download="$venv/$package-package"
    mkdir -p "$download"
    (cd "$download" && { apt-get -qq download "$package" 2>/dev/null ||
        { as_root apt-get -qq update && apt-get -qq download "$package"; }; }) ||
        fail "cannot download Debian's package $package; install it by hand"
    dpkg-deb -x "$download/$package"_*.deb "$unpacked"
    rm -rf "$download"
    "$unpacked/usr/bin/$package" --version >/dev/null 2>&1 || fail "the unpacked $unpacked/usr/bin/$package does not run"
}

# What tests of clusters need of these.
if [[ ${1:-} == cluster ]]; then
    set_up_python
    set_up_program prometheus prometheus prometheus
    exit
fi
command -v openssl >/dev/null || install_debian openssl || fail "cannot make test certificates: no 'openssl' in PATH; install openssl"
"$root/bench/peers/build.sh"
set_up_python
set_up_node
set_up_java
set_up_go
# Prometheus >= 2.42
set_up_program prometheus prometheus prometheus
set_up_program prometheus-node-exporter node-exporter prometheus-node-exporter node_exporter
