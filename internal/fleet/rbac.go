package fleet

// What a proxy may do, from which `make generate` writes config/rbac/proxy_role.yaml: nothing outside of its own namespace.
// There it reads the shards of the table, by name, so that every other Secret stays out of its reach, reads the reports of
// all proxies, and writes its own (the admission policy spillway-report sees to it that it writes no other).
//
// +kubebuilder:rbac:namespace=spillway-system,groups="",resources=secrets,verbs=get;list;watch,resourceNames=spillway-table-00;spillway-table-01;spillway-table-02;spillway-table-03;spillway-table-04;spillway-table-05;spillway-table-06;spillway-table-07;spillway-table-08;spillway-table-09;spillway-table-10;spillway-table-11;spillway-table-12;spillway-table-13;spillway-table-14;spillway-table-15;spillway-table-16;spillway-table-17;spillway-table-18;spillway-table-19;spillway-table-20;spillway-table-21;spillway-table-22;spillway-table-23;spillway-table-24;spillway-table-25;spillway-table-26;spillway-table-27;spillway-table-28;spillway-table-29;spillway-table-30;spillway-table-31
// +kubebuilder:rbac:namespace=spillway-system,groups=spillway.dev,resources=proxyreports,verbs=get;list;watch;create;update;delete
