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
scripts/tmux.sh
scripts/chromium.sh
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

# names KIND: what stands in `KIND(…)` in the filter of the suite in .config/nextest.toml, one a line.
names() {
    awk -v section="[profile.$SUITE]" '/^\[/ { inside = $0 == section } inside && /^default-filter = /' \
        .config/nextest.toml |
        grep -o "$1([^)]*)" | sed 's/^[a-z]*(\(.*\))$/\1/'
}

# The same tests without nextest, as threads instead of processes. Tests that measure time (`alone`) or count pages
# (`pages`) run afterwards, one at a time, as .config/nextest.toml has it.
without_nextest() {
    set --
    for package in $(names package); do set -- "$@" --package "$package"; done
    if [ $# = 0 ]; then set -- --workspace; fi
    left_out=
    for part in $(names test); do left_out="$left_out --skip $part"; done
    # Some tests run an example as a process.
    cargo build "$@" --examples
    if [ "$(names kind)" = test ]; then set -- "$@" --test '*'; else set -- "$@" --tests; fi
    status=0
    # shellcheck disable=SC2086 # words
    cargo test --no-fail-fast "$@" -- --skip alone:: --skip pages $left_out || status=$?
    # shellcheck disable=SC2086
    cargo test --no-fail-fast "$@" -- alone:: pages --test-threads=1 $left_out || status=$?
    return "$status"
}

if has cargo-nextest; then
    cargo nextest run --workspace --profile "$SUITE"
else
    without_nextest
fi

if [ "$SUITE" != default ]; then exit 0; fi
cargo test --workspace --doc --quiet
