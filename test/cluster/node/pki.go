//go:build linux

package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certLifetime is longer than any run of a suite.
const certLifetime = 24 * time.Hour

// authority signs the certificates of one node and writes them to dir.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// client is a program that talks to the API server, by a certificate that is its identity.
type client struct {
	file   string // of its kubeconfig, without .conf
	user   string
	groups []string
}

var clients = []client{
	{"admin", "admin", []string{"system:masters"}},
	{"controller-manager", "system:kube-controller-manager", nil},
	{"scheduler", "system:kube-scheduler", nil},
	{"proxy", "system:kube-proxy", nil},
	{"kubelet", "system:node:" + Name, []string{"system:nodes"}},
}

// newPKI writes every certificate, key and kubeconfig of a node into dir.
func newPKI(dir string) error {
	ca, err := newAuthority(dir)
	if err != nil {
		return err
	}
	if err := ca.issue("server", pkix.Name{CommonName: Name}); err != nil {
		return err
	}
	if err := ca.issue("apiserver-kubelet", pkix.Name{CommonName: "apiserver", Organization: []string{"system:masters"}}); err != nil {
		return err
	}
	for _, c := range clients {
		if err := ca.issue(c.file, pkix.Name{CommonName: c.user, Organization: c.groups}); err != nil {
			return err
		}
		if err := writeKubeconfig(dir, c.file); err != nil {
			return err
		}
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, "tokens.key"), tokens)
}

// newAuthority makes a certificate authority and writes ca.crt and, for the signer of the controller manager, ca.key.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certTemplate(pkix.Name{CommonName: "test node"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := writeKey(filepath.Join(dir, "ca.key"), key); err != nil {
		return nil, err
	}
	return &authority{dir: dir, cert: cert, key: key}, writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der)
}

// issue writes name.crt and name.key, fit for a server of the node and for the client that subject names.
func (a *authority) issue(name string, subject pkix.Name) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certTemplate(subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.IPAddresses = []net.IP{net.ParseIP(Address), net.ParseIP(apiServiceAddress)}
	template.DNSNames = []string{Name, "kubernetes.default.svc"}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(filepath.Join(a.dir, name+".key"), key)
}

func certTemplate(subject pkix.Name) *x509.Certificate {
	// Without a serial number CreateCertificate draws a random one.
	return &x509.Certificate{
		Subject:   subject,
		NotBefore: time.Now().Add(-time.Minute),
		NotAfter:  time.Now().Add(certLifetime),
	}
}

// writeKey uses the SEC 1 form: the API server finds no public half for tokens in a PKCS #8 one.
func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes name.conf, which names the files of issue beside it.
func writeKubeconfig(dir, name string) error {
	file := func(suffix string) string { return filepath.Join(dir, suffix) }
	config := clientcmdapi.NewConfig()
	config.Clusters["node"] = &clientcmdapi.Cluster{Server: apiURL, CertificateAuthority: file("ca.crt")}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: file(name + ".crt"), ClientKey: file(name + ".key")}
	config.Contexts["node"] = &clientcmdapi.Context{Cluster: "node", AuthInfo: name}
	config.CurrentContext = "node"
	return clientcmd.WriteToFile(*config, file(name+".conf"))
}
