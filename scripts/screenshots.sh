#!/bin/sh
# `make screenshots`: pictures of the console for the documents, from a server with the demo's data.
set -eu
cd "$(dirname "$0")/.."
scripts/chromium.sh
REVEILLE_SCREENSHOTS="$PWD/docs/images" cargo test --quiet --package reveille --test console pictures -- --nocapture
ls docs/images/console-*.png
