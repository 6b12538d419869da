# Needs only Rust, make and a package manager; the scripts install the rest.
# The steps are in scripts/, so that each can be run and read alone.

# Arguments of `reveille up`, e.g. make up ARGS="--listen 127.0.0.1:7000"
ARGS ?=
# Optional parts of `reveille` to build, e.g. make up FEATURES=pgmq,rabbitmq
FEATURES ?=
# The major version of PostgreSQL to test on, e.g. make test PG=18
PG ?=
# A named part of the tests, e.g. make test SUITE=core (see .config/nextest.toml)
SUITE ?=
# Arguments of the benchmarks, e.g. make bench BENCH="durable --quick"
BENCH ?= wake

.DEFAULT_GOAL := help
.PHONY: help up test check bench screenshots

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s%s\n", $$1, $$2 }' Makefile

up: ## run PostgreSQL and Reveille on this machine; Ctrl-C stops both (ARGS="--listen …")
	@FEATURES='$(FEATURES)' exec scripts/up.sh $(ARGS)

test: ## run all tests on a real PostgreSQL (PG=18 chooses its version, SUITE=core a part)
	@PG='$(PG)' SUITE='$(SUITE)' exec scripts/test.sh

check: ## format, lints, documentation, tidiness; changes nothing
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	# The workspace has the feature `http` on, through the binary; programs that embed a product have not.
	cargo clippy --package reveille-queue --package reveille-flow --package reveille-web --lib --quiet -- -D warnings
	cargo clippy --package reveille-flow --features pgmq,rabbitmq --lib --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	cargo test --workspace --test tidy --quiet
	scripts/cargo-deny.sh

bench: ## measure, against the targets and the peers (BENCH="durable --quick")
	@scripts/postgres.sh
	@exec cargo run --release --quiet --package reveille-bench -- $(BENCH)

screenshots: ## pictures of the console for docs/images, from the demo
	@exec scripts/screenshots.sh
