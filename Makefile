# Needs Go, make and git; "make race" a C compiler too.

# A go.work of a folder above must not change what is built.
export GOWORK := off

# Git writes its index when it is asked what has changed. Tests that look at the top folder would not be known again.
export GIT_OPTIONAL_LOCKS := 0

# Tests build programs, too. With the same flags everywhere a package is compiled
# once, and a copy of the tree needs not be compiled at all.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false)

VERSION ?= $(shell v=$$(git describe --tags --always 2>/dev/null) || v=unknown; \
	git --no-optional-locks diff --quiet HEAD 2>/dev/null; [ $$? -ne 1 ] || v=$$v-dirty; echo "$$v")
LDFLAGS := -s -w -X main.version=$(VERSION)
BUILD   := go build -ldflags '$(LDFLAGS)'

# Three API servers for all packages of a test run: tests that want one for
# themselves need not wait for each other. The first run builds them. Tests need
# no fsync of their etcd, and no fairness between clients; measurements do.
UNMEASURED := --fsync=false --fairness=false
SANDBOX    := bin/sandbox run --servers=3 $(UNMEASURED) --

# Tests wait more than they compute: two packages for each processor. The
# linker is much of a test run: its debugging data is for debuggers. make check vets.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
GOTEST = $(ENV) go test -p $(shell echo $$(($(PROCESSORS) * 2))) -parallel $(PROCESSORS) -vet=off -ldflags='-s -w'

# Memory for a fifth of the compiler's time.
check check-release test race e2e: export GOGC := 400

# More programs run than there are processors: one that spreads over several itself pays a fifth of its time for
# that. With the race detector, programs do.
test modules: ENV := env GOMAXPROCS=1

# What takes longest starts first, or one processor waits for it at the end.
LONGEST := ./test/scenario ./test/classes ./test/sim/controller ./test/e2e/... ./test/fault ./test/endpoint ./shared/engine ./events/exporter ./test/newclass \
	./test/testbed ./test/identity ./test/sim/cmd/... ./shared/ticket ./test/demo ./infra/fc/pack ./shared/stream ./functions/attributeimmutable \
	./functions/rampermission ./functions/cmd/lbremedy/root ./functions/cmd/lbremedy/console ./test/cluster

# How long one package may take: the API server's own build is not in it.
TEST_TIMEOUT  ?= 30m
BENCH_TIMEOUT ?= 60m

comma := ,

.DEFAULT_GOAL := help
# "make -j gen check" would check what is being written.
.NOTPARALLEL:
.PHONY: help new gen check vuln test modules race learn demo node node-test pod-test e2e fault bench capture build build-fc check-fc deploy-fc images push-images release sign-release push-release check-release clean bin/sandbox bin/node bin/node.test

help: ## List the targets.
	@echo 'Usage: make TARGET'
	@echo
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1#\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='#' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

new: ## Start an error class: make new CLASS=some-class.
	@go run ./infra/gen/stage1 -new '$(CLASS)'
	@$(MAKE) --no-print-directory gen

gen: ## Write the generated files again.
	@go run ./infra/gen/stage1
	@go run ./infra/gen

check: ## Check form: gofmt, vet, staticcheck, vulnerabilities where their database answers, the rules of test/rules, generated files.
	@echo 'gofmt'
	@bad=$$("$$(go env GOROOT)/bin/gofmt" -l .) || exit 1; \
		if [ -n "$$bad" ]; then printf '%s\n' "$$bad" 'These files are not formatted: gofmt -w FILE puts them right.'; exit 1; fi
	@echo 'go vet'
	@go vet ./...
	@cd test/sandbox && go vet ./...
	@cd test/promql && go vet ./...
	@cd test/alertmanager && go vet ./...
	@cd test/deploy && go vet ./...
	@cd test/browser && go vet ./...
	@echo 'staticcheck'
	@go tool staticcheck ./...
	@tool=$$(go tool -n staticcheck) && cd test/sandbox && "$$tool" ./... && cd ../promql && "$$tool" ./... && cd ../alertmanager && "$$tool" ./... && cd ../deploy && "$$tool" ./... && cd ../browser && "$$tool" ./...
	@echo 'workflows'
	@cd test/release && go tool actionlint -no-color -shellcheck= -pyflakes= ../../.github/workflows/*.yaml
	@echo 'vulnerabilities'
	@.ci/vuln || [ $$? -eq 75 ]
	@echo 'rules and generated files'
	@go test -count=1 ./test/rules/... ./infra/gen/...

vuln: ## Look for known vulnerabilities in all modules; fails with 75 if the database, VULNDB=url, can't be asked.
	@VULNDB='$(VULNDB)' .ci/vuln

# test/classes runs the scenarios of all classes in one program. A folder of a class that has a generated test
# alone, beside its page, is left out, and test/node, whose tests run on a node.
PACKAGES = $(LONGEST) $$(go list -f '{{if not (and .EmbedFiles (eq (len .TestGoFiles) 1) (eq (len .XTestGoFiles) 0))}}{{.ImportPath}}{{end}}' ./... | grep -v /test/node$$)

# With RACED=1 what "make race" tests is left out, but for what that has less of: a test of a thousand Services, and one of how
# much memory lists take.
UNRACED = $$(go list $(PACKAGES) | grep -vxF "$$(go list $(RACING) | grep -v -e /test/e2e/safety$$ -e /shared/kube$$)")

# Modules of their own are tested beside the others, and say at the end how that went: they wait more than they
# compute.
test: bin/sandbox ## Run all tests, against a real API server; RACED=1 leaves out those that "make race" runs.
	@log=$$(mktemp); make --no-print-directory modules >"$$log" 2>&1 & modules=$$!; \
		$(SANDBOX) $(GOTEST) -timeout $(TEST_TIMEOUT) $(if $(RACED),$(UNRACED),$(PACKAGES)); main=$$?; \
		wait $$modules; beside=$$?; cat "$$log"; rm -f "$$log"; exit $$((main || beside))

# They read files of the others, of whose changes Go knows nothing: their results are not kept.
modules: bin/sandbox ## Test the modules of their own, as "make test" does beside the others.
	@cd test/browser && $(GOTEST) -count=1 -timeout $(TEST_TIMEOUT)
	@cd test/promql && $(GOTEST) -count=1 ./...
	@cd test/alertmanager && $(GOTEST) -count=1 ./...
	@cd test/deploy && ../../bin/sandbox run $(UNMEASURED) -- $(GOTEST) -count=1 ./...

# Tests of what runs several things at once, and of all of lbremedy at work: test/e2e/classes lets Services fail in every way
# of every class. With -short no scenario is played again with another text or without one of the rights, fewer Services
# fail at once, and fewer objects are listed for how much memory that takes. "make race RACING=./..." runs the rest, too, which
# has nothing that races or runs in these.
RACING ?= ./test/e2e/... ./test/fault ./shared/engine ./events/... ./shared/stream/... ./shared/ticket ./shared/doctor ./shared/approval ./shared/chat \
	./shared/cloud ./shared/connect ./shared/event ./shared/hand/... ./shared/host ./shared/kube ./shared/observe/... ./shared/policy ./shared/probe ./shared/serve \
	./functions/cmd/lbremedy/console ./functions/cmd/lbremedy/up ./test/cluster ./test/sim ./test/testbed

race: bin/sandbox ## Run with the race detector the tests of what runs at once; RACING=./... of all. Needs a C compiler.
	@CGO_ENABLED=1 $(SANDBOX) $(GOTEST) -race -short -timeout $(TEST_TIMEOUT) $(RACING)

learn: ## Compare the source of controllers with what is known of their releases: make learn CCM=FOLDER; ARGS=-json prints all facts.
	@go run ./test/learn $(ARGS) $(CCM)

demo: bin/sandbox ## Watch broken Services heal; KEEP=1 leaves it running, CLASSES=a,b or all chooses, TABLE=1 adds a table.
	@go run ./test/demo

# A chart has a semantic version, also of a tree that no tag names.
NODE_VERSION = $(if $(filter v%,$(VERSION)),$(VERSION),v0.0.0-g$(VERSION))

# Of a release what comes out of a registry, for this machine's architecture alone: images, and the chart with their
# digests. On the node, bin/crane is the registry and pushes images into it.
NODE_PROGRAMS := lbremedy
NODE_RELEASE = rm -rf bin/release-node && export VERSION='$(NODE_VERSION)' && \
	OUT=bin/release-node/images PROGRAMS='$(NODE_PROGRAMS)' ARCH="$$(go env GOARCH)" infra/images/build.sh && \
	OUT=bin/release-node infra/images/chart.sh && cd infra/images && go build -o ../../bin/ github.com/google/go-containerregistry/cmd/crane

# What it needs is looked at and built first.
node: bin/node ## Install the chart on a real kubelet and watch its Pod heal; needs root and Debian's containerd, KEEP=1 leaves it running.
	@$(NODE_RELEASE)
	@bin/sandbox node -- bin/node

# One Pod with all classes.
POD_TEST = cd test/node && ../../bin/sandbox node -- ../../bin/node.test -test.v -test.timeout $(TEST_TIMEOUT) -test.skip Knative

# One release serves all: what node-test names is built for both of its nodes. These stand beside each other, as each waits
# more than it computes.
node-test: NODE_PROGRAMS := lbremedy,exporter,busy,tag-missing,throttling,vswitch-ip-exhausted,vswitch-not-found
node-test: bin/node.test ## Test the chart, its Pods and functions on Knative on a real kubelet; needs what "make node" needs.
	@bin/sandbox build --platform >/dev/null
	@log=$$(mktemp); ($(POD_TEST)) >"$$log" 2>&1 & pod=$$!; \
		(cd test/node && ../../bin/sandbox node --platform -- ../../bin/node.test -test.v -test.timeout $(TEST_TIMEOUT) -test.run Knative); knative=$$?; \
		wait $$pod; beside=$$?; cat "$$log"; rm -f "$$log"; exit $$((knative || beside))

pod-test: bin/node.test ## The part of node-test without Knative: the chart as one Pod, and what is left of a node.
	@$(POD_TEST)

e2e: bin/sandbox ## Run the end-to-end tests alone, and tell what they do.
	@$(SANDBOX) $(GOTEST) -count=1 -v -timeout $(TEST_TIMEOUT) ./test/e2e/...

fault: bin/sandbox ## Play random histories with faults for MINUTES=10, or HISTORIES=n of them, from SEED=1 on, and judge them.
	@MINUTES='$(MINUTES)' SEED='$(SEED)' HISTORIES='$(HISTORIES)' KINDS='$(KINDS)' go run ./test/fault

bench: bin/sandbox ## Measure latency, throughput and memory; SCALE=10000 has so many Services fail for one cause.
	@LBREMEDY_BENCH_SCALE='$(SCALE)' bin/sandbox run -- go test -run '^$$' -bench . -timeout $(BENCH_TIMEOUT) ./test/bench/...
	@cd test/browser && go test -run '^$$' -bench . -timeout $(BENCH_TIMEOUT)

# Draws with Prometheus' engine what Grafana would show; needs no Grafana. The pictures of the console and of cards need Chromium,
# and a font for Chinese, such as that of Debian's package fonts-wqy-microhei.
capture: build bin/sandbox ## Record ten minutes of lbremedy: dashboard.png, bin/terminal.txt, pictures of the console and of cards.
	@go run ./test/capture bin/lbremedy bin
	@cd test/promql && go run ./draw ../../infra/observability/dashboard.json ../../bin/metrics.txt ../../infra/observability/dashboard.png
	@cd test/browser && go run ./draw ../../functions/cmd/lbremedy/console/pictures
	@go run ./test/capture/cards bin
	@cd test/browser && for app in feishu feishu-zh dingtalk; do go run ./draw ../../bin/card-$$app.html ../../shared/chat/pictures/card-$$app.png || exit 1; done

build: ## Build the programs into bin, the functions into bin/functions.
	@mkdir -p bin/functions
	@$(BUILD) -o bin/ ./functions/cmd/lbremedy ./events/cmd/exporter
	@set -- $(addprefix ./,$(wildcard functions/*/cmd/*)); [ $$# -eq 0 ] || $(BUILD) -o bin/functions/ "$$@"

build-fc: ## Build the zips for Function Compute into bin/fc, with SHA256SUMS; CLASSES=a,b chooses.
	@go run ./infra/fc/pack -classes '$(CLASSES)'

check-fc: ## Check s.yaml with Serverless Devs, which needs Node.js and npm.
	@infra/fc/check.sh

# GoReleaser, ko, cosign and Helm take minutes to compile, once.
check-release: ## Build a small release, sign it, push it to a registry in process, and take it with cosign, Helm and krew.
	@cd test/release && go vet ./...
	@tool=$$(go tool -n staticcheck) && cd test/release && "$$tool" ./...
	@cd test/release && $(GOTEST) -count=1 -timeout $(TEST_TIMEOUT) ./...

deploy-fc: ## Say what a deployment to Function Compute would change; APPLY=1 deploys, FC_RUNTIME=go1 and CLASSES=a,b choose.
	@infra/fc/deploy.sh $(if $(APPLY),--apply) $(if $(FC_RUNTIME),--runtime '$(FC_RUNTIME)') \
		$(foreach class,$(subst $(comma), ,$(CLASSES)),--class '$(class)')

images: ## Build the images of all programs into bin/images; PROGRAMS=a,b chooses. Needs no registry and no Docker.
	@VERSION='$(VERSION)' PROGRAMS='$(PROGRAMS)' infra/images/build.sh

push-images: ## Say what the registry REGISTRY=host/name lacks of the images; APPLY=1 pushes it, TAG=name is another tag.
	@REGISTRY='$(REGISTRY)' TAG='$(TAG)' APPLY='$(APPLY)' infra/images/push.sh

release: ## Build the release VERSION=v0.1.0 into bin/release, from its tag.
	@VERSION='$(VERSION)' PROGRAMS= ARCH= infra/images/release.sh

push-release: ## Say what the registry REGISTRY=host/name lacks of bin/release: images and chart; APPLY=1 pushes it.
	@REGISTRY='$(REGISTRY)' APPLY='$(APPLY)' IN=bin/release/images CHART="$$(echo bin/release/lbremedy-*.tgz)" infra/images/push.sh

# Who signs says so with COSIGN_KEY or COSIGN_PRIVATE_KEY, and COSIGN_PASSWORD, in the environment: arguments are seen by others.
sign-release: ## Sign bin/release, and what the registry REGISTRY=host/name has of it, with the key that COSIGN_KEY names.
	@REGISTRY='$(REGISTRY)' infra/images/sign.sh

clean: ## Remove bin; the API server stays in the user's cache directory.
	@rm -rf bin

# The program that runs the API server. Building it is quick; it builds the rest itself.
bin/sandbox:
	@cd test/sandbox && go build -o ../../bin/sandbox .

# What runs on a node with a kubelet, and that node.
bin/node: bin/sandbox
	@bin/sandbox build --node >/dev/null
	@$(BUILD) -o bin/node ./test/node

# The tests of a node, and all that they use. Whether a node leaves anything is looked at while there is no other.
bin/node.test: bin/sandbox
	@bin/sandbox build --node >/dev/null
	@$(NODE_RELEASE)
	@$(BUILD) -o bin/ ./functions/cmd/lbremedy
	@go test -c -vet=off -ldflags='-s -w' -o bin/node.test ./test/node
	@cd test/sandbox && $(GOTEST) -count=1 -v -timeout $(TEST_TIMEOUT) -run Node
