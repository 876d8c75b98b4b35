#!/usr/bin/env bash
# Renders the chart into deploy/weir.yaml and deploy/telemetry.yaml, for those who have no Helm, after bringing the
# definitions in it up to date.
#   deploy/render.sh           writes them
#   deploy/render.sh --check   fails if they are not what would be written
# HELM and WEIR name the programs; by default those of PATH or tests/cluster/build.sh, and of target.
set -euo pipefail

deploy=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$deploy")
# Who applies the manifest puts the repository in its place.
readonly deploy root namespace=kyma-system image=registry.example.com/weir

fail() {
    echo "deploy/render.sh: $*" >&2
    exit 1
}

# The first of these that can be run.
program() { # NAME PATH...
    local path
    for path in "${@:2}"; do
        ! command -v "$path" >/dev/null || { echo "$path"; return; }
    done
    fail "cannot render: no $1; name it with ${1^^}"
}

cache=${WEIR_CLUSTER_CACHE:-$root/tests/cluster/.cache}
helm=$(program helm "${HELM:-helm}" "$cache/bin/helm")
weir=$(program weir "${WEIR:-$root/target/release/weir}" "$root/target/debug/weir")

render() { # VALUE TEMPLATE...
    "$helm" template weir "$out/chart" --namespace $namespace --kube-version 1.33.0 --set image.repository=$image,"$1" \
        $(printf -- '--show-only templates/%s ' "${@:2}")
}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cp -r "$deploy/chart" "$out/chart"
"$weir" crds --namespace $namespace >"$out/chart/files/crds.yaml"
{
    echo "# Rendered from deploy/chart by deploy/render.sh; see deploy/README.md."
    render createNamespace=true namespace.yaml definitions.yaml priority-class.yaml rights.yaml \
        services.yaml webhooks.yaml deployment.yaml
} >"$out/weir.yaml"
{
    echo "# Rendered from deploy/chart by deploy/render.sh: after weir.yaml, which brings its definition."
    render telemetry.create=true telemetry.yaml | grep -v 'helm.sh/'
} >"$out/telemetry.yaml"

readonly files=(chart/files/crds.yaml weir.yaml telemetry.yaml)
for file in "${files[@]}"; do
    if [[ ${1:-} == --check ]]; then
        cmp --silent "$out/$file" "$deploy/$file" || fail "deploy/$file is not up to date: run deploy/render.sh"
    else
        cp "$out/$file" "$deploy/$file"
    fi
done
