// Package chart tests charts/spillway and config/install, the two ways into a cluster.
//
//	render     lint, and the golden files of the main variants: testdata/NAME.values.yaml gives NAME.golden.yaml (-update)
//	values     what the schema refuses, and that schema and defaults name the same values
//	kustomize  config/install and the chart's defaults make the same objects
//	flags      both programs know the flags that the chart gives them
//	metrics    every metric and label of alerts, dashboard and autoscaling is one that internal/telemetry declares
//	life       install, upgrade, rollback and uninstall with Helm on a real API server
//
// No controller runs beside that API server, so no Pod starts; the Pods that Deployments describe are shown to Pod Security.
package chart
