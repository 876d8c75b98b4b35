#!/usr/bin/env bash
# Builds what a cluster needs, once, into tests/cluster/.cache or the directory that WEIR_CLUSTER_CACHE names:
#   bin/kubernetes   etcd, the control plane, kubelet, kube-proxy and kubectl in one binary, and links with their names
#   images/*.tar     pause, CoreDNS, and BusyBox as a pod to try things with
#   bin/kwok         fake nodes by the thousand: only with the argument `kwok`
#   bin/helm         only with the argument `helm`
# Installs Debian's packages of what a node needs beside them, each if its command is missing. Does nothing for what is
# already there in the right version. Needs Go; writes only to the cache and Go's own caches.
set -euo pipefail

# Of k8s.io/kubernetes, its libraries and etcd: see programs/go.mod.
readonly version=1.36.3
readonly kwok_version=0.7.0
readonly helm_version=4.3.1
# Stated by the modules of this version ("go 1.26.0" in their go.mod).
readonly go_needed=1.26

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root cache=${WEIR_CLUSTER_CACHE:-$here/.cache}
readonly bin="$cache/bin" images="$cache/images"
# Static programs, so that they run in images that have nothing else.
export CGO_ENABLED=0
# It saves time that the compiler makes nothing for debuggers, which the linker would throw away, and collects less garbage.
readonly quick=(-trimpath -gcflags=all=-dwarf=false)
export GOGC=400

fail() {
    echo "tests/cluster/build.sh: $*" >&2
    exit 1
}

# The stamp of a file names what it was built from, so that a changed recipe is built again.
is_current() { # FILE STAMP
    [[ -f $1 && -f $1.stamp && $(cat "$1.stamp") == "$2" ]]
}

as_root() {
    if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

require_go() {
    command -v go >/dev/null ||
        fail "cannot build a cluster: no 'go' in PATH; install Go >= $go_needed (https://go.dev/dl)"
    local have
    have=$(go env GOVERSION)
    have=${have#go}
    [[ "$(printf '%s\n%s\n' "$go_needed" "$have" | sort -V | head -n 1)" == "$go_needed" ]] ||
        fail "cannot build a cluster: Go $have is too old; Go >= $go_needed is needed"
}

install_packages() {
    local missing=() needed command package
    for needed in containerd:containerd runc:runc conntrack:conntrack iptables:iptables ip:iproute2 openssl:openssl \
        /usr/lib/cni/bridge:containernetworking-plugins busybox:busybox-static curl:curl python3:python3; do
        command=${needed%%:*} package=${needed#*:}
        PATH=$PATH:/usr/sbin command -v "$command" >/dev/null || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    command -v apt-get >/dev/null || fail "cannot install ${missing[*]}: no apt-get; install them by hand"
    echo "installing: ${missing[*]}" >&2
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

build_program() { # NAME [FLAGS]
    local name=$1 stamp
    stamp="$(go env GOVERSION) ${*:2} $(cat "$here"/programs/go.* "$here/programs/$name"/* | sha256sum)"
    is_current "$bin/$name" "$stamp" && return
    echo "building $name" >&2
    (cd "$here/programs" && go build "${quick[@]}" -buildvcs=false -ldflags "-s -w ${*:2}" -o "$bin/$name" "./$name") ||
        fail "cannot build $name (see above)"
    echo "$stamp" >"$bin/$name.stamp"
}

build_kubernetes() {
    local package=k8s.io/component-base/version name
    build_program kubernetes -X $package.gitVersion=v$version -X $package.gitTreeState=clean \
        -X $package.gitMajor="${version%%.*}" -X $package.gitMinor="$(cut -d. -f2 <<<$version)"
    for name in etcd kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet; do
        ln -sf kubernetes "$bin/$name"
    done
}

install_tool() { # NAME PACKAGE VERSION
    local stamp="$2@v$3"
    is_current "$bin/$1" "$stamp" && return
    echo "building $1 $3" >&2
    GOBIN="$bin" go install "${quick[@]}" -ldflags '-s -w' "$stamp" || fail "cannot build $1: 'go install $stamp' failed"
    echo "$stamp" >"$bin/$1.stamp"
}

pack() { # NAME PROGRAM [LINKS]: an image of one program, and links to it
    local image="$images/$1.tar" stamp content link
    stamp=$(cat "$2" "$root/deploy/image/pack.py" "${BASH_SOURCE[0]}" | sha256sum)
    is_current "$image" "$stamp" && return
    content=$(mktemp -d)
    install -D -m 0755 "$2" "$content/bin/$1"
    # Programs use the directory for temporary files without asking.
    install -d -m 1777 "$content/tmp"
    for link in "${@:3}"; do ln -sf "$1" "$content/bin/$link"; done
    "$root/deploy/image/pack.py" "weir.test/$1:1" "$content" "$image" --entrypoint "/bin/$1" >&2
    rm -rf "$content"
    echo "$stamp" >"$image.stamp"
}

build_images() {
    local applets
    build_program pause
    build_program coredns
    pack pause "$bin/pause"
    pack coredns "$bin/coredns"
    applets=$(busybox --list | grep -vx busybox)
    # shellcheck disable=SC2086 # one word for each applet
    pack busybox "$(command -v busybox)" $applets
}

mkdir -p "$bin" "$images"
install_packages
require_go
case "${1:-}" in
"")
    build_kubernetes
    build_images
    ;;
kwok) install_tool kwok sigs.k8s.io/kwok/cmd/kwok $kwok_version ;;
helm) install_tool helm helm.sh/helm/v4/cmd/helm $helm_version ;;
*) fail "cannot build '$1': there are 'kwok' and 'helm', or nothing for a cluster" ;;
esac
