#!/usr/bin/env bash
# The verbs driver in a guest kernel with soft-RoCE (ci/verbs-guest.sh): its own tests, and newmad's suites over it. Each test
# binary has a guest of its own.
#   ci/verbs.sh        what .ci/run runs: minutes
#   ci/verbs.sh --all  every suite over verbs, shm+verbs and verbs+tcp, a million messages, and madmpi's programs in C
set -euo pipefail
cd "$(dirname "$0")/.."
all="${1:-}"
runner="$(ci/verbs-guest.sh)"
if [ -z "$runner" ]; then
    echo "SKIPPED: no guest with soft-RoCE can be had here"
    exit 0
fi
suites=(deaths kills point_to_point)
processes=(any_source barriers floods forgotten green_and_kernel ping_pong_of truncation wrong_use)
if [ "$all" = --all ]; then
    suites+=(repair credit flood rpc pack strategies collectives)
    # Not this one: the guest has one processor, whose time is counted in ticks.
    processes=(--skip waiting_burns_no_processor)
fi
# All of it as `cargo test --workspace` does: what that built serves here, and .ci/run has both at a time.
cargo test --workspace --no-run
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$runner"
cargo test --workspace --lib -- net::verbs
VERBS_GUEST_ADAPTERS=2 cargo test --workspace --test verbs
cargo test --workspace --test progress_allocates_nothing -- verbs
cargo test --workspace --test sample -- adapters

over() {
    export NEWMAD_TEST_DRIVERS="$1"
    for suite in "${suites[@]}"; do cargo test --workspace --test "$suite"; done
    cargo test --workspace --test processes -- "${processes[@]}"
}
# Eager channels from the first messages on, with changes of shape, and too little memory for several; beside reads.
channels() {
    NMAD_VERBS_RDMA=20000 NMAD_VERBS_CHANNELS="$1" NMAD_VERBS_CHANNELS_AFTER=20 NMAD_VERBS_CHANNELS_WINDOW=50 "${@:2}"
}
# Most of the suites' long messages are shorter than those that adapters read by default.
NMAD_VERBS_RDMA=20000 over verbs
NEWMAD_TEST_DRIVERS=verbs channels 1048576 cargo test --workspace --test point_to_point
# Two virtual rails on a machine of two nodes, between which threads go to and fro; the route changes often.
virtual() {
    NMAD_VERBS_RDMA=20000 NMAD_VERBS_VIRTUAL_RAILS=auto NMAD_VERBS_VIRTUAL_RAILS_WINDOW=5 MARCEL_TOPOLOGY="numa:2 core:1" "$@"
}
NEWMAD_TEST_DRIVERS=verbs virtual cargo test --workspace --test point_to_point
[ "$all" = --all ] || exit 0
NMAD_VERBS_RDMA=0 over verbs
channels 1048576 over verbs
channels 20000 over shm+verbs
virtual over verbs
NEWMAD_TEST_DRIVERS=verbs channels 1048576 cargo test --release -p newmad --test processes -- --ignored a_million
over shm+verbs
NMAD_VERBS_RDMA=20000 over verbs+tcp
NEWMAD_TEST_DRIVERS=verbs cargo test --release -p newmad --test processes -- --ignored a_million
NEWMAD_TEST_DRIVERS=verbs VERBS_GUEST_TIME=1800 cargo test --workspace --test mpi -- programs_print_what_mpi_says
