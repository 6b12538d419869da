#!/bin/sh
# Stops the PostgreSQL servers that this workspace's tests have started. They would stop by themselves after ten minutes.
# usage: test-server.sh stop
set -eu
cd "$(dirname "$0")/.."
[ "${1:-}" = stop ] || { echo "usage: $0 stop" >&2; exit 2; }

workspace=$(pwd -P)
for folder in "${TMPDIR:-/tmp}"/reveille-test-"$(id -u)"-* /tmp/reveille-test-"$(id -u)"-*; do
    [ -e "$folder/control.sh" ] || continue
    [ "$(cat "$folder/workspace")" = "$workspace" ] || continue
    sh "$folder/control.sh" stop "$folder"
done
