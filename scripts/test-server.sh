#!/bin/sh
# Stops the PostgreSQL servers that this workspace's tests have started, unless another run uses them. They would stop by
# themselves after ten minutes.
# usage: test-server.sh stop
set -eu
cd "$(dirname "$0")/.."
[ "${1:-}" = stop ] || { echo "usage: $0 stop" >&2; exit 2; }

workspace=$(pwd -P)
me=$(id -u)

# Anybody can make a folder of such a name in /tmp. Ours is a folder, closed to others, of the user who runs the servers:
# that is the caller, or for root the one whom the servers were given to.
is_ours() {
    for owner in "$me" $([ "$me" = 0 ] && echo postgres nobody); do
        id "$owner" >/dev/null 2>&1 || [ "$owner" = "$me" ] || continue
        if [ -n "$(find "$1" -prune -type d -user "$owner" -perm 700 2>/dev/null)" ]; then return 0; fi
    done
    return 1
}

# The temporary folder and /tmp are often one.
temporary=$(cd "${TMPDIR:-/tmp}" && pwd -P)
others=$(cd /tmp && pwd -P)
if [ "$others" = "$temporary" ]; then others=; fi
for parent in "$temporary" ${others:+"$others"}; do
    for folder in "$parent/reveille-test-$me"-*; do
        is_ours "$folder" || continue
        [ "$(cat "$folder/workspace" 2>/dev/null)" = "$workspace" ] || continue
        sh crates/pg/src/testing/control.sh stop "$folder"
    done
done
