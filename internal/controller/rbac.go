package controller

// What the manager may do, for controller-gen. Outside its own namespace it reads, and writes no more than status, Events
// and the end of expired pins. Secrets are watched as metadata (list and watch) and those that routes name are read (get).
//
// +kubebuilder:rbac:groups=spillway.dev,resources=llmroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=spillway.dev,resources=llmroutes/status,verbs=patch
// +kubebuilder:rbac:groups=spillway.dev,resources=backendpins,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=spillway.dev,resources=backendpins/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=services;configmaps;secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get,resourceNames=llmroutes.spillway.dev;backendpins.spillway.dev;proxyreports.spillway.dev
//
// In its own namespace it keeps the table, the salt, its lease and the reports in order.
// RBAC cannot say which objects may be created, but it can say which may be replaced: the shards and the lease, by name. The
// salt is created, also where somebody deleted it, and never replaced: it is immutable, and patched with its owner alone.
//
// All of these belong to the manager's Deployment, which is read for its UID. The manager deletes none of them but a shard that
// somebody made immutable, or of another type. And an API server with the admission plugin OwnerReferencesPermissionEnforcement
// lets only those change an owner who may delete.
//
// +kubebuilder:rbac:groups="",namespace=spillway-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=spillway-system,resources=secrets,verbs=update;delete,resourceNames=spillway-table-00;spillway-table-01;spillway-table-02;spillway-table-03;spillway-table-04;spillway-table-05;spillway-table-06;spillway-table-07;spillway-table-08;spillway-table-09;spillway-table-10;spillway-table-11;spillway-table-12;spillway-table-13;spillway-table-14;spillway-table-15;spillway-table-16;spillway-table-17;spillway-table-18;spillway-table-19;spillway-table-20;spillway-table-21;spillway-table-22;spillway-table-23;spillway-table-24;spillway-table-25;spillway-table-26;spillway-table-27;spillway-table-28;spillway-table-29;spillway-table-30;spillway-table-31
// +kubebuilder:rbac:groups="",namespace=spillway-system,resources=secrets,verbs=patch;delete,resourceNames=spillway-salt
// +kubebuilder:rbac:groups=apps,namespace=spillway-system,resources=deployments,verbs=get,resourceNames=spillway-manager
// +kubebuilder:rbac:groups=spillway.dev,namespace=spillway-system,resources=proxyreports,verbs=list;watch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=spillway-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=spillway-system,resources=leases,verbs=get;update;delete,resourceNames=spillway-manager
