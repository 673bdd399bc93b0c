package callerauth

// What a proxy may do beside what internal/fleet needs, from which `make generate` writes config/caller-auth/roles/role.yaml.
// Neither role exists unless caller authentication is on: see config/caller-auth. The ClusterRole is for Kubernetes, the
// Role for KeysFromSecret; a Secret of another name takes a Role of its own.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:namespace=spillway-system,groups="",resources=secrets,verbs=get;list;watch,resourceNames=spillway-caller-keys
