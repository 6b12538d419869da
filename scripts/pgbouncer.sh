#!/bin/sh
# Makes sure that PgBouncer is there for the tests that go through a real pooler. Without it those tests are skipped and
# say so, which is no failure here.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

PATH=$PATH:/usr/sbin:/usr/local/sbin
if has pgbouncer || [ -n "${DATABASE_URL:-}" ]; then exit 0; fi
if manager=$(package_manager); then
    echo "PgBouncer: installing it with $manager, for the tests that go through a pooler"
    install_packages "$manager" pgbouncer || true
fi
has pgbouncer || echo "PgBouncer: not installed, and not to be had without a password; its tests will be skipped"
