#!/usr/bin/env bash
# The verbs driver in a guest kernel with soft-RoCE (ci/verbs-guest.sh): its own tests, and those of newmad's suites that have
# been seen to pass over it. Each test binary has a guest of its own.
#   ci/verbs.sh [DRIVERS]   as NMAD_DRIVER, separated by commas
set -euo pipefail
cd "$(dirname "$0")/.."
drivers="${1:-verbs}"
runner="$(ci/verbs-guest.sh)"
if [ -z "$runner" ]; then
    echo "SKIPPED: no guest with soft-RoCE can be had here"
    exit 0
fi
cargo test -p newmad --no-run
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$runner"
cargo test -p newmad --lib -- net::verbs
VERBS_GUEST_ADAPTERS=2 cargo test -p newmad --test verbs
export NEWMAD_TEST_DRIVERS="$drivers"
cargo test -p newmad --test deaths
# Not in it: what counts a process's time or its neighbours' (the guest has one processor, whose time is counted in ticks).
cargo test -p newmad --test processes -- any_source ping_pong_of barriers floods green_and_kernel forgotten wrong_use truncation
