# etcd, the API server, the controllers, the scheduler, and kwok's fake nodes: processes of this machine.

create_control_plane_certificates() {
    local names="IP:$api_address, IP:$kubernetes_service, DNS:localhost, DNS:kubernetes, DNS:kubernetes.default"
    create_authority
    create_certificate kube-apiserver /CN=kube-apiserver "$names, DNS:kubernetes.default.svc"
    create_certificate kubelet-client /O=system:masters/CN=kubelet-client
    create_certificate front-proxy /CN=front-proxy
    create_certificate admin /O=system:masters/CN=admin
    create_kubeconfig admin "$state/kubeconfig"
}

create_controller_certificates() {
    local name
    for name in kube-controller-manager kube-scheduler; do
        create_certificate "$name" "/CN=system:$name"
        create_kubeconfig "$name" "$state/pki/$name.kubeconfig"
    done
}

start_etcd() {
    local client="http://127.0.0.1:$etcd_port" peer="http://127.0.0.1:$peer_port"
    # Nothing has to survive the machine, so nothing waits for its disk.
    launch etcd "$bin/etcd" --name=etcd --data-dir="$state/etcd" --unsafe-no-fsync --log-level=warn \
        --listen-client-urls="$client" --advertise-client-urls="$client" --listen-peer-urls="$peer" \
        --initial-advertise-peer-urls="$peer" --initial-cluster="etcd=$peer" --quota-backend-bytes=4294967296
    wait_until 90 curl --fail --silent "$client/health"
}

start_kube_apiserver() {
    local pki="$state/pki" extra=()
    # Without nodes there are no endpoints to keep: those of a loopback address are refused.
    [[ -n $network ]] || extra=(--endpoint-reconciler-type=none)
    # shellcheck disable=SC2206 # several arguments in one variable
    extra+=(${WEIR_CLUSTER_API_ARGS:-})
    launch kube-apiserver "$bin/kube-apiserver" --etcd-servers="http://127.0.0.1:$etcd_port" \
        --bind-address="$api_address" --advertise-address="$api_address" --secure-port="$api_port" \
        --tls-cert-file="$pki/kube-apiserver.crt" --tls-private-key-file="$pki/kube-apiserver.key" \
        --client-ca-file="$pki/ca.crt" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
        --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
        --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key" \
        --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=front-proxy \
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
        --requestheader-extra-headers-prefix=X-Remote-Extra- \
        --proxy-client-cert-file="$pki/front-proxy.crt" --proxy-client-key-file="$pki/front-proxy.key" \
        --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/tokens.pub" \
        --service-account-signing-key-file="$pki/tokens.key" --service-cluster-ip-range="$service_range" \
        --default-not-ready-toleration-seconds=10 --default-unreachable-toleration-seconds=10 \
        --allow-privileged=true --profiling=false "${extra[@]}"
    wait_until 240 curl --fail --silent --cacert "$pki/ca.crt" "https://$api_address:$api_port/readyz"
}

# A node that is silent for this long is lost. kwok speaks for each of its nodes every ten seconds, and is late when it
# has a thousand on a busy machine. Of a single node nobody waits for the loss, and its pods have to stay.
start_kube_controller_manager() {
    local pki="$state/pki" grace=10s
    [[ -d $state/node2 && ! -f $state/fake-nodes ]] || grace=120s
    launch kube-controller-manager "$bin/kube-controller-manager" --secure-port=0 \
        --kubeconfig="$pki/kube-controller-manager.kubeconfig" --leader-elect=false --use-service-account-credentials \
        --root-ca-file="$pki/ca.crt" --service-account-private-key-file="$pki/tokens.key" \
        --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
        --node-monitor-period=1s --node-monitor-grace-period="$grace" --kube-api-qps=500 --kube-api-burst=1000 \
        --concurrent-deployment-syncs=20 --concurrent-replicaset-syncs=20
}

start_kube_scheduler() {
    launch kube-scheduler "$bin/kube-scheduler" --secure-port=0 --leader-elect=false \
        --kubeconfig="$state/pki/kube-scheduler.kubeconfig" --kube-api-qps=500 --kube-api-burst=1000
}

start_kwok() {
    launch kwok "$bin/kwok" --kubeconfig="$state/kubeconfig" --manage-nodes-with-label-selector=type=kwok \
        --node-lease-duration-seconds=40 --node-ip=127.0.0.1 --cidr=10.200.0.0/16 \
        --server-address="127.0.0.1:$kwok_port"
}

fake_node() { # NUMBER
    cat <<END
---
apiVersion: v1
kind: Node
metadata:
  name: fake-$1
  labels: {type: kwok, kubernetes.io/hostname: fake-$1, kubernetes.io/os: linux, kubernetes.io/arch: amd64}
spec: {taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]}
status:
  allocatable: {cpu: "32", memory: 256Gi, pods: "110"}
  capacity: {cpu: "32", memory: 256Gi, pods: "110"}
END
}
