#!/bin/sh
# Stops the PostgreSQL servers that this workspace's tests have started, unless another run uses them. They would stop by
# themselves after ten minutes.
# usage: test-server.sh stop
set -eu
cd "$(dirname "$0")/.."
[ "${1:-}" = stop ] || { echo "usage: $0 stop" >&2; exit 2; }

workspace=$(pwd -P)
me=$(id -u)

# Any user can make a folder of such a name there. Ours is a folder of the caller in which no other user can write: closed to
# others, or, for root, open to pass through for the user who runs the servers.
is_ours() {
    mode=700
    if [ "$me" = 0 ]; then mode=711; fi
    [ -n "$(find "$1" -prune -type d -user "$me" -perm "$mode" 2>/dev/null)" ]
}

# The servers are in memory if there is enough of it, else in the temporary folder, or in /tmp; these are often one.
temporary=$(cd "${TMPDIR:-/tmp}" && pwd -P)
others=$(cd /tmp && pwd -P)
if [ "$others" = "$temporary" ]; then others=; fi
memory=$(cd /dev/shm 2>/dev/null && pwd -P) || memory=
for parent in ${memory:+"$memory"} "$temporary" ${others:+"$others"}; do
    for folder in "$parent/reveille-test-$me"-*; do
        is_ours "$folder" || continue
        of=$(cat "$folder/workspace" 2>/dev/null) || continue
        # No other run stops the servers of a workspace that was removed.
        [ "$of" = "$workspace" ] || { [ -n "$of" ] && [ ! -d "$of" ]; } || continue
        sh crates/pg/src/testing/control.sh stop "$folder"
    done
done
