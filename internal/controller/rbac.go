package controller

// What the manager may do, for controller-gen. Outside its own namespace it reads, and writes no more than status, Events
// and the end of expired pins. Secrets are watched as metadata (list and watch) and those that routes name are read (get).
//
// +kubebuilder:rbac:groups=spillway.dev,resources=llmroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=spillway.dev,resources=llmroutes/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=spillway.dev,resources=backendpins,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=spillway.dev,resources=backendpins/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=services;configmaps;secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get,resourceNames=llmroutes.spillway.dev;backendpins.spillway.dev;proxyreports.spillway.dev
//
// In its own namespace it keeps the table, the salt, its lease and the reports in order; a change of leader is an Event there.
//
// +kubebuilder:rbac:groups="",namespace=spillway-system,resources=secrets,verbs=create;update
// +kubebuilder:rbac:groups=spillway.dev,namespace=spillway-system,resources=proxyreports,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=spillway-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=spillway-system,resources=events,verbs=create;patch
