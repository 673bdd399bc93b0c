#!/bin/sh
# Writes everything that is generated from markers in the code: deep copies and CRDs from the API types, the roles of the
# two programs from the packages that talk to the API server for them. `make generate` calls it.
set -eu
cd "$(dirname "$0")/.."

gen() { go tool -modfile=hack/tools/go.mod controller-gen "$@"; }

gen object:headerFile=hack/boilerplate.go.txt paths=./api/v1alpha1
gen crd:ignoreUnexportedFields=true paths=./api/v1alpha1 output:crd:dir=config/crd
gen rbac:roleName=spillway-manager,fileName=manager_role.yaml paths=./internal/controller output:rbac:dir=config/rbac
gen rbac:roleName=spillway-proxy,fileName=proxy_role.yaml paths=./internal/fleet output:rbac:dir=config/rbac
gen rbac:roleName=spillway-proxy-auth,fileName=role.yaml paths=./internal/callerauth output:rbac:dir=config/caller-auth/roles

# What the chart says in the words of config/, and the table of values in its README.
go run ./hack/chart

# The pages of docs/ that are made from declarations in the code, and the reference of the API.
go run ./hack/docs
go run ./hack/apidocs
