# `make` lists the targets. Each works in a fresh clone with empty caches: what it needs, it builds.
.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/sh

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# How long "make fuzz" spends on each target, and which ones it takes (a regular expression; empty: all).
FUZZTIME ?= 30s
FUZZ     ?=
export FUZZTIME FUZZ

# Flags for every `go test`, for example: make test TESTFLAGS=-count=1
TESTFLAGS ?=

# The version is stamped here, so Go need not ask git: a source archive has none.
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'

# The product, the control plane's builder, the development tools and some tests are modules of their own.
MODULES := . hack/image hack/localkube hack/localkube/hyper hack/tools hack/tools/golangci-lint hack/tools/helm hack/tools/prometheus test/oldest test/sdk/openaigo

# The control plane: KUBEBUILDER_ASSETS where it is set, else built by hack/localkube (11 minutes on two cores, once).
ifneq ($(KUBEBUILDER_ASSETS),)
export KUBEBUILDER_ASSETS := $(abspath $(KUBEBUILDER_ASSETS))
endif
WITH_HELM   = HELM=$$(hack/tools/tool.sh helm) && export HELM &&
WITH_ASSETS = assets=$$($(GO) run -C hack/localkube . assets) && KUBEBUILDER_ASSETS=$$assets

# Packages are sorted into suites by what they import: a test that uses envtest or test/apiserver starts an API server.
PACKAGES = $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./...
UNIT = $$($(PACKAGES) | grep -v -e 'pkg/envtest' -e 'test/apiserver[] ]' -e '/test/cluster ' -e '/test/e2e ' -e '/test/fleet ' -e '/test/sdk ' -e '/test/story ' -e '/test/alerts ' -e '/test/docs/commands ' | cut -d ' ' -f 1)
API  = $$($(PACKAGES) | grep -e 'pkg/envtest' -e 'test/apiserver[] ]' | cut -d ' ' -f 1 | sort -r) # test/controller, the longest, is first

##@ Try it

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Tell the founding case on a real control plane, checking every step.
	@$(WITH_ASSETS) $(GO) run ./hack/demo

.PHONY: run
run: build ## Start control plane, manager, two proxies and two simulated backends; Ctrl-C stops all.
	@$(GO) build -o bin/run ./hack/run
	@$(WITH_ASSETS) exec bin/run # "go run" would end with an error at Ctrl-C

##@ Build

.PHONY: build
build: ## Build the programs of cmd/ and the simulated backend into bin/.
	@mkdir -p bin
	$(BUILD) -o bin/ $(addprefix ./,$(wildcard cmd/*) hack/simbackend)

# Everything that is built once. Whoever needs one of these builds it, too; asked for together, none is built twice at a time.
.PHONY: tools
tools: ## Build the control plane, the node and the tools that the suites use (once, 40 minutes on two cores).
	@[ -n "$$(test/cluster/missing.sh)" ] || $(GO) run -C hack/localkube . node
	@$(GO) run -C hack/localkube . assets
	@hack/tools/tool.sh golangci-lint
	@hack/tools/tool.sh helm
	@hack/tools/tool.sh prometheus promtool
	@hack/tools/tool.sh prometheus

# Architecture of the images, as Go names it.
ARCH ?= $(shell $(GO) env GOARCH)

.PHONY: image
image: ## Write the images of manager and proxy to bin/images, without Docker, for docker load or ctr import.
	@mkdir -p bin/linux-$(ARCH)
	GOOS=linux GOARCH=$(ARCH) $(BUILD) -o bin/linux-$(ARCH)/ ./cmd/manager ./cmd/proxy
	$(GO) run -C hack/image . -version $(VERSION) -arch $(ARCH) -out $(CURDIR)/bin/images \
		$(CURDIR)/bin/linux-$(ARCH)/manager $(CURDIR)/bin/linux-$(ARCH)/proxy

# A chart's version must be a semantic one, which a commit is not.
CHART_VERSION ?= $(shell echo '$(VERSION)' | sed -E 's/^v//; /^[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$$/! s/^/0.0.0-g/')

.PHONY: chart
chart: ## Write the chart to bin/charts, for the images that "make image" writes for the same VERSION.
	@$(WITH_HELM) $$HELM package charts/spillway --destination bin/charts --version $(CHART_VERSION) --app-version $(VERSION)

.PHONY: generate
generate: ## Write what is generated from the API types, and the chart's part that is said elsewhere.
	hack/generate.sh

.PHONY: clean
clean: ## Remove what was built here; caches in ~/.cache/spillway stay.
	rm -rf bin .run

##@ Test

.PHONY: test
test: test-unit test-api test-e2e test-sdk ## Run all tests.

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go, with the race detector.
	$(GO) test -race $(TESTFLAGS) $(UNIT)
	$(GO) test -C hack/localkube -race $(TESTFLAGS) ./...
	$(GO) test -C hack/image $(TESTFLAGS) ./...
	$(GO) test -C test/oldest -count=1 $(TESTFLAGS) . # Go's cache of results would not see that config/ has changed

.PHONY: test-api
test-api: ## Run the suites against a real API server.
	$(WITH_HELM) $(WITH_ASSETS) $(GO) test -race -timeout 20m -p 3 $(TESTFLAGS) $(API)

.PHONY: test-chart
test-chart: ## Run the chart's part of test-api: lint, golden files, a release's life (helm is built once, four minutes).
	$(WITH_HELM) $(WITH_ASSETS) $(GO) test -race -timeout 20m $(TESTFLAGS) ./test/chart

.PHONY: test-e2e
test-e2e: build ## Run the founding case and a fleet of five with real processes, and the commands of the pages.
	$(WITH_HELM) $(WITH_ASSETS) $(GO) test -race -count=1 -timeout 20m -p 4 $(TESTFLAGS) ./test/story ./test/e2e ./test/fleet ./test/docs/commands

.PHONY: test-alerts
test-alerts: build ## Run the alerts' tests in promtool, and a real Prometheus on the founding case (both built once, ten minutes).
	PROMTOOL=$$(hack/tools/tool.sh prometheus promtool) && PROMETHEUS=$$(hack/tools/tool.sh prometheus) && export PROMTOOL PROMETHEUS && \
		$(WITH_ASSETS) $(GO) test -race -count=1 -timeout 20m $(TESTFLAGS) ./test/alerts

.PHONY: test-fleet
test-fleet: build ## Run the suite of five proxies under one manager, with real processes.
	$(WITH_ASSETS) $(GO) test -race -count=1 -timeout 20m $(TESTFLAGS) ./test/fleet

.PHONY: test-sdk
test-sdk: ## Run the SDKs that callers use against the proxy. Needs node 20 or newer and npm.
	$(GO) test -race -count=1 -timeout 20m $(TESTFLAGS) ./test/sdk

# FULL=1 makes the longest parts of the suite longer.
FULL ?=

.PHONY: test-cluster
test-cluster: ## Run the chart on a whole node with real Pods. Needs root and containerd; says so where it cannot (FULL=1: longer).
	@missing=$$(test/cluster/missing.sh); if [ -n "$$missing" ]; then \
		printf 'SKIPPED test-cluster: this machine cannot run a node with Pods.\n%s\n' "$$missing"; \
	else $(MAKE) --no-print-directory test-cluster-node; fi

# Kubernetes is built by hack/localkube as one program (16 minutes on two cores, once). CLUSTER holds images and charts of two
# versions of what is in the tree: until there is a release, the previous version differs in nothing but its number.
CLUSTER = $(CURDIR)/bin/cluster

.PHONY: test-cluster-node
test-cluster-node:
	@mkdir -p $(CLUSTER)
	$(GO) build -o $(CLUSTER)/ ./cmd/kubectl-spillway
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o $(CLUSTER)/ ./cmd/manager ./cmd/proxy ./hack/simbackend ./test/cluster/pause
	$(GO) run -C hack/image . -out $(CLUSTER)/images -registry node.test -version 1 $(CLUSTER)/pause $(CLUSTER)/simbackend
	@$(WITH_HELM) for version in 0.0.1 0.0.2; do \
		$(GO) run -C hack/image . -out $(CLUSTER)/$$version -version $$version $(CLUSTER)/manager $(CLUSTER)/proxy && \
		$$HELM package charts/spillway --destination $(CLUSTER)/$$version --version $$version --app-version $$version || exit 1; \
	done
	$(WITH_HELM) node=$$($(GO) run -C hack/localkube . node) && NODE_PROGRAMS=$$node CLUSTER=$(CLUSTER) FULL=$(FULL) \
		$(GO) test -race -count=1 -v -timeout 20m $(TESTFLAGS) ./test/cluster

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (30s), two at a time; FUZZ=Header picks some by name.
	hack/fuzz.sh

.PHONY: bench
bench: build ## Measure the proxy beside nginx and a bare ReverseProxy (eight minutes) and write docs/benchmarks.md.
	$(GO) run ./test/bench

.PHONY: bench-control
bench-control: build ## Measure the control plane with 10,000 routes and 200 proxies (a quarter of an hour) and write docs/benchmarks.md.
	@$(WITH_ASSETS) $(GO) run ./test/bench/control

.PHONY: bench-micro
bench-micro: ## Run the benchmarks of the packages.
	$(GO) test -bench . -run '^$$' -benchmem ./internal/...

##@ Check

.PHONY: helm-lint
helm-lint: ## Run helm lint on the chart.
	@$(WITH_HELM) $$HELM lint --strict charts/spillway

.PHONY: lint
lint: ## Run golangci-lint (built once, three minutes on two cores).
	@lint=$$(hack/tools/tool.sh golangci-lint) && $$lint run ./... && (cd hack/localkube && $$lint run ./...) && cd hack/image && $$lint run ./...

.PHONY: verify
verify: verify-tree verify-modules ## Regenerate, check format, vet and modules; fail where the tree differs from the commit.

.PHONY: verify-modules
verify-modules: # what go.mod and go.sum say; it reads gigabytes
	@for m in $(MODULES); do \
		echo "verify module $$m" && (cd $$m && $(GO) mod tidy -diff && $(GO) mod verify >/dev/null) || exit 1; \
	done

.PHONY: verify-tree
verify-tree: generate
	@unformatted=$$(gofmt -l .) && \
		if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -C hack/localkube ./...
	$(GO) vet -C hack/image ./...
	$(GO) vet -C test/sdk/openaigo ./...
	$(GO) vet -C test/oldest ./...
	@hack/verify-clean.sh
