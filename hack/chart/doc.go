// Command chart writes the parts of charts/spillway that say what is said elsewhere already: templates from the CRDs, roles and
// policies of config/, and the table of values in the README from the comments in values.yaml. hack/generate.sh runs it after
// controller-gen, in the root of the repository.
package main
