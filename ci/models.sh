#!/usr/bin/env bash
# Checks the concurrent protocols of all crates with loom: every interleaving of a few threads, up to a number of
# preemptions (LOOM_MAX_PREEMPTIONS; 2 finds every mutation of these protocols that was tried, 3 takes ten times
# longer). What runs is the code itself: its atomics come from `shim.rs` (`sync.rs` in newmad).
#
#   ci/models.sh [words of test names]
set -euo pipefail
cd "$(dirname "$0")/.."

export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}"
# A directory of its own: with other flags everything would be built again each time.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"

# Optimised: exploring is slow. Only the libraries: nothing else is built for the model checker.
timeout "${MODELS_TIMEOUT:-600}" cargo test --release --lib -p mad-marcel -p pioman -p pioman-extras -p newmad -- model "$@"
