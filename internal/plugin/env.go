package plugin

import (
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Env is what the commands know of the world besides their flags.
type Env struct {
	genericiooptions.IOStreams
	Clock clock.PassiveClock
	// Zone is where the person sits: times without one are read and shown in it.
	Zone *time.Location
	// Version of the program, for --version, the user agent and records.
	Version string
}

// SystemEnv is the world of a real terminal.
func SystemEnv(version string) Env {
	return Env{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Clock:     clock.RealClock{},
		Zone:      time.Local,
		Version:   version,
	}
}

// cli is what all commands share.
type cli struct {
	Env
	config *genericclioptions.ConfigFlags
	// connect makes the client; tests put their own here.
	connect func() (client.WithWatch, error)
}

func newCLI(env Env) *cli {
	c := &cli{Env: env, config: genericclioptions.NewConfigFlags(true)}
	c.config.CacheDir = nil // nothing is cached, so there is no flag for where
	c.connect = c.dial
	return c
}

// namespace is the one of --namespace, else of the kubeconfig's context.
func (c *cli) namespace() (string, error) {
	namespace, _, err := c.config.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

func (c *cli) restConfig() (*rest.Config, error) {
	config, err := c.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = "kubectl-spillway/" + c.Version
	config.WarningHandler = rest.NewWarningWriter(c.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// dial makes a client that asks the API server for nothing but objects: the kinds are known, so that there is no
// discovery to wait for.
func (c *cli) dial() (client.WithWatch, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return made, nil
}

var scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two kinds of one name: a programming error
		}
	}
	return s
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("LLMRoute"),
		v1alpha1.GroupVersion.WithKind("BackendPin"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		corev1.SchemeGroupVersion.WithKind("Pod"),
	} {
		m.Add(kind, meta.RESTScopeNamespace)
	}
	return m
}
