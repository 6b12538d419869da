#!/bin/sh
# What `make up` does: a PostgreSQL, the binary, and `reveille up` in the foreground.
# FEATURES: optional parts to build, e.g. pgmq,rabbitmq.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${DATABASE_URL:-}" ]; then
    echo "up: building Reveille and serving the database of DATABASE_URL; no PostgreSQL is started"
else
    echo "up: building Reveille (minutes the first time) and running it with a private PostgreSQL; nothing else is touched"
fi
scripts/postgres.sh
# The release build, so that a first measurement shows its real speed. Cargo replaces this shell and then the program
# replaces Cargo, so that Ctrl-C reaches the program directly.
cargo build --release --package reveille --features "${FEATURES:-}"
exec cargo run --release --quiet --package reveille --features "${FEATURES:-}" -- up "$@"
