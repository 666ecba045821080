# Every target prints what it runs; `make` alone lists them. Only Go is needed for demo, test, lint, bench and fuzz-smoke.
GO       ?= go
SCENARIO ?= all
# Checks of docs/model that take a minute or two together; MODEL=. runs all of them (about five minutes).
MODEL    ?= ^(T-|C-|M-|S-reach|S1S5-release|S1S5-old|S1S5-checkpoint$$|S3S4-live)
FUZZTIME ?= 6
# A simulated fleet: make simulate WORKERS=20 SHARDS=200 HOURS=24 SEED=7 FAULTS=heavy
WORKERS  ?= 20
SHARDS   ?= 200
HOURS    ?= 2
SEED     ?= 1
FAULTS   ?= heavy
LED      ?= false
SEEDS    ?= 200

.DEFAULT_GOAL := help
.PHONY: help build demo test lint bench simulate simulate-many planted fuzz-smoke model interop-smoke interop

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## compile every package and the program into .bin/
	$(GO) build ./...
	$(GO) build -o .bin/shardwarden ./cmd/shardwarden

demo: ## 20,000 records through splits, a merge and a zombie worker, checked; under a minute
	$(GO) run ./cmd/shardwarden demo

test: ## all tests under the race detector (limit 9 minutes for a package)
	$(GO) test -race -timeout 9m ./...
	$(GO) test -tags planted -run TestEditsFit ./internal/sim/planted
	@if [ -f bench/go.mod ]; then echo "$(GO) -C bench vet ./..." && $(GO) -C bench vet ./...; fi

lint: ## go vet, golangci-lint, gofmt, go mod tidy, go fix, and the rules of the tree
	GO="$(GO)" tools/lint

bench: ## benchmarks of the library, and those of bench/ that need no peer
	$(GO) test -run '^$$' -bench . -benchmem ./...
	@if [ -f bench/go.mod ]; then echo "$(GO) -C bench test -run '^$$' -bench . -benchmem ./..." && $(GO) -C bench test -run '^$$' -bench . -benchmem ./...; fi

simulate: ## a fleet in fake time under faults: WORKERS, SHARDS, HOURS, SEED, FAULTS=none|light|heavy, LED=true|false (docs/simulation.md)
	$(GO) test -count=1 -timeout 0 -run '^TestSimulate$$' -v ./internal/sim -args -workers=$(WORKERS) -shards=$(SHARDS) -hours=$(HOURS) -seed=$(SEED) -faults=$(FAULTS) -led=$(LED)

simulate-many: ## SEEDS (200) fleets of 10 workers and 60 shards, 2 hours each, heavy faults: about 5 CPU seconds a fleet
	$(GO) test -count=1 -timeout 30m -run '^TestSimulate$$' ./internal/sim -args -workers=10 -shards=60 -hours=2 -seeds=$(SEEDS) -faults=heavy -led=$(LED)

planted: ## break the engine on purpose, one rule at a time: the simulation must find each (docs/simulation.md)
	$(GO) test -count=1 -tags planted -timeout 60m -v ./internal/sim/planted

fuzz-smoke: ## each fuzz target for FUZZTIME seconds (6), at most 4 minutes together
	GO="$(GO)" FUZZTIME=$(FUZZTIME) tools/fuzz-smoke

model: ## check the protocol models with Spin: the quick ones, or MODEL=PATTERN (MODEL=. for all)
	docs/model/run.sh '$(MODEL)'

interop-smoke: ## emulators others wrote; boto3, the Java KCL and probe2 on ours; fleets of Java workers and ours
	$(GO) run ./interop smoke

interop: ## the whole matrix, with other people's emulators and clients (about 100 minutes), or SCENARIO=name; adds to docs/interop.md
	$(GO) run ./interop run $(SCENARIO)
