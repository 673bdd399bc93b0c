package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/test/stack"
)

// patience bounds the start and the end of the API server, generously: the machine may be busy.
const patience = 2 * time.Minute

// Start starts an API server that ends with the suite. Its Config is that of an administrator, without a rate limit.
func Start() *envtest.Environment {
	ginkgo.GinkgoHelper()
	if os.Getenv(stack.AssetsVariable) == "" {
		ginkgo.Fail(stack.AssetsVariable + " is not set, so there is no kube-apiserver to test on: run `make test-api`, which builds one, " +
			"or set it to a directory with etcd and kube-apiserver.")
	}
	log.SetLogger(ginkgo.GinkgoLogr)
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{Config("crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
	server := environment.ControlPlane.GetAPIServer()
	// A folder of our own for the certificates lets the API server stop and come back as the same one.
	server.CertDir = ginkgo.GinkgoT().TempDir()
	// It would wait a minute for the watches to end by themselves.
	server.Configure().Set("shutdown-watch-termination-grace-period", "1s")
	ginkgo.DeferCleanup(environment.Stop)
	config, err := environment.Start()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	config.QPS = -1
	return environment
}

// Scheme returns one with the kinds of Kubernetes and of Spillway.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		panic(err) // two kinds of one name: a programming error
	}
	return s
}

// Config is the path of a file or directory below config/.
func Config(parts ...string) string {
	ginkgo.GinkgoHelper()
	root, err := stack.FindRoot()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return filepath.Join(append([]string{root, "config"}, parts...)...)
}

// Objects returns the objects of a file below config/, in their order.
func Objects(file string) []*unstructured.Unstructured {
	ginkgo.GinkgoHelper()
	data, err := os.ReadFile(Config(file))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), file)
		objects = append(objects, object)
	}
}

// Create creates the objects of files below config/.
func Create(ctx context.Context, with client.Client, files ...string) {
	ginkgo.GinkgoHelper()
	for _, file := range files {
		for _, object := range Objects(file) {
			gomega.Expect(with.Create(ctx, object)).To(gomega.Succeed(), "%s: %s %s", file, object.GetKind(), object.GetName())
		}
	}
}
