#!/usr/bin/env bash
# Tests marcel on the back ends of the switch that are not the default (marcel-rs/src/stack): corosensei, and
# Boost.Context by the crate `context`, which needs a C compiler.
#
#   ci/back-ends.sh [arguments of cargo test]        (all tests of marcel, without arguments)
set -euo pipefail
cd "$(dirname "$0")/.."

for back_end in corosensei context; do
    timeout "${BACK_ENDS_TIMEOUT:-600}" cargo test -p mad-marcel --features "back-end-$back_end" "$@"
done
