#!/bin/sh
# Makes sure that tmux is there for the tests of what is drawn on a terminal. Without it those tests are skipped and say
# so, which is no failure here.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

if has tmux; then exit 0; fi
if manager=$(package_manager); then
    echo "tmux: installing it with $manager, for the tests that draw on a terminal"
    install_packages "$manager" tmux || true
fi
has tmux || echo "tmux: not installed, and not to be had without a password; its tests will be skipped"
