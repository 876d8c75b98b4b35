# Everything a newcomer, a developer and the continuous integration need. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
WEIR ?= target/release/weir
# What makes that program.
BUILD ?= $(CARGO) build --release --package weir
FUZZ_SECONDS ?= 10
# The fuzz targets are a workspace of their own. Nothing is linked, so libFuzzer need not be there, nor be built.
CHECK_FUZZ := CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a $(CARGO) clippy --manifest-path fuzz/Cargo.toml --target-dir target

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

.PHONY: run
run: build ## Build, start the gateway with a sink, a gentle load and containers that write, and show what flows
	$(WEIR) demo examples/all-signals.yaml

.PHONY: build
build: tools ## Build the release binary
	$(BUILD)

.PHONY: test
test: tools ## Formatting, lints, dependency rules, tests, documentation
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- --deny warnings
	$(CHECK_FUZZ) -- --deny warnings
	scripts/deny.sh
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --quiet
	scripts/tests.sh

# Builds wait for a linker or a download now and then, so two of them together are faster.
.PHONY: programs
programs: rust-programs go-programs ## With --jobs=2: everything that has to be built for all tests

.PHONY: rust-programs
rust-programs: tools
	$(CARGO) clippy --workspace --all-targets -- --deny warnings
	$(CHECK_FUZZ) -- --deny warnings
	$(CARGO) test --workspace --no-run
	$(BUILD)

.PHONY: go-programs
go-programs: tools
	tests/cluster/build.sh
	tests/interop/setup.sh
	tests/page/setup.sh

.PHONY: test-interop
test-interop: build test-ottl-differential ## Real clients and backends: SDKs, telemetrygen, the OpenTelemetry Collector, Prometheus
	WEIR=$(WEIR) tests/interop/run.sh

.PHONY: test-page
test-page: build ## Click through the page of real processes in Chromium; SCREENSHOTS=DIR leaves pictures there
	WEIR=$(WEIR) tests/page/run.sh $(if $(SCREENSHOTS),--screenshots="$(abspath $(SCREENSHOTS))")

# Of the whole workspace, so that what `make test` has built is used again.
.PHONY: test-ottl-differential
test-ottl-differential: tools ## OTTL beside the OpenTelemetry Collector, and patterns beside Go: the cases of all tables, and generated ones; OTTL_SEED=random for others
	bench/peers/build.sh
	$(CARGO) test --workspace --test differential -- --nocapture

.PHONY: cluster-up
cluster-up: ## A Kubernetes cluster of one node on this machine; needs Go and root (the first time takes 5 to 14 minutes)
	tests/cluster/build.sh
	tests/cluster/cluster.sh up

.PHONY: cluster-down
cluster-down: ## End it, and leave nothing of it
	tests/cluster/cluster.sh down

.PHONY: test-cluster
test-cluster: ## Install Weir in a Kubernetes cluster on this machine, and run the acceptance scenarios in it; needs Go and root
	tests/cluster/run.sh

.PHONY: test-cluster-short
test-cluster-short: build ## The same with the rendered manifests, one node and what a newcomer does; in three minutes once the cluster is built
	WEIR=$(WEIR) tests/cluster/run.sh short

.PHONY: cluster-programs
cluster-programs: ## What a cluster is made of, for the tests that need one or an API server; needs Go
	tests/cluster/build.sh

.PHONY: fuzz-smoke
fuzz-smoke: tools ## Every fuzz target for FUZZ_SECONDS
	scripts/fuzz.sh $(FUZZ_SECONDS)

.PHONY: torture-short
torture-short: build ## The published scenarios of the load test, outage, sick neighbour and crash, briefly
	scripts/torture.sh 10

.PHONY: torture
torture: build ## The same at full length: outages of minutes, more than a thousand kills (three hours)
	scripts/torture.sh full

.PHONY: bench-journal
bench-journal: build ## What the journal costs: everything written, everything read back, 10,000 parked batches
	scripts/bench-journal.sh

.PHONY: bench-logs
bench-logs: build ## What reading container logs costs, by kinds of lines and outputs
	scripts/bench-container-logs.sh

.PHONY: bench-metrics
bench-metrics: build ## What scraping costs, beside vmagent, the OpenTelemetry Collector and Prometheus
	bench/peers/build.sh scrapers
	scripts/bench-metric-agent.sh

.PHONY: peers
peers: ## Build the peers to compare with (needs Go)
	bench/peers/build.sh

.PHONY: loadtest
loadtest: build ## The scenarios of all signals for 60 s each, beside the OpenTelemetry Collector
	scripts/loadtest.sh 60

.PHONY: tools
tools:
	@scripts/tools.sh
