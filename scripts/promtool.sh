#!/bin/sh
# Makes sure that promtool is there for the test that checks the metrics with it. Without it that test is skipped and says
# so, which is no failure here.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

folder=${CARGO_TARGET_DIR:-target}/promtool
if has promtool || [ -x "$folder/promtool" ]; then exit 0; fi
# Debian has it in a package that would start a server: only the program is taken out of it.
if manager=$(package_manager) && [ "$manager" = apt-get ] && has dpkg-deb; then
    echo "promtool: taking it from the package prometheus, for the test of the metrics"
    mkdir -p "$folder"
    (
        cd "$folder"
        apt-get download prometheus >/dev/null 2>&1 &&
            dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool
        rm -f prometheus_*.deb
    ) || true
fi
[ -x "$folder/promtool" ] || echo "promtool: not to be had here; its test will be skipped"
