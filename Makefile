# The only entry point: CI runs these targets and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Guided builds compile everything anew for each program; releases and load tests have them. Without the folder of the
# source in what is compiled, every clone on the machine uses what another one has compiled.
export GOFLAGS := $(GOFLAGS) -pgo=off -trimpath

BIN := $(CURDIR)/.bin
PROTO := $(CURDIR)/.cache/proto
MODULES := gen deploy services/platform services/gateway services/webhook-egress services/notify services/edge
PACKAGES := $(MODULES:%=./%/...)
SQLC_DIRS := $(dir $(wildcard services/*/internal/postgres/sqlc.yaml))
SERVICES := $(filter services/%,$(MODULES))
GENERATED := gen/go gen/openapi $(SQLC_DIRS:%=%dbsql) deploy/observability/grafana/dashboards deploy/k8s/components/prometheus/rules.yaml $(SERVICES:%=%/docs/packages.md) services/edge/internal/reference/recipes.json services/edge/internal/reference/receiver.html services/edge/internal/site/documents deploy/examples/start
# PREBUILT is a folder of release programs to run instead of building them.
DEV := $(if $(PREBUILT),$(abspath $(PREBUILT)),$(BIN))/dev
STORES := $(DEV) stores --

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Run

.PHONY: run demo dev
# Debug information is a quarter of the compiler's work. `dev run` builds the services with the same flags, as otherwise
# the standard library would be compiled once more; CI compiles it for the tests. The compiler collects less garbage for
# a fifth less processor time; GOGC is set for it alone, as the services heed it too.
run demo dev: export GOFLAGS := $(GOFLAGS) $(if $(CI),,-gcflags=all=-dwarf=false) -ldflags=-w

run: dev ## build and start everything; prints the URLs and lines to try
	@exec $(DEV) run $(abspath $(PREBUILT))

demo: dev ## run the main jobs against `make run` and show what came back
	@exec $(DEV) demo

dev:
ifdef PREBUILT
	@[ -x $(DEV) ] || { echo "$(PREBUILT) has no program dev: unpack the archives of a release for this platform there" >&2; exit 1; }
else
	@mkdir -p $(BIN) && { [ -x $(DEV) ] || echo "Building deploy/dev with the standard library (half a minute or so the first time); it builds and starts everything else"; }
	@GOGC=$${GOGC:-400} go build -o $(DEV) ./deploy/dev
endif

##@ Tools, pinned. The protoc plugins are pinned in .ci/tools/go.mod, beside the libraries whose protos they read.

BUF := $(BIN)/buf-v1.70.0
SQLC := $(BIN)/sqlc-v1.30.0
GOLANGCI := $(BIN)/golangci-lint-v2.15.0
KUSTOMIZE := $(BIN)/kustomize-v5.7.1
KUBECTL_VALIDATE := $(BIN)/kubectl-validate-v0.0.4
PROMTOOL := $(BIN)/promtool-v0.313.5
GOVULNCHECK := $(BIN)/govulncheck-v1.8.0
HELM := $(BIN)/helm-v3.22.0
GORELEASER := $(BIN)/goreleaser-v2.16.0
BUILDX := $(BIN)/buildx-v0.38.2
CRANE := $(BIN)/crane-v0.22.1
ACTIONLINT := $(BIN)/actionlint-v1.7.12
PLUGINS := $(BIN)/.plugins

define install
@mkdir -p $(BIN)/.install && echo "installing $(1)@$(2)"
@GOBIN=$(BIN)/.install GOWORK=off CGO_ENABLED=0 go install $(1)@$(2) && mv $(BIN)/.install/$(notdir $(patsubst %/v2,%,$(patsubst %/v5,%,$(1)))) $@
endef

$(BUF): ; $(call install,github.com/bufbuild/buf/cmd/buf,v1.70.0)
$(SQLC): ; $(call install,github.com/sqlc-dev/sqlc/cmd/sqlc,v1.30.0)
$(GOLANGCI): ; $(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,v2.15.0)
$(KUSTOMIZE): ; $(call install,sigs.k8s.io/kustomize/kustomize/v5,v5.7.1)
$(KUBECTL_VALIDATE): ; $(call install,sigs.k8s.io/kubectl-validate,v0.0.4)
$(GOVULNCHECK): ; $(call install,golang.org/x/vuln/cmd/govulncheck,v1.8.0)
$(CRANE): ; $(call install,github.com/google/go-containerregistry/cmd/crane,v0.22.1)
$(ACTIONLINT): ; $(call install,github.com/rhysd/actionlint/cmd/actionlint,v1.7.12)
$(GORELEASER): ; $(call install,github.com/goreleaser/goreleaser/v2,v2.16.0)
$(BUILDX): ; $(call install,github.com/docker/buildx/cmd/buildx,v0.38.2)
# Prometheus' module has replacements, which `go install` refuses; without service discovery it builds in a third of the time.
$(PROMTOOL): .ci/promtool/go.mod
	@mkdir -p $(BIN) && echo "building promtool" && GOWORK=off CGO_ENABLED=0 go -C .ci/promtool build -tags remove_all_sd,builtinassets -o $@ github.com/prometheus/prometheus/cmd/promtool
$(HELM): .ci/helm/go.mod .ci/helm/main.go
	@mkdir -p $(BIN) && echo "building helm" && GOWORK=off CGO_ENABLED=0 go -C .ci/helm build -ldflags=-w -o $@ .
$(PLUGINS): .ci/tools/go.mod .ci/tools/go.sum
	@mkdir -p $(BIN) && GOBIN=$(BIN) GOWORK=off go -C .ci/tools install tool && touch $@
$(PROTO)/.stamp: .ci/tools/go.mod .ci/tools/go.sum .ci/tools/thirdparty/main.go
	@rm -rf $(PROTO) && mkdir -p $(PROTO) && GOWORK=off go -C .ci/tools run ./thirdparty $(PROTO) && touch $@

##@ Generate

# One OpenAPI document per face. The plugin merges what it is given: a service's own package and the one that each has.
openapi = $(BUF) generate --path proto/switchyard/$(1) --path proto/switchyard/counts --template '{"version":"v2","managed":{"enabled":true,"disable":[{"path":"google"},{"path":"validate"},{"path":"protoc-gen-openapiv2"}],"override":[{"file_option":"go_package_prefix","value":"switchyard.dev/gen/go"}]},"inputs":[{"directory":"proto"}],"plugins":[{"local":".bin/protoc-gen-openapiv2","out":"gen/openapi","strategy":"all","opt":["allow_merge=true","merge_file_name=$(1)","json_names_for_fields=false","disable_default_errors=true"]}]}'

.PHONY: gen docs chart third-party protos contract-baseline
third-party: $(PROTO)/.stamp

protos: $(BUF) $(PROTO)/.stamp ## one archive of the contracts and of what they import, for clients in other languages
	@go run ./deploy/protos .cache/switchyard-protos.tar.gz proto $(PROTO) && echo .cache/switchyard-protos.tar.gz

gen: $(BUF) $(SQLC) $(PLUGINS) $(PROTO)/.stamp ## lint the contracts, check them for breaks, generate all code
	@$(BUF) lint
	@$(BUF) breaking proto --against .ci/contract.binpb
	@$(BUF) generate
	@rm -rf gen/openapi && $(call openapi,gateway) && $(call openapi,webhooks) && $(call openapi,notify)
	@$(BUF) build proto -o $(CURDIR)/.cache/contract.binpb
	@GOWORK=off go -C .ci/tools run ./openapi $(CURDIR)/gen/openapi $(CURDIR)/.cache/contract.binpb
	@for dir in $(SQLC_DIRS); do (cd $$dir && rm -rf dbsql && $(SQLC) generate); done
	@go run ./deploy/observability
	@go run ./deploy/docs
	@go run ./deploy/site

docs: ## write all documents as one site with a search, in .local/docs; no network, no server needed
	@go run ./deploy/site && rm -rf .local/docs && go run ./services/edge/cmd/edge docs .local/docs

chart: $(KUSTOMIZE) ## write the Helm chart from the cluster's manifests
	@KUSTOMIZE=$(KUSTOMIZE) go run ./deploy/helm

contract-baseline: $(BUF) $(PROTO)/.stamp ## accept the contracts as they are: what `gen` compares with from now on
	@$(BUF) build proto --exclude-source-info -o .ci/contract.binpb

##@ Verify. Each has a twin that mends: gen, tidy, fmt.

.PHONY: verify-gen verify-mod tidy lint fmt
verify-gen: ## generated code is what `make gen` makes, new and stale files included
	@before=$$(mktemp -d); trap 'rm -rf $$before' EXIT; \
	for path in $(GENERATED); do mkdir -p $$before/$$(dirname $$path); cp -r $$path $$before/$$path; done; \
	$(MAKE) --no-print-directory gen; \
	for path in $(GENERATED); do diff -r $$before/$$path $$path || { echo "verify-gen: $$path is not what 'make gen' makes; commit its output" >&2; exit 1; }; done; \
	if [ -n "$$(git ls-files --others --exclude-standard -- $(GENERATED))" ]; then echo "verify-gen: generated files are not committed:" >&2; git ls-files --others --exclude-standard -- $(GENERATED) >&2; exit 1; fi

mod_files = sha256sum go.work go.work.sum $(MODULES:%=%/go.mod) $(MODULES:%=%/go.sum)
verify-mod: ## modules are tidy, level with the workspace and on one Go version
	@before=$$($(mod_files)); go work sync; \
	[ "$$before" = "$$($(mod_files))" ] || { echo "verify-mod: run 'make tidy' and commit" >&2; exit 1; }
	@for module in $(MODULES); do GOWORK=off go -C $$module mod tidy -diff || { echo "verify-mod: $$module is not tidy; run 'make tidy'" >&2; exit 1; }; done
	@[ "$$(grep -h '^go ' go.work $(MODULES:%=%/go.mod) .ci/tools/go.mod .ci/helm/go.mod | sort -u | wc -l)" = 1 ] || { echo "verify-mod: the go lines differ" >&2; exit 1; }

tidy: ## tidy every module and level the workspace
	@for module in $(MODULES); do GOWORK=off go -C $$module mod tidy; done; go work sync; \
	for module in $(MODULES); do GOWORK=off go -C $$module mod tidy; done

lint: $(GOLANGCI) $(BUF) $(PROTO)/.stamp $(ACTIONLINT) ## golangci-lint over all modules, buf lint and format, workflows
	@$(ACTIONLINT) -shellcheck= -pyflakes=
	@$(GOLANGCI) run $(PACKAGES)
	@$(BUF) lint
	@$(BUF) format --diff --exit-code proto

fmt: $(GOLANGCI) $(BUF) ## format Go and proto files
	@$(GOLANGCI) fmt $(PACKAGES)
	@$(BUF) format -w proto

##@ Dependencies

NPM := deploy/clients deploy/webpush deploy/examples/typescript

.PHONY: ages audit licenses release-check release-programs pin-images
# The database that govulncheck asks; GOVULNDB may name a copy of it.
VULNERABILITIES := $(or $(GOVULNDB),https://vuln.go.dev)

# npm's lock files have no dates, so a package's is the day on which its version was chosen.
npm_ages = for file in $$(git ls-files '*package.json'); do git blame --date=short -- $$file | \
	sed -nE 's/^.* ([0-9]{4}-[0-9]{2}-[0-9]{2}) +[0-9]+\) +"([^"]+)": "(npm:.+@)?([0-9]+\.[0-9][0-9a-z.-]*)".*/\1 npm:\2 \4/p'; done

ages: ## every direct dependency of Go and npm with its version and age in months, the oldest first; offline
	@{ for module in $(MODULES); do GOWORK=off go -C $$module list -m -f '{{if not (or .Main .Indirect .Replace)}}{{.Time.Format "2006-01-02"}} {{.Path}} {{.Version}}{{end}}' all; done; $(npm_ages); } | sort -u | \
	awk -v today=$$(date -u +%Y-%m-%d) '{split(today, t, "-"); split($$1, d, "-"); printf "%3d  %s  %s %s\n", (t[1]-d[1])*12 + t[2]-d[2], $$1, $$2, $$3}'

audit: ages ## ages, what npm has newer, and known vulnerabilities in what is called, where their database can be reached
	@for folder in $(NPM); do echo "npm outdated $$folder"; npm outdated --prefix $$folder || true; done
	@if curl -sfL -m 10 -o /dev/null $(VULNERABILITIES)/index/db.json; \
	then $(MAKE) --no-print-directory $(GOVULNCHECK); for module in $(MODULES); do echo "govulncheck $$module"; $(GOVULNCHECK) -db $(VULNERABILITIES) -C $$module ./...; done; \
	elif [ -n "$(GOVULNDB)" ]; then echo "govulncheck: GOVULNDB: $(GOVULNDB)/index/db.json can't be read" >&2; exit 1; \
	else echo "govulncheck: not run, since $(VULNERABILITIES) can't be reached; the ages above are all that is known"; fi

licenses: ## every Go module's licence is one that is allowed, those of programs first; npm packages are counted; offline
	@go run ./deploy/licenses

# Left out of `make ci`, because the two tools take minutes to build.
release-check: $(GORELEASER) $(BUILDX) ## the configurations of programs and images of a release are valid; offline
	@$(GORELEASER) check --quiet && echo ".goreleaser.yaml: valid"
	@$(BUILDX) bake -f deploy/images/bake.hcl --print --progress quiet >/dev/null && echo "deploy/images/bake.hcl: valid"

release-programs: $(GORELEASER) ## build, sign and upload the programs of the tag that is checked out; NOTES names the file of its notes
	@$(GORELEASER) release --clean --release-notes $(NOTES)

pin-images: $(CRANE) ## write the digests that registries have today behind the tags of all images
	@CRANE=$(CRANE) go run ./deploy/images

##@ Test

.PHONY: test isolate e2e soak k8s manifests walk alerts bench growth benchmarks load ci
# `make lint` vets tests, too. Linking without symbols for debuggers takes a quarter less processor time.
QUICK := -vet=off '-ldflags=-s -w'
# Tests wait for much of their time, and the linker for the disk: two packages more than processors keep these busy.
MORE_PACKAGES := -p $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
test isolate e2e manifests walk growth benchmarks: export TMPDIR = $(shell .ci/tmpdir)
# Compiler, linker and tests collect less garbage: a fifth less processor time. Services of black-box tests run as shipped.
test: export GOGC := $(or $(GOGC),400)

# Go keeps a result while the files of the test's own module stay as they are. These tests read others, too.
TEXTS := $(addprefix switchyard.dev/deploy/,contract docs images licenses observability protos release site)
QUOTED := $(addprefix switchyard.dev/services/,gateway/internal/operations/catalog webhook-egress/internal/signing)

test: dev ## every test, those of services with -race, on a Postgres and a Redis that it starts itself
	@$(STORES) $(DEV) tests -- go test -race $(QUICK) $(MORE_PACKAGES) -timeout 20m $$(go list work | grep -vxF $(TEXTS:%=-e %))
	@go test -count=1 $(QUICK) $(TEXTS) $(QUOTED)
	@go test -tags nocloud -run WithoutDrivers ./services/gateway/internal/custody/secretref ./services/gateway/internal/custody/identity/cloud

# `go list -export` compiles and doesn't link: the tests have linked the same packages.
isolate: ## each module compiles by itself, as in its image
	@for module in $(MODULES); do (cd $$module && GOWORK=off go list -export ./... >/dev/null) || exit 1; done

e2e: dev $(BUF) $(PROTO)/.stamp ## black-box tests over HTTP and gRPC against the built binaries
	@$(DEV) tests -- go test -count=1 -tags e2e $(QUICK) -timeout 40m ./deploy/e2e/... ./deploy/compose/...

soak: ## everything at once for SOAK_FOR (10m) while services, Postgres and Redis are killed; one table at the end
	@SOAK_FOR=$${SOAK_FOR:-10m} go test -count=1 -tags e2e -v -timeout 90m -run '^TestSoak$$' ./deploy/e2e

CLUSTER := KUSTOMIZE=$(KUSTOMIZE) KUBECTL_VALIDATE=$(KUBECTL_VALIDATE) HELM=$(HELM) go test -count=1 -tags k8s

k8s: manifests walk ## all that concerns clusters; offline

manifests: $(KUSTOMIZE) $(KUBECTL_VALIDATE) $(HELM) ## every overlay builds, is valid and keeps the rules; the chart is equal
	@$(CLUSTER) ./deploy/k8s ./deploy/helm/

walk: $(KUSTOMIZE) $(KUBECTL_VALIDATE) $(HELM) ## the documents' commands from an empty cluster to a chat, with pods as processes
	@$(CLUSTER) ./deploy/k8s/cluster

alerts: $(PROMTOOL) ## the alerts fire on their troubles, and on nothing else; what dashboards ask for is PromQL
	@go run ./deploy/observability queries | $(PROMTOOL) check rules
	@cd deploy/observability/prometheus && $(PROMTOOL) check config --syntax-only prometheus.yaml && $(PROMTOOL) test rules rules_test.yaml

packages_with = $$(grep -rlE '^func $(1)\(' --include='*_test.go' services deploy gen | xargs -n1 dirname | sort -u | sed 's|^|./|')
bench: growth benchmarks ## what measures

growth: dev ## the tests that -race would distort, which measure their own process
	@$(STORES) go test $(QUICK) $(MORE_PACKAGES) -run '(DoesNotAllocate|GrowsLinearly)$$' $(call packages_with,Test[A-Za-z0-9_]*(DoesNotAllocate|GrowsLinearly))

benchmarks: dev ## every benchmark once, so that none rots
	@$(STORES) go test $(QUICK) -run '^$$' -bench . -benchtime 1x $(call packages_with,Benchmark[A-Za-z0-9_]*)

load: ## the gateway beside its floor, some minutes; see deploy/load
	@go run ./deploy/load gateway $(LOAD)

# With a copy of the database at hand (GOVULNDB), vulnerabilities too; no network is needed for either. Some targets leave
# half of the processors to others. Black-box tests compare durations, so nothing is beside them.
ci: dev ## all that must pass before a change lands; lists the time of each step and the slowest tests
	@$(DEV) check verify-gen verify-mod $(if $(GOVULNDB),audit,ages) lint+licenses test e2e manifests+isolate+alerts growth+benchmarks+walk
