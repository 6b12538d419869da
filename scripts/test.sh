#!/bin/sh
# `make test`: all tests, including the examples and the tests in the documentation.
# PG: the major version of PostgreSQL to test on. SUITE: a profile of .config/nextest.toml.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

SUITE=${SUITE:-default}
grep -q "^\[profile\.$SUITE\]$" .config/nextest.toml || {
    echo "test: there is no suite '$SUITE'; those of .config/nextest.toml are:" >&2
    sed -n 's/^\[profile\.\([a-z]*\)\]$/  \1/p' .config/nextest.toml >&2
    exit 2
}
if [ -n "${DATABASE_URL:-}" ]; then
    echo "test: using the server of DATABASE_URL; tests that need more than it can do are skipped and listed"
    PG=
else
    echo "test: using a private PostgreSQL${PG:+ $PG}, started by the tests and stopped at the end"
fi
scripts/postgres.sh "${PG:-}"
scripts/pgbouncer.sh
scripts/promtool.sh
scripts/rabbitmq.sh install || echo "RabbitMQ: its tests will be skipped"
# The core needs no Python.
if [ "$SUITE" != core ]; then scripts/python.sh; fi
if [ -n "${PG:-}" ]; then export REVEILLE_TEST_PG="$PG"; fi
# Test runners hide the output of passing tests; skipped tests must be visible.
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

# The same tests without nextest, as threads instead of processes. Tests that measure time (`alone`) or count pages
# (`pages`) run afterwards, one at a time, as .config/nextest.toml has it.
# without_nextest SKIPPED PACKAGES...    SKIPPED: a part of test names, or nothing
without_nextest() {
    skip=$1
    shift
    # Some tests run an example as a process.
    cargo build "$@" --examples
    status=0
    cargo test --no-fail-fast "$@" --tests -- --skip alone:: --skip pages ${skip:+--skip "$skip"} || status=$?
    cargo test --no-fail-fast "$@" --tests -- alone:: pages --test-threads=1 ${skip:+--skip "$skip"} || status=$?
    return "$status"
}

if has cargo-nextest; then
    cargo nextest run --workspace --profile "$SUITE"
elif [ "$SUITE" = core ]; then
    without_nextest rabbitmq --package reveille-pg --package reveille-wake --package reveille-durable \
        --package reveille-queue --package reveille-flow
else
    without_nextest '' --workspace
fi

if [ "$SUITE" != default ]; then exit 0; fi
cargo test --workspace --doc --quiet
