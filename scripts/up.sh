#!/bin/sh
# What `make up` does: a PostgreSQL, the binary, and `reveille up` in the foreground.
# FEATURES: optional parts to build, e.g. pgmq,rabbitmq.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${DATABASE_URL:-}" ]; then
    echo "up: building Reveille and serving the database of DATABASE_URL; no PostgreSQL is started"
else
    echo "up: building Reveille and running it on a private PostgreSQL of its own; nothing else on this machine is touched"
fi
scripts/postgres.sh
# The release build: what a newcomer measures first should be what it can do. Cargo knows where it is, and becomes it, as
# this shell becomes Cargo: Ctrl-C reaches it and nobody else.
cargo build --release --package reveille --features "${FEATURES:-}"
exec cargo run --release --quiet --package reveille --features "${FEATURES:-}" -- up "$@"
