# Treefold's commands. `make` lists them. `make verify` changes no file, `make fix` may.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run flights release test verify fix bench fan-in evaluation measure fmt clippy docs deny house deploy-check python shims ui ui-test tools

CARGO ?= cargo

# `make python` keeps its environment and its build outside the clone
PYTHON ?= python3
PYTHON_CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/treefold/python

# `make shims` tests against this command: the release build, else the debug build, else the one on PATH
BUILT := $(or $(CARGO_TARGET_DIR),target)
TREEFOLD ?= $(firstword $(wildcard $(BUILT)/release/treefold $(BUILT)/debug/treefold) treefold)

# cargo-deny is built once per machine and version, outside the clone
DENY_VERSION := 0.20.2
TOOLS := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/treefold/tools
# set to 1 on machines that may be unable to build cargo-deny: `make deny` then prints a note and passes
DENY_OPTIONAL ?= 0

# the shortest build: the commands and services that the demo shows
DEMO := --profile demo --locked --no-default-features -p treefold-cli

help: ## list these commands
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

run: tools ## run a cluster in one process that answers queries over real files
	$(CARGO) run $(DEMO) -- demo

flights: tools ## show a board of flights over three mirrors and an origin, which you kill from the keyboard
	$(CARGO) run $(DEMO) --features mirrors -- demo --flights

release: tools ## build the command with everything, optimised as a whole: target/release/treefold
	$(CARGO) build --release --locked -p treefold-cli

test: tools ## run every test that a change must pass
	$(CARGO) test --workspace --no-fail-fast

python: tools ## build the Python package in an environment of its own, and run its tests
	@$(PYTHON) -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' || { \
		echo "Python 3.10 or newer with the module venv is missing: run apt-get install python3-venv" >&2; exit 1; }
	test -x "$(PYTHON_CACHE)/venv/bin/pip" || $(PYTHON) -m venv "$(PYTHON_CACHE)/venv"
	CARGO_TARGET_DIR="$${CARGO_TARGET_DIR:-$(PYTHON_CACHE)/target}" \
		"$(PYTHON_CACHE)/venv/bin/pip" install --quiet --disable-pip-version-check \
		--config-settings=build-args=--profile=demo './python[test]'
	# not `python -m pytest`, which would import the package's sources in this directory
	cd python && "$(PYTHON_CACHE)/venv/bin/pytest" --quiet -p no:cacheprovider

shims: ## build the Java shims and run their tests against the command $TREEFOLD
	@command -v mvn >/dev/null || { echo "skipped: Maven is missing; run apt-get install maven" >&2; exit 0; }; \
	javac --release 17 -version >/dev/null 2>&1 || { \
		echo "skipped: a JDK of version 17 or later is missing; run apt-get install openjdk-17-jdk-headless" >&2; exit 0; }; \
	command -v "$(TREEFOLD)" >/dev/null || \
		echo "there is no command $(TREEFOLD), so tests with real relays are skipped; run make release" >&2; \
	command=$$(command -v "$(TREEFOLD)" || true); [ -z "$$command" ] || command=$$(realpath "$$command"); \
	mvn -B -ntp -f shims/pom.xml verify -Dtreefold.command="$${command:-treefold}"

ui: ## build the live page of the gateway from ui/ into crates/gateway/page; needs Node 20
	@command -v npm >/dev/null || { echo "npm is missing: run apt-get install nodejs npm" >&2; exit 1; }
	cd ui && npm ci --silent && npm run --silent build

ui-test: ## test the live page in headless Chromium, with real nodes; needs Node 20, Chromium and a built treefold
	@skip() { echo "skipped: $$1, so the live page was not tested in a browser" >&2; exit 0; }; \
	command -v npm >/dev/null || skip "npm is missing (apt-get install nodejs npm)"; \
	export CHROMIUM="$${CHROMIUM:-$$(command -v chromium || command -v chromium-browser || true)}"; \
	[ -n "$$CHROMIUM" ] || skip "Chromium is missing (apt-get install chromium)"; \
	[ -x "$$CHROMIUM" ] || { echo "CHROMIUM is $$CHROMIUM, which is no program" >&2; exit 1; }; \
	node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' || skip "Node is older than 20"; \
	cd ui; \
	npm ci --silent || skip "the packages of ui/package-lock.json can't be fetched"; \
	npm test --silent

verify: fmt clippy docs deny house deploy-check ## check formatting, lints, docs, licences, house rules and deploy/; change no file

fix: tools ## apply the lints' suggestions, then format; let python/Cargo.lock follow Cargo.lock
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all
	cd python && $(CARGO) fmt --all
	# the Python package's lock file follows the workspace's, and adds what only the package needs
	cp Cargo.lock python/Cargo.lock
	$(CARGO) update --quiet --workspace --manifest-path python/Cargo.toml

bench: tools ## compare Treefold with the kernel's floor, blocking and event-driven: round trips, waves per second, CPU
	bench/run.sh

fan-in: tools ## measure one root with 100, 1,000 and 10,000 children: in core alone, in a stream, over the network
	$(CARGO) build --profile lean --locked -p treefold-bench-fan-in
	for part in core stream network "network --dials root"; do \
		$(CARGO) run --profile lean --locked -p treefold-bench-fan-in -- $$part; \
	done

evaluation: tools ## run the papers' experiments on modelled time; write points, pictures and their part of docs/evaluation.md
	$(CARGO) run --profile lean --locked -p treefold-cli -- sim evaluate

measure: tools ## print the shape of core: fields, methods, lines, and lines shared by calls, streams and push waves
	$(CARGO) run --quiet --locked -p treefold-house -- measure

fmt: tools
	$(CARGO) fmt --all -- --check
	cd python && $(CARGO) fmt --all -- --check

clippy: tools
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	# without the rules that only experiments use
	$(CARGO) clippy -p treefold-network --locked -- -D warnings

docs: tools
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

deny: tools
	@deny="$(TOOLS)/bin/cargo-deny"; \
	if ! "$$deny" --version 2>/dev/null | grep -qF " $(DENY_VERSION)"; then \
		echo "building cargo-deny $(DENY_VERSION) into $(TOOLS), once"; \
		if ! env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 \
			$(CARGO) install --locked --debug --force --version $(DENY_VERSION) --root "$(TOOLS)" cargo-deny; then \
			echo "skipped: cargo-deny could not be built, so licences, bans and sources were not checked" >&2; \
			if [ "$(DENY_OPTIONAL)" = 1 ]; then exit 0; else exit 1; fi; \
		fi; \
	fi; \
	"$$deny" --locked check licenses bans sources

house: tools
	$(CARGO) test --locked -p treefold-house

deploy-check: ## check the chart, unit, Dockerfile, scripts, alert rules and dashboard in deploy/; skip what has no tool here
	@# the newest build, because it has the figures that the dashboard asks for
	@treefold="$${TREEFOLD:-$$(ls -t $(BUILT)/release/treefold $(BUILT)/debug/treefold 2>/dev/null | head -n 1 || true)}"; \
	TOOLS="$(TOOLS)" TREEFOLD="$$([ -z "$$treefold" ] || realpath "$$(command -v "$$treefold")")" deploy/test/check.sh

# print one line that names a missing tool and how to install it, instead of forty lines from cargo
tools:
	@command -v $(CARGO) >/dev/null || { \
		echo "cargo is missing: install Rust with rustup (https://rustup.rs), then open a new shell" >&2; exit 1; }
	@$(CARGO) --version >/dev/null 2>&1 || { \
		echo "the toolchain named in rust-toolchain.toml is missing: run 'rustup toolchain install' in this directory" >&2; exit 1; }
	@command -v cc >/dev/null || { \
		echo "a C compiler (cc) is missing, and Rust needs one for linking: run apt-get install build-essential, dnf install gcc, or xcode-select --install" >&2; exit 1; }

# --- releases (docs/releases.md)

.PHONY: packages release-static trained dist

# the system without a C library of its own, so that one file runs on every Linux
STATIC ?= x86_64-unknown-linux-musl
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
DIST ?= dist

verify: packages

packages: tools ## pack every crate that is published, as a registry would get it, and build nothing
	release/packages.sh

release-static: tools ## build the command as one static file: target/x86_64-unknown-linux-musl/release/treefold
	@rustup target list --installed | grep -qx $(STATIC) || { echo "run rustup target add $(STATIC)" >&2; exit 1; }
	@command -v musl-gcc >/dev/null || { echo "musl-gcc is missing: run apt-get install musl-tools" >&2; exit 1; }
	CC_$(subst -,_,$(STATIC))=musl-gcc $(CARGO) build --release --locked -p treefold-cli --target $(STATIC)

trained: tools ## build the command with profile-guided optimization: target/trained/HOST/release/treefold
	release/trained.sh

# QUICK=1 takes the release build, without profile-guided optimization
ifdef QUICK
dist: release
dist: PROGRAM = $(BUILT)/release/treefold
else
dist: trained
dist: PROGRAM = $(BUILT)/trained/$(HOST)/release/treefold
endif
dist: ## put the program, manual pages, completions, licences, SBOM and checksums into dist/
	release/dist.sh $(PROGRAM) $(HOST) $(DIST)
