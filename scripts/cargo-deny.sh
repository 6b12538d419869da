#!/bin/sh
# Checks the dependencies against deny.toml: licences, sources, banned crates. Installs cargo-deny if it is missing: a
# debug build, which takes a minute of one core. Needs no network once it is installed.
set -eu
cd "$(dirname "$0")/.."

version=0.20.2
root=target/tools
deny=$root/bin/cargo-deny
if command -v cargo-deny >/dev/null 2>&1; then
    deny=cargo-deny
elif [ ! -x "$deny" ]; then
    echo "cargo-deny: building version $version in $root"
    cargo install --quiet --locked --debug --root "$root" --target-dir "$root/build" "cargo-deny@$version"
    rm -rf "$root/build"
fi
"$deny" --log-level error --offline check bans licenses sources
