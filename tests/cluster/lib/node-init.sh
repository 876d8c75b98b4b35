#!/usr/bin/env bash
# The first process of a node, in namespaces of its own: it makes the node's root directory the root, and runs
# containerd, kubelet and kube-proxy. When it ends, the kernel ends every process of the node and takes all mounts away.
#   node-init.sh ROOT CACHE NAME ADDRESS/BITS GATEWAY [ROUTE...]     ROUTE: SUBNET=NODE
set -euo pipefail

readonly root=$1 cache=$2 name=$3 address=$4 gateway=$5 routes=("${@:6}")

# The programs of this machine, read-only, and nothing else of it.
mount_root() {
    local controller
    mount --bind "$root" "$root"
    mount --rbind /dev "$root/dev"
    mount --bind --options ro /usr "$root/usr"
    mount --bind --options ro /etc/alternatives "$root/etc/alternatives"
    mount --bind --options ro "$cache" "$root/opt/cluster"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t tmpfs -o mode=755 run "$root/run"
    # Their roots are the cgroups that the node was started in.
    mount -t tmpfs -o mode=755 cgroups "$root/sys/fs/cgroup"
    for controller in blkio cpu cpuacct cpuset devices freezer memory pids; do
        mkdir "$root/sys/fs/cgroup/$controller"
        mount -t cgroup -o $controller cgroup "$root/sys/fs/cgroup/$controller"
    done
    # containerd looks for this one too, or does not see that a container runs out of memory.
    mkdir "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
    cd "$root"
    pivot_root . mnt
    umount --lazy /mnt
    mount --make-rshared /
}

# The other end of eth0 is put into place from outside, once this network namespace exists.
configure_network() {
    local route
    ip link set lo up
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
    ip address add "$address" dev eth0
    ip link set eth0 up
    ip route add default via "$gateway"
    for route in "${routes[@]}"; do ip route add "${route%=*}" via "${route#*=}"; done
    echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
}

run() { # PROGRAM ARGUMENTS...
    "$@" >>"/var/log/${1##*/}.log" 2>&1 </dev/null &
}

mount_root
export PATH=/opt/cluster/bin:/usr/sbin:/usr/bin
hostname "$name"
configure_network

run containerd --config /etc/containerd/config.toml
until ctr version >/dev/null 2>&1; do sleep 0.05; done
for image in /opt/cluster/images/*.tar; do
    ctr --namespace k8s.io images import "$image"
done
run kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.kubeconfig \
    --hostname-override="$name" --node-ip="${address%/*}"
run kube-proxy --config=/etc/kubernetes/kube-proxy.yaml --hostname-override="$name"

# A node without one of them is of no use to anybody, and its log says why.
wait -n
echo "a program of $name ended" >&2
