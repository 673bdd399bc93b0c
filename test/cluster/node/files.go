//go:build linux

package node

import (
	"embed"
	"errors"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed config
var configFiles embed.FS

// Addresses of the node. Nobody else is in its network namespace, so they are constants.
const (
	// Name is that of the Node and of the machine.
	Name = "node"
	// Address is the node's own. API server, kubelet and DNS listen there.
	Address = "10.199.0.1"
	// Domain ends the DNS names of Services.
	Domain = "cluster.local"

	addressPrefix     = Address + "/24"
	podNetwork        = "10.244.0.0/24"
	serviceNetwork    = "10.96.0.0/16"
	apiServiceAddress = "10.96.0.1"
	apiURL            = "https://" + Address + ":6443"
	containerdSocket  = "/run/containerd/containerd.sock"
)

// settings fill the templates in config.
type settings struct {
	Name, Address, Domain  string
	PodNetwork             string
	Dir, Cgroup            string
	Containerd, PauseImage string
	CNI                    string // folder of the plugins
}

// write renders every template into the folder config of s.Dir, where it keeps its name. Kubeconfigs stay out of that folder:
// by their ending they would be networks of Pods.
func (s settings) write() error {
	dir := filepath.Join(s.Dir, "config")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all, err := template.ParseFS(configFiles, "config/*")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		file, err := os.OpenFile(filepath.Join(dir, t.Name()), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(t.Execute(file, s), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// cniFolders are where distributions put the plugins.
var cniFolders = []string{"/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"}

// cniFolder finds the plugins that config/network.conflist uses.
func cniFolder() (string, error) {
	for _, folder := range cniFolders {
		if _, err := os.Stat(filepath.Join(folder, "ptp")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("no CNI plugins: install containernetworking-plugins")
}
