#!/bin/sh
# Writes everything that is generated from the API types: deep copies and CRDs. `make generate` calls it.
set -eu
cd "$(dirname "$0")/.."

gen() { go tool -modfile=hack/tools/go.mod controller-gen "$@"; }

gen object:headerFile=hack/boilerplate.go.txt paths=./api/v1alpha1
gen crd:ignoreUnexportedFields=true paths=./api/v1alpha1 output:crd:dir=config/crd
