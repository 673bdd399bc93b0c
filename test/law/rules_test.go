package law

// module is the path before every package of ours.
const module = "github.com/spillway-dev/spillway"

// architecture names every package that the product is made of. A package that is not here fails the test, so that one that
// is renamed or added takes its rules with it; a name whose package is not written yet is no failure.
var architecture = []string{
	"api/v1alpha1",
	"api/stream",
	"cmd/manager",
	"cmd/proxy",
	"cmd/kubectl-spillway",
	"internal/table",
	"internal/compiler",
	"internal/breaker",
	"internal/admission",
	"internal/pin",
	"internal/plan",
	"internal/sse",
	"internal/openai",
	"internal/nonblock",
	"internal/proxy",
	"internal/server",
	"internal/apiclient",
	"internal/fleet",
	"internal/callerauth",
	"internal/standalone",
	"internal/status",
	"internal/controller",
	"internal/telemetry",
	"internal/plugin",
}

// A pattern of packages is a path: of the module where it begins with api/, cmd/ or internal/, else an import path. It matches
// the package and all below it. std matches the standard library.
const std = "std"

// rule is one sentence of the architecture about imports.
type rule struct {
	sentence string
	packages []string // the packages that it binds
	forbids  []string // what they import neither directly nor through others
	avoids   []string // what they do not import directly
	permits  []string // if set, all that they import directly
}

var (
	clients    = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"}
	kubernetes = append([]string{"api/v1alpha1", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver"}, clients...)
)

var rules = []rule{
	{
		sentence: "the data plane knows nothing of Kubernetes",
		packages: []string{
			"internal/table", "internal/breaker", "internal/admission", "internal/pin", "internal/plan",
			"internal/sse", "internal/openai", "internal/nonblock", "internal/proxy", "internal/server", "api/stream",
		},
		forbids: kubernetes,
	},
	{
		sentence: "the table, the event scanner, the sockets and the callers' reader use the standard library only",
		packages: []string{"internal/table", "internal/sse", "internal/nonblock", "api/stream"},
		permits:  []string{std},
	},
	{
		sentence: "the API types import only apimachinery and core/v1",
		packages: []string{"api/v1alpha1"},
		permits:  []string{std, "k8s.io/apimachinery", "k8s.io/api/core/v1"},
	},
	{
		sentence: "caller authentication knows routes and errors of ours, the API server, and nothing else",
		packages: []string{"internal/callerauth"},
		permits: []string{
			std, "internal/apiclient", "internal/openai", "internal/table", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/klog", "k8s.io/utils",
			"github.com/go-logr", "golang.org/x/time",
		},
	},
	{
		sentence: "the compiler and the status hold no client",
		packages: []string{"internal/compiler", "internal/status"},
		forbids:  clients,
	},
	{
		sentence: "the compiler and the status are values in, values out: no context, no log, no file, no connection",
		packages: []string{"internal/compiler", "internal/status"},
		avoids:   []string{"context", "log", "os", "net/http", "k8s.io/klog", "github.com/go-logr"},
	},
	{
		sentence: "the compiler knows the API and the table, and nothing else of ours",
		packages: []string{"internal/compiler"},
		forbids: []string{
			"internal/breaker", "internal/admission", "internal/plan", "internal/sse", "internal/openai", "internal/proxy", "internal/server",
			"internal/fleet", "internal/standalone", "internal/status", "internal/controller", "internal/telemetry", "internal/plugin",
		},
	},
	{
		sentence: "the manager's half never imports the proxy's",
		packages: []string{"internal/controller", "internal/compiler", "internal/status", "cmd/manager"},
		forbids:  []string{"internal/proxy", "internal/server", "cmd/proxy"},
	},
	{
		sentence: "the proxy's half never imports the manager's",
		packages: []string{"internal/proxy", "internal/server", "internal/fleet", "internal/callerauth", "cmd/proxy"},
		forbids:  []string{"internal/controller", "cmd/manager"},
	},
	{
		sentence: "what serves callers meets the manager in table and reports alone: it knows neither manifests nor verdicts nor status",
		packages: []string{"internal/proxy", "internal/server", "internal/fleet", "internal/callerauth"},
		forbids:  []string{"internal/compiler", "internal/status"},
	},
	{
		sentence: "commands are wiring: nothing imports them, and the product imports no test code",
		packages: []string{"api", "internal", "cmd"},
		forbids:  []string{"hack", "test"},
	},
}

// clockless packages take the time as an argument.
var clockless = []string{"internal/compiler", "internal/status", "internal/pin", "internal/plan", "internal/table"}

// clockReaders are the functions of package time that read or run a clock.
var clockReaders = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// maxLines is how long a file may be, tests and generated files excepted.
const maxLines = 400
