# Nodes: real ones, each in namespaces and cgroups of its own, on a bridge of this machine.
#
# A cluster has the number $network, from which all its addresses follow, so that several can run beside each other:
#   10.88.NETWORK.1        this machine, and the API server
#   10.88.NETWORK.11-13    node1 to node3
#   10.(128+NETWORK).I.0   pods of node I
#   10.(160+NETWORK).0.0   services

readonly max_networks=16 max_nodes=3
readonly cgroup_hierarchies=(blkio cpu cpuacct cpuset devices freezer memory pids systemd)

# Takes the first number whose bridge does not exist: only one process can create it.
claim_network() {
    for ((network = 0; network < max_networks; network++)); do
        ! ip link add "weir$network" type bridge 2>/dev/null || return 0
    done
    fail "cannot start a cluster: $max_networks bridges named weir0 and so on exist already; end one with 'down'"
}

configure_bridge() {
    ip address add "$api_address/24" dev "weir$network"
    ip link set "weir$network" up
}

require_nodes() {
    ((EUID == 0)) || fail "cannot start nodes: only root can"
    local hierarchy
    for hierarchy in "${cgroup_hierarchies[@]}"; do
        [[ -d /sys/fs/cgroup/$hierarchy ]] || fail "cannot start a node: no /sys/fs/cgroup/$hierarchy; nodes need the" \
            "hierarchies of cgroup version 1 (boot with systemd.unified_cgroup_hierarchy=0); 'api' does without nodes"
    done
}

node_address() { # NUMBER
    echo "10.88.$network.$((10 + $1))"
}

pod_subnet() { # NUMBER
    echo "10.$((128 + network)).$1.0/24"
}

# Below our own in each hierarchy, so that what limits us limits the nodes.
create_cgroups() { # NODE
    local hierarchy own directory setting
    for hierarchy in "${cgroup_hierarchies[@]}"; do
        own=$(sed -En "s/^[0-9]+:(name=)?$hierarchy://p" /proc/self/cgroup)
        directory="/sys/fs/cgroup/$hierarchy${own%/}/weir$network-$1"
        mkdir -p "$directory"
        echo "$directory"
    done >"$state/$1/cgroups"
    directory=$(grep '/cpuset/' "$state/$1/cgroups")
    for setting in cpuset.cpus cpuset.mems; do
        cat "${directory%/*}/$setting" >"$directory/$setting"
    done
}

# What a machine has on its disk before its first start.
create_root() { # NUMBER
    local node="node$1" root="$state/node$1/root" kubernetes="$state/node$1/root/etc/kubernetes" configuration
    mkdir -p "$root"/{dev,mnt,opt/cluster,proc,run,sys,tmp,usr,var/{lib,log}} \
        "$root"/etc/{alternatives,cni/net.d,containerd,kubernetes}
    chmod 1777 "$root/tmp"
    cp --no-dereference /bin /sbin /lib* "$root"
    echo "root:x:0:0:root:/:/bin/sh" >"$root/etc/passwd"
    echo "127.0.0.1 localhost $node" >"$root/etc/hosts"
    md5sum <<<"$state $node" | cut -c -32 >"$root/etc/machine-id"
    for configuration in containerd.toml:containerd/config.toml cni.json:cni/net.d/pods.conflist \
        kubelet.yaml:kubernetes/kubelet.yaml kube-proxy.yaml:kubernetes/kube-proxy.yaml; do
        render "${configuration%:*}" "s|POD_SUBNET|$(pod_subnet "$1")|" >"$root/etc/${configuration#*:}"
    done
    create_certificate "$node" "/O=system:nodes/CN=system:node:$node" "DNS:$node, IP:$(node_address "$1")"
    cp "$state/pki/ca.crt" "$kubernetes"
    cp "$state/pki/$node.crt" "$kubernetes/kubelet.crt"
    cp "$state/pki/$node.key" "$kubernetes/kubelet.key"
    create_kubeconfig "$node" "$kubernetes/kubelet.kubeconfig"
    create_kubeconfig kube-proxy "$kubernetes/kube-proxy.kubeconfig"
}

render() { # CONFIGURATION [SED_SCRIPT]
    sed -e "s|DNS_SERVICE|$dns_service|; s|POD_RANGE|$pod_range|; ${2:-}" "$here/config/$1"
}

create_node() { # NUMBER
    [[ ! -d $state/node$1 ]] || return 0
    mkdir "$state/node$1"
    create_root "$1"
}

start_node() { # NUMBER
    local node="node$1" routes=() other pid
    for ((other = 1; other <= max_nodes; other++)); do
        ((other == $1)) || routes+=("$(pod_subnet "$other")=$(node_address "$other")")
    done
    # As after a boot: with those of its last life, kubelet waits for containers that are gone.
    [[ ! -f $state/$node/cgroups ]] || remove_cgroups "$node"
    create_cgroups "$node"
    launch "$node" "$here/lib/in-cgroups.sh" "$state/$node/cgroups" \
        unshare --mount --net --pid --cgroup --uts --ipc --fork --kill-child \
        "$here/lib/node-init.sh" "$state/$node/root" "$cache" "$node" "$(node_address "$1")/24" "$api_address" \
        "${routes[@]}"
    pid=$(pid_of "$node") || fail "cannot start $node; see $state/log/$node.log"
    wait_until 60 has_own_network "$pid"
    connect "$1" "$pid"
}

has_own_network() { # PID
    [[ $(readlink "/proc/$1/ns/net") != "$(readlink /proc/self/ns/net)" ]]
}

connect() { # NUMBER PID
    local link="weir$network-node$1"
    # That of a node that was killed a moment ago may be there still.
    ip link delete "$link" 2>/dev/null || true
    ip link add "$link" type veth peer name eth0 netns "$2"
    ip link set "$link" master "weir$network" up
    ip route replace "$(pod_subnet "$1")" via "$(node_address "$1")"
    (($1 != 1)) || ip route replace "$service_range" via "$(node_address 1)"
}

# Runs a command in a node.
in_node() { # NODE COMMAND...
    local pid
    pid=$(pid_of "$1") || fail "$1 does not run"
    nsenter --target "$(pgrep --parent "$pid")" --mount --net --pid --cgroup --uts --ipc -- \
        env PATH=/opt/cluster/bin:/usr/sbin:/usr/bin "${@:2}"
}

load_image() { # FILE
    local node
    for node in $(running_nodes); do
        in_node "$node" ctr --namespace k8s.io images import - <"$1"
    done
}

running_nodes() {
    local file
    for file in "$state"/pid/node*; do
        ! pid_of "${file##*/}" >/dev/null || echo "${file##*/}"
    done
}

remove_cgroups() { # NODE
    local directory
    while read -r directory; do
        # A process that ends is in its cgroup for a moment longer.
        wait_until 60 is_removed "$directory"
    done <"$state/$1/cgroups"
}

is_removed() { # CGROUP
    [[ ! -d $1 ]] || find "$1" -depth -type d -exec rmdir {} +
}
