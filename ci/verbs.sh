#!/usr/bin/env bash
# The verbs driver in a guest kernel with soft-RoCE (ci/verbs-guest.sh): its own tests, newmad's suites of messages, faults
# and rails over it, and madmpi's programs. Each test binary has a guest of its own.
#   ci/verbs.sh [DRIVERS]   as NMAD_DRIVER, separated by commas
set -euo pipefail
cd "$(dirname "$0")/.."
drivers="${1:-verbs,shm+verbs,verbs+tcp}"
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
for suite in point_to_point deaths kills repair flood credit collectives; do
    cargo test -p newmad --test "$suite"
done
# What counts a process's time or its neighbours' is left out: the guest has one processor.
cargo test -p newmad --test processes -- --skip waiting_burns_no_processor --skip a_computing_receiver
cargo test -p mad-cli --test mpi -- programs_print_what_mpi_says
