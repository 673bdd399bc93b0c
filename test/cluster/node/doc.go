// Package node runs a whole Kubernetes node for a test binary: etcd, the control plane, kubelet, kube-proxy, containerd, and
// real Pods.
//
// The test binary starts itself anew inside fresh mount, PID, network, UTS and IPC namespaces (Run), so that the tests and
// everything of the node live on a machine of their own: addresses of Pods and Services are reached directly, and nothing
// outside can be reached or changed. When the tests end, fail, or are killed, the kernel ends every process in there and drops
// its mounts and links. All that is left for outside is a folder of control groups, which Run removes, and logs.
//
// The programs come from hack/localkube (one binary for all of Kubernetes) and from the system: containerd, runc, the CNI
// plugins, iptables and iproute2. It needs root; test/cluster/missing.sh says what else a machine lacks.
package node
