#!/usr/bin/env bash
# What .ci/run has go on beside the tests: it needs processors, and each step has a folder of its own to build in.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%s)\n' "$*" "$(date +%T)"; }

# Where it is not in ~/.cache yet. .ci/run tells whether it has to be there.
step "the guest kernel with soft-RoCE"
ci/verbs-guest.sh || true

step "models"
MODELS_TIMEOUT=1800 ci/models.sh

step "a hundred thousand schedules of what can fail, in virtual time"
timeout 1800 cargo test --release -p newmad --lib -- --ignored --nocapture a_hundred_thousand

step "a million messages over each driver"
timeout 1200 cargo test --release -p newmad --test processes -- --ignored a_million

step "sanitizers: addresses and leaks"
SANITIZE_BRIEF=1 SANITIZE_TIMEOUT=1800 ci/sanitize.sh address leak

step "fuzzing, briefly"
tools="$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools"
export PATH="$PATH:$tools/bin"
if command -v cargo-fuzz >/dev/null || timeout 900 cargo install -q --locked --debug cargo-fuzz --root "$tools"; then
    FUZZ_SECONDS=5 ci/fuzz.sh
else
    echo "SKIPPED: cargo-fuzz is not to be had; the tests have run the same functions over fewer inputs"
fi
