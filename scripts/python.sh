#!/bin/sh
# Makes Python environments: those of the tests (the queue's clients as their users have them, and the tool that tries every
# route of the OpenAPI document) unless others are named. They are kept in the folder of what is built, under python/, one
# folder each.
# usage: python.sh [NAME...]
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

say() { echo "Python: $*"; }
kept=${CARGO_TARGET_DIR:-target}/python

# What each environment has. This is the one place where versions are: 0.15.0 is what the queue's contract was written down
# for, 2.6.0 is the newest release. The libraries that decide what is sent, or what is tried, do not change by themselves either.
pins() {
    case $1 in
    queen-0.15) echo 'queen-mq==0.15.0 httpx==0.28.1' ;;
    queen-2.6) echo 'queen-mq==2.6.0 httpx==0.28.1' ;;
    schemathesis) echo 'schemathesis==4.32.5 hypothesis==6.170.15' ;;
    dbos) echo 'dbos==3.3.0 psycopg[binary]==3.3.8' ;;
    *) return 1 ;;
    esac
}

# The first Python that is new enough and can make environments; Debian has that part in a package of its own.
find_python() {
    for found in python3 /usr/bin/python3; do
        if "$found" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
            echo "$found"
            return
        fi
    done
    return 1
}

install_python() {
    manager=$(package_manager) || {
        say "no Python from 3.10 on with its module venv, and no package manager that may be used without a password" >&2
        return 1
    }
    case $manager in
    apt-get) packages='python3 python3-venv' ;;
    dnf | yum | zypper) packages='python3 python3-pip' ;;
    apk) packages='python3 py3-pip' ;;
    pacman | brew) packages=python ;;
    esac
    say "none from 3.10 on with its module venv; installing it with $manager"
    # shellcheck disable=SC2086
    install_packages "$manager" $packages
}

# What an environment is made of. One whose stamp says something else, or that has none because it was never finished, is
# made again; so is one whose Python has left the machine.
stamp() { echo "$(pins "$1") $("$python" --version 2>&1)"; }
is_made() {
    [ "$(cat "$kept/$1/made-of" 2>/dev/null)" = "$(stamp "$1")" ] && "$kept/$1/bin/python" -c '' 2>/dev/null
}

# make_environment NAME
make_environment() {
    say "making $kept/$1 with $(pins "$1")"
    rm -rf "${kept:?}/$1"
    mkdir -p "$kept"
    quietly "$python" -m venv "$kept/$1" || return
    # shellcheck disable=SC2046
    quietly "$kept/$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-input $(pins "$1") || return
    stamp "$1" >"$kept/$1/made-of"
}

python=$(find_python) || {
    install_python || true
    python=$(find_python) || {
        say "the clients and peers in Python need Python from 3.10 on with its module venv (Debian: python3-venv)" >&2
        exit 1
    }
}
[ $# -gt 0 ] || set -- queen-0.15 queen-2.6 schemathesis
for name in "$@"; do
    pins "$name" >/dev/null || {
        say "there is no environment $name" >&2
        exit 1
    }
    is_made "$name" || make_environment "$name" || {
        say "$name could not be made; it needs $(pins "$name") from Python's package index" >&2
        exit 1
    }
done
