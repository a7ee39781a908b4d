#!/usr/bin/env bash
# Fails if modules of a crate import each other in a circle (tests aside). `ci/layers.sh --order` prints the layers.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo run -q -p layers -- "$@"
