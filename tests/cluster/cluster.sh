#!/usr/bin/env bash
# A Kubernetes cluster of this machine, for tests. What it is made of comes from build.sh.
#
#   cluster.sh up [NODES]           control plane, one to three real nodes, and DNS; needs root
#   cluster.sh api                  etcd and an API server only, on free ports of the loopback address
#   cluster.sh can-up               whether this machine can have nodes; says what it lacks
#   cluster.sh down                 ends all of it and leaves nothing
#   cluster.sh status               what runs
#   cluster.sh load-image FILE...   gives images to every node
#   cluster.sh kill NAME            ends a process or node as a crash does; the names are those of `status`
#   cluster.sh start NAME           starts it again
#   cluster.sh in NODE COMMAND...   runs a command in a node
#   cluster.sh kwok [NODES]         adds fake nodes (needs `build.sh kwok`)
#
# WEIR_CLUSTER_STATE   directory of the cluster: kubeconfig, logs (log/), files of nodes (node1/root/). Clusters with
#                      different ones run beside each other. Default: tests/cluster/.state
# WEIR_CLUSTER_CACHE   what build.sh has built. Default: tests/cluster/.cache
# WEIR_CLUSTER_API_ARGS   further arguments of the API server
set -euo pipefail
shopt -s nullglob

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=$(realpath --canonicalize-missing "${WEIR_CLUSTER_STATE:-$here/.state}")
cache=$(realpath --canonicalize-missing "${WEIR_CLUSTER_CACHE:-$here/.cache}")
readonly here state cache bin="$cache/bin"
readonly began=$EPOCHREALTIME

fail() {
    echo "tests/cluster/cluster.sh: $*" >&2
    exit 1
}

for part in processes certificates control-plane nodes; do
    # shellcheck source=/dev/null
    source "$here/lib/$part.sh"
done

kubectl() {
    "$bin/kubectl" --kubeconfig "$state/kubeconfig" "$@"
}

report() {
    local tenths=$(((${EPOCHREALTIME/./} - ${began/./}) / 100000))
    echo "$((tenths / 10)).$((tenths % 10)) s: $*"
}

# Several at once, so that none of them is given twice, and none that somebody's outgoing connection may get by itself.
free_ports() { # COUNT
    python3 - "$1" <<'END'
import random, socket, sys
sockets = []
for port in random.sample(range(10240, 32000), 1000):
    try:
        sockets.append(socket.create_server(("127.0.0.1", port)))
    except OSError:
        continue
    if len(sockets) == int(sys.argv[1]):
        break
print(*(socket.getsockname()[1] for socket in sockets))
END
}

prepare() {
    [[ -x $bin/kubernetes && -f $cache/images/coredns.tar ]] ||
        fail "nothing is built in $cache: run tests/cluster/build.sh first"
    ! is_running || fail "a cluster runs already in $state; end it with 'down'"
    remove_all
    mkdir -p "$state"/{log,pid}
    chmod 0700 "$state"
    trap '[[ $? -eq 0 ]] || echo "not started; logs are in $state/log, and \"down\" cleans up" >&2' EXIT
}

# What start, after a kill, has to know again.
save_settings() {
    local setting
    for setting in network api_address api_port etcd_port peer_port kwok_port; do
        echo "$setting=${!setting}"
    done >"$state/settings"
}

load_settings() {
    [[ -f $state/settings ]] || fail "no cluster in $state; start one with 'up' or 'api'"
    # shellcheck source=/dev/null
    source "$state/settings"
    derive_ranges
}

derive_ranges() {
    local number=${network:-0}
    pod_range="10.$((128 + number)).0.0/16"
    service_range="10.$((160 + number)).0.0/16"
    kubernetes_service="10.$((160 + number)).0.1"
    dns_service="10.$((160 + number)).0.10"
}

start_api() {
    network=""
    api_address=127.0.0.1
    read -r api_port etcd_port peer_port kwok_port < <(free_ports 4)
    save_settings
    derive_ranges
    create_control_plane_certificates
    start_etcd
    start_kube_apiserver
    report "API server ready"
}

start_cluster() { # NODES
    local number
    claim_network
    api_address="10.88.$network.1" api_port=6443
    read -r etcd_port peer_port kwok_port < <(free_ports 3)
    save_settings
    derive_ranges
    configure_bridge
    create_control_plane_certificates
    create_controller_certificates
    create_certificate kube-proxy /CN=system:kube-proxy
    for ((number = 1; number <= $1; number++)); do create_node "$number"; done
    start_etcd
    start_kube_apiserver
    start_kube_controller_manager
    start_kube_scheduler
    report "control plane ready"
    for ((number = 1; number <= $1; number++)); do start_node "$number"; done
    render coredns.yaml | kubectl apply --filename - >/dev/null
    for ((number = 1; number <= $1; number++)); do wait_until 180 kubectl get node "node$number"; done
    kubectl wait --for=condition=Ready --timeout=180s node --all >/dev/null
    report "nodes ready"
    kubectl --namespace kube-system rollout status --timeout=180s deployment/coredns >/dev/null
    # Pods are refused until it exists.
    wait_until 90 kubectl get serviceaccount default
    report "DNS ready"
}

is_running() {
    local file
    for file in "$state"/pid/*; do
        ! pid_of "${file##*/}" >/dev/null || return 0
    done
    return 1
}

# Of a cluster that was ended by something else, too.
remove_all() {
    local file
    for file in "$state"/pid/*; do kill_process "${file##*/}"; done
    for file in "$state"/node*/cgroups; do
        file=${file%/cgroups}
        remove_cgroups "${file##*/}"
    done
    [[ ! -f $state/settings ]] || remove_bridge
    # By their names: the directory may have been somebody's before.
    rm -rf "$state"/{etcd,fake-nodes,kubeconfig,log,node1,node2,node3,pid,pki,settings}
    [[ ! -d $state ]] || rmdir --ignore-fail-on-non-empty "$state"
}

# Links of nodes and all routes go with it.
remove_bridge() {
    load_settings
    [[ -z $network ]] || ip link delete "weir$network" 2>/dev/null || true
    local link
    for link in /sys/class/net/"weir$network"-node*; do ip link delete "${link##*/}" 2>/dev/null || true; done
}

start() { # NAME
    ! pid_of "$1" >/dev/null || fail "$1 runs already"
    case "$1" in
    etcd | kube-apiserver | kube-controller-manager | kube-scheduler | kwok) "start_${1//-/_}" ;;
    node[1-3])
        create_node "${1#node}"
        start_node "${1#node}"
        ;;
    *) fail "cannot start '$1': not a part of a cluster; see 'status'" ;;
    esac
}

add_fake_nodes() { # COUNT
    [[ -x $bin/kwok ]] || fail "no kwok in $bin: run 'tests/cluster/build.sh kwok' first"
    local number
    for ((number = 1; number <= $1; number++)); do fake_node "$number"; done >"$state/fake-nodes"
    if [[ -f $state/pki/kube-controller-manager.kubeconfig ]]; then
        kill_process kube-controller-manager
    else
        create_controller_certificates
        start_kube_scheduler
    fi
    start_kube_controller_manager
    pid_of kwok >/dev/null || start_kwok
    kubectl create --filename "$state/fake-nodes" >/dev/null
    wait_until 300 fake_nodes_are_ready "$1"
    report "fake nodes ready"
}

# `kubectl wait` asks for one after the other, which takes minutes for a thousand.
fake_nodes_are_ready() { # COUNT
    local ready
    ready=$(kubectl get nodes --selector type=kwok --no-headers | grep --count --word-regexp Ready)
    ((ready == $1))
}

show_status() {
    local file name pid
    echo "kubeconfig: $state/kubeconfig"
    for file in "$state"/pid/*; do
        name=${file##*/}
        if pid=$(pid_of "$name"); then
            printf '%-24s pid %-8s %6d MiB\n' "$name" "$pid" "$(($(ps -o rss= -p "$pid") / 1024))"
        else
            printf '%-24s ended\n' "$name"
        fi
    done
}

case "${1:-}" in
up)
    [[ ${2:-1} =~ ^[1-3]$ ]] || fail "cannot start '$2' nodes: 1 to $max_nodes"
    require_nodes
    prepare
    start_cluster "${2:-1}"
    echo "kubeconfig: $state/kubeconfig"
    ;;
api)
    prepare
    start_api
    echo "kubeconfig: $state/kubeconfig"
    ;;
can-up) require_nodes ;;
down) remove_all ;;
status) load_settings && show_status ;;
load-image)
    load_settings
    for image in "${@:2}"; do load_image "$image"; done
    ;;
kill)
    load_settings
    pid_of "${2:-}" >/dev/null || fail "cannot kill '${2:-}': it does not run; see 'status'"
    kill_process "$2"
    ;;
start) load_settings && start "${2:-}" ;;
in) in_node "${@:2}" ;;
kwok) load_settings && add_fake_nodes "${2:-10}" ;;
*) fail "cannot do '${1:-nothing}': see the top of $0 for what there is" ;;
esac
