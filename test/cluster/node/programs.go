//go:build linux

package node

import (
	"path/filepath"
)

// startStorage starts what needs nothing else.
func (n *Node) startStorage() error {
	const clients, peers = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	if err := n.start("containerd", "--config", n.config("containerd.toml")); err != nil {
		return err
	}
	return n.start(n.program("etcd"), "--name=node", "--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=node="+peers)
}

func (n *Node) startAPIServer() error {
	return n.start(n.program("kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address="+Address, "--advertise-address="+Address, "--secure-port=6443",
		"--tls-cert-file="+n.file("server.crt"), "--tls-private-key-file="+n.file("server.key"), "--client-ca-file="+n.file("ca.crt"),
		"--kubelet-client-certificate="+n.file("apiserver-kubelet.crt"), "--kubelet-client-key="+n.file("apiserver-kubelet.key"),
		"--kubelet-certificate-authority="+n.file("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range="+serviceNetwork,
		"--service-account-issuer=https://kubernetes.default.svc."+Domain,
		"--service-account-key-file="+n.file("tokens.key"), "--service-account-signing-key-file="+n.file("tokens.key"))
}

// startControllers starts what works through the API server. Nobody else is there to be elected.
func (n *Node) startControllers() error {
	as := func(name string) []string {
		conf := n.file(name + ".conf")
		return []string{"--kubeconfig=" + conf, "--authentication-kubeconfig=" + conf, "--authorization-kubeconfig=" + conf,
			"--leader-elect=false", "--bind-address=127.0.0.1"}
	}
	controllers := append(as("controller-manager"), "--use-service-account-credentials=true",
		"--root-ca-file="+n.file("ca.crt"), "--service-account-private-key-file="+n.file("tokens.key"))
	if err := n.start(n.program("kube-controller-manager"), controllers...); err != nil {
		return err
	}
	if err := n.start(n.program("kube-scheduler"), as("scheduler")...); err != nil {
		return err
	}
	return n.start(n.program("kube-proxy"), "--config="+n.config("kube-proxy.yaml"))
}

func (n *Node) startKubelet() error {
	return n.start(n.program("kubelet"), "--config="+n.config("kubelet.yaml"), "--kubeconfig="+n.file("kubelet.conf"),
		"--hostname-override="+Name, "--node-ip="+Address)
}

// program is the path of a program of Kubernetes.
func (n *Node) program(name string) string { return filepath.Join(n.programs, name) }

// config is the path of a file that was rendered from a template.
func (n *Node) config(name string) string { return filepath.Join(n.dir, "config", name) }

// file is the path of a certificate, key or kubeconfig.
func (n *Node) file(name string) string { return filepath.Join(n.dir, name) }
