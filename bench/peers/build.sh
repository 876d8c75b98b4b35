#!/usr/bin/env bash
# Builds the peers that Weir is measured against and tested with, into bench/peers/bin:
#   otelcol       the OpenTelemetry Collector with the components of builder.yaml, by its official builder
#   telemetrygen  the OpenTelemetry load generator
#   goregexp      what Go's regexp package makes of patterns, by the program in goregexp
#   vmagent       the agent of VictoriaMetrics, and prometheus: only with the argument `scrapers`, because their code is
#                 large (about eight minutes of one core)
# Does nothing for a binary that is already there in the right version. Needs Go; installs nothing else
# and writes only to bench/peers/bin, bench/peers/build and Go's own caches.
set -euo pipefail

readonly version=0.158.0
# 0.158.0 of this one cannot be downloaded as a Go module ("not available"); this is the next version that can.
readonly telemetrygen_version=0.160.0
readonly vmagent_version=1.130.0
readonly prometheus_version=0.307.3
# Stated by the modules of this version ("go 1.25.0" in their go.mod).
readonly go_needed=1.25

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly bin="$here/bin" build="$here/build"

fail() {
    echo "bench/peers/build.sh: $*" >&2
    exit 1
}

# The stamp of a binary names what it was built from, so that a changed recipe is built again.
is_current() {
    [[ -x "$bin/$1" && -f "$bin/$1.stamp" && "$(cat "$bin/$1.stamp")" == "$2" ]]
}

require_go() {
    command -v go >/dev/null || fail "cannot build peers: no 'go' in PATH; install Go >= $go_needed (https://go.dev/dl)"
    local have
    have=$(go env GOVERSION)
    have=${have#go}
    [[ "$(printf '%s\n%s\n' "$go_needed" "$have" | sort -V | head -n 1)" == "$go_needed" ]] ||
        fail "cannot build peers: Go $have is too old; Go >= $go_needed is needed"
}

install_tool() { # NAME MODULE VERSION
    local stamp="$2@v$3"
    is_current "$1" "$stamp" && return
    require_go
    echo "building $1 $3" >&2
    GOBIN="$bin" go install -trimpath "$stamp" || fail "cannot build $1: 'go install $stamp' failed"
    echo "$stamp" >"$bin/$1.stamp"
}

build_collector() {
    local stamp
    stamp=$(sha256sum <"$here/builder.yaml")
    is_current otelcol "$stamp" && return
    install_tool builder go.opentelemetry.io/collector/cmd/builder "$version"
    require_go
    echo "building otelcol $version" >&2
    (cd "$here" && "$bin/builder" --config builder.yaml) || fail "cannot build otelcol: the builder failed (see above)"
    install -m 0755 "$build/otelcol/otelcol" "$bin/otelcol"
    "$bin/otelcol" --version | grep -qF "$version" || fail "otelcol says it is $("$bin/otelcol" --version), not $version"
    echo "$stamp" >"$bin/otelcol.stamp"
}

build_goregexp() {
    require_go
    local stamp
    stamp="$(go env GOVERSION) $(cat "$here"/goregexp/* | sha256sum)"
    is_current goregexp "$stamp" && return
    echo "building goregexp with $(go env GOVERSION)" >&2
    (cd "$here/goregexp" && go build -trimpath -o "$bin/goregexp" .) || fail "cannot build goregexp (see above)"
    echo "$stamp" >"$bin/goregexp.stamp"
}

# `go install` refuses modules that replace others; a copy of a module's directory can be built.
build_from_copy() { # NAME MODULE VERSION PACKAGE [FLAGS]
    local stamp="$2@v$3" name=$1 package=$4 source
    is_current "$name" "$stamp" && return
    require_go
    echo "building $name $3" >&2
    source=$(cd "$build" && go mod download -json "$stamp" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    [[ -d $source ]] || fail "cannot build $name: 'go mod download $stamp' failed"
    rm -rf "${build:?}/$name"
    cp -r "$source" "$build/$name"
    chmod -R u+w "$build/$name"
    (cd "$build/$name" && CGO_ENABLED=0 go build -trimpath -mod=mod "${@:5}" -o "$bin/$name" "$package") ||
        fail "cannot build $name (see above)"
    rm -rf "${build:?}/$name"
    echo "$stamp" >"$bin/$name.stamp"
}

build_scrapers() {
    build_from_copy vmagent github.com/VictoriaMetrics/VictoriaMetrics "$vmagent_version" ./app/vmagent
    build_from_copy prometheus github.com/prometheus/prometheus "$prometheus_version" ./cmd/prometheus -tags remove_all_sd
    echo "peers ready in $bin: vmagent $vmagent_version, prometheus $prometheus_version" >&2
}

mkdir -p "$bin" "$build"
[[ ${1:-} != scrapers ]] || build_scrapers
build_collector
build_goregexp
install_tool telemetrygen github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen "$telemetrygen_version"
echo "peers ready in $bin: otelcol $version, telemetrygen $telemetrygen_version, goregexp" >&2
