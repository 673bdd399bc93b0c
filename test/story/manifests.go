package story

import (
	"fmt"
	"strings"
	"time"
)

// namespace of the route: the one of the founding deployment.
const namespace = "sirens-echo"

// cooldown of saturation in the story. A real one is 15 minutes: nobody wants to wait for that in a demo.
const cooldown = 6 * time.Second

func (s *Story) entry(backend, regime string) string {
	return fmt.Sprintf("  - name: %s\n    url: %s\n    model: %s-model\n    regime: %s\n",
		backend, s.stack.Backends[backend].URL(), backend, regime)
}

// route renders the route with its chain in the given order.
func (s *Story) route(chain ...string) string { return s.routeCoolingFor(cooldown, chain...) }

func (s *Story) routeCoolingFor(cooldown time.Duration, chain ...string) string {
	regimes := map[string]string{"tower": "contended", "hosted": "hosted"}
	var entries strings.Builder
	for _, backend := range chain {
		entries.WriteString(s.entry(backend, regimes[backend]))
	}
	return fmt.Sprintf(`apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: default, namespace: %s}
spec:
  chain:
%s  saturation: {threshold: 2, slowAfter: 1s, cooldown: %s, coldStartGrace: 1s}
  rateLimit: {requests: 50, per: 1s, burst: 100}
`, namespace, entries.String(), cooldown)
}

// quietRoute is a second route that the player has no business with.
func (s *Story) quietRoute() string {
	return fmt.Sprintf(`apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: work, namespace: %s}
spec:
  chain:
%s`, namespace, s.entry("hosted", "hosted"))
}

func pin(name, route, backend string, lasts time.Duration) string {
	return fmt.Sprintf(`apiVersion: spillway.dev/v1alpha1
kind: BackendPin
metadata: {name: %s, namespace: %s}
spec:
  routes: {names: [%s]}
  backend: %s
  mode: Prefer
  duration: %s
  reason: game night
`, name, namespace, route, backend, lasts)
}

// gamerMayPin binds the user gamer to the pin objects, and to the verb pin on one single route.
const gamerMayPin = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pin-default, namespace: sirens-echo}
rules:
- {apiGroups: [spillway.dev], resources: [llmroutes], resourceNames: [default], verbs: [pin]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gamer-pins-default, namespace: sirens-echo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pin-default}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: gamer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gamer-pinner, namespace: sirens-echo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: spillway-pinner}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: gamer}
`
