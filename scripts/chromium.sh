#!/bin/sh
# Makes sure that Chromium, its driver and axe are there, for the tests of the console in a browser. Without them those
# tests are skipped and say so, which is no failure here.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

if ! has chromedriver || ! has chromium; then
    if manager=$(package_manager) && [ "$manager" = apt-get ]; then
        echo "chromium: installing the packages chromium and chromium-driver, for the tests of the console"
        install_packages apt-get chromium chromium-driver || true
    fi
fi
has chromedriver && has chromium || echo "chromium: not to be had here; the tests of the console will be skipped"

# axe, which checks pages for accessibility. Version and hash are pinned: the registry does not decide what runs here.
version=4.10.3
sha512=5e6edba515e70d25f6604d9815f064d859c5d1ea7ab661bbc4f87c88779ef0c21cae0abbeb636471ef39e9d62d2582e4b88a1866f19f4ecfcf6d986275e4dc12
folder=${CARGO_TARGET_DIR:-target}/axe
if [ ! -f "$folder/axe.min.js" ] && has npm; then
    echo "axe: fetching axe-core $version with npm"
    mkdir -p "$folder"
    (
        cd "$folder"
        quietly npm pack --silent "axe-core@$version" && mv axe-core-*.tgz archive.tgz
        { if has sha512sum; then sha512sum archive.tgz; else shasum -a 512 archive.tgz; fi } | grep -q "^$sha512 " &&
            tar -xzf archive.tgz package/axe.min.js && mv package/axe.min.js .
        rm -rf archive.tgz package
    ) || true
fi
[ -f "$folder/axe.min.js" ] || echo "axe: not to be had here; pages are not checked for accessibility"
