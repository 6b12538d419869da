#!/bin/sh
# What `make test` does: all tests, the documentation's examples, the runnable examples.
# PG: the major version of PostgreSQL to test on. SUITE: a profile of .config/nextest.toml.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

if [ -n "${DATABASE_URL:-}" ]; then
    echo "test: running the tests on the server of DATABASE_URL; what that server cannot do is skipped, and said"
    PG=
else
    echo "test: running the tests on a private PostgreSQL${PG:+ $PG} that they start themselves and that stops at the end"
fi
scripts/postgres.sh "${PG:-}"
scripts/pgbouncer.sh
if [ -n "${PG:-}" ]; then export REVEILLE_TEST_PG="$PG"; fi
# Test runners hide what a passing test prints; a test that was skipped must be seen.
REVEILLE_TEST_SKIPPED=$(mktemp)
export REVEILLE_TEST_SKIPPED
finish() {
    sort -u "$REVEILLE_TEST_SKIPPED"
    rm -f "$REVEILLE_TEST_SKIPPED"
    scripts/test-server.sh stop
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if has cargo-nextest; then
    cargo nextest run --workspace --profile "${SUITE:-default}"
elif [ "${SUITE:-}" = core ]; then
    cargo test --package reveille-pg --package reveille-wake --tests
else
    cargo test --workspace --tests
fi

if [ -n "${SUITE:-}" ]; then exit 0; fi
cargo test --workspace --doc --quiet
for file in crates/*/examples/*.rs crates/*/examples/*/main.rs; do
    [ -e "$file" ] || continue
    package=${file#crates/}
    package=reveille-${package%%/*}
    example=$(basename "${file%/main.rs}" .rs)
    echo "example: $package $example"
    quietly cargo run --quiet --package "$package" --example "$example"
done
