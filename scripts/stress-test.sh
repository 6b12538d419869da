#!/bin/sh
# Proves that no test depends on how busy the machine is: runs the whole suite several times while stress-ng keeps all
# cores busy, and reports the tests that failed. The goal is none.
#
# usage: scripts/stress-test.sh [RUNS]        default: 5
# PG and SUITE as for scripts/test.sh. Needs cargo-nextest, whose report names the failed tests.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

runs=${1:-5}
case $runs in
'' | *[!0-9]* | 0)
    echo "stress-test: RUNS must be a number of 1 or more, got '$runs'" >&2
    exit 2
    ;;
esac
has cargo-nextest || {
    echo "stress-test: cargo-nextest is missing: cargo install --locked cargo-nextest" >&2
    exit 2
}
if ! has stress-ng && manager=$(package_manager); then
    echo "stress-test: installing stress-ng with $manager"
    install_packages "$manager" stress-ng
fi
has stress-ng || {
    echo "stress-test: stress-ng is missing and cannot be installed without a password" >&2
    exit 2
}

# Built before the load starts: the compiler needs no stress.
cargo nextest run --workspace --no-run

failures=$(mktemp)
stress-ng --quiet --cpu "$(nproc)" --timeout 0 &
load=$!
finish() {
    kill "$load" 2>/dev/null || true
    rm -f "$failures"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed_runs=0
run=1
while [ "$run" -le "$runs" ]; do
    echo "stress-test: run $run of $runs"
    if ! scripts/test.sh; then
        failed_runs=$((failed_runs + 1))
        scripts/test-times.py --failures "target/nextest/${SUITE:-default}/junit.xml" >>"$failures" || true
    fi
    run=$((run + 1))
done

echo "stress-test: $failed_runs of $runs runs failed"
sort "$failures" | uniq -c | sort -rn
[ "$failed_runs" -eq 0 ]
