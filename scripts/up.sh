#!/bin/sh
# What `make up` does: a PostgreSQL, the binary, and `reveille up` in the foreground.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${DATABASE_URL:-}" ]; then
    echo "up: building Reveille and serving the database of DATABASE_URL; no PostgreSQL is started"
else
    echo "up: building Reveille and running it on a private PostgreSQL of its own; nothing else on this machine is touched"
fi
scripts/postgres.sh
# The release build: what a newcomer measures first should be what it can do.
cargo build --release --package reveille
# In place of this shell, so that Ctrl-C reaches it and nobody else.
exec "${CARGO_TARGET_DIR:-target}/release/reveille" up "$@"
