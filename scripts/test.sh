#!/bin/sh
# What `make test` does: all tests, which run the examples too, and those in the documentation.
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
    echo "test: running the tests on the server of DATABASE_URL; what that server cannot do is skipped, and said"
    PG=
else
    echo "test: running the tests on a private PostgreSQL${PG:+ $PG} that they start themselves and that stops at the end"
fi
scripts/postgres.sh "${PG:-}"
scripts/pgbouncer.sh
scripts/promtool.sh
scripts/rabbitmq.sh install || echo "RabbitMQ: its tests will be skipped"
# What depends on the server's version alone has nothing of Python in it.
if [ "$SUITE" != core ]; then scripts/python.sh; fi
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

# The same without nextest: the threads of a program for its processes, and what must run alone afterwards.
# without_nextest PACKAGES...
without_nextest() {
    # Some tests run an example as a process.
    cargo build "$@" --examples
    status=0
    cargo test --no-fail-fast "$@" --tests -- --skip alone:: || status=$?
    cargo test --no-fail-fast "$@" --tests -- alone:: --test-threads=1 || status=$?
    return "$status"
}

if has cargo-nextest; then
    cargo nextest run --workspace --profile "$SUITE"
elif [ "$SUITE" = core ]; then
    without_nextest --package reveille-pg --package reveille-wake --package reveille-durable --package reveille-queue
else
    without_nextest --workspace
fi

if [ "$SUITE" != default ]; then exit 0; fi
cargo test --workspace --doc --quiet
