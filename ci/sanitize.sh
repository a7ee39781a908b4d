#!/usr/bin/env bash
# Runs tests under the sanitizers that come with the stable toolchain.
#
#   ci/sanitize.sh [address|leak|thread]...        (all, without arguments)
#
# address: all tests of marcel, pioman and newmad. corosensei tells AddressSanitizer of each switch of stacks
#   (feature `asan` of marcel). Left out:
#   * a_stack_overflow_...: AddressSanitizer has the SIGSEGV handler, and reports the overflow itself;
#   * progress_allocates_nothing: it brings its own allocator, where AddressSanitizer has to be;
#   * a_computing_receiver_does_not_hold_the_sender: it measures time;
#   * runtimes_that_start_and_stop_leave_nothing_behind, runtimes_that_come_and_go_leave_nothing: they measure memory,
#     and what was freed is kept for a while;
#   * documentation tests: rustdoc does not know the target's flags.
#   SANITIZE_BRIEF=1, as in .ci/run: of newmad only what runs in one process, without its simulations (ci/fuzz.sh runs their
#   parts under AddressSanitizer).
#
# leak: marcel's tests that start and stop runtimes, with what was built for AddressSanitizer, which holds LeakSanitizer. Control
#   blocks and virtual processors are immortal, but in lists from which they are used again, so not lost. What was freed is not
#   kept: some of these tests measure memory. Left out: a_scope_waits_for_threads_that_nobody_joins, which leaks on purpose.
#
# thread: only unit tests in which no green thread runs: ThreadSanitizer takes a switch of stacks for one thread's
#   confusion (corosensei has no hooks for it). It does not model fences either, so what hangs on one is checked by
#   the models instead (ci/models.sh), and the standard library is not instrumented (no -Zbuild-std on stable):
#   its channels are named in tsan.supp; `--cfg sanitized` has counters changed by what it sees; and the test harness must not start threads (one test at a time).
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=x86_64-unknown-linux-gnu
BUILD="${CARGO_TARGET_DIR:-target}"
LIMIT="${SANITIZE_TIMEOUT:-900}"
export RUSTC_BOOTSTRAP=1 RUST_BACKTRACE=1

in_one_process=(asynchronous collectives_local fairness local locking managers ranks slow_end)

address() {
    local tests=(--tests) skipped=()
    if [ "${SANITIZE_BRIEF:-}" = 1 ]; then
        # shellcheck disable=SC2207
        tests=($(printf -- '--test %s ' $(names marcel-rs pioman-rs pioman-extras-rs) "${in_one_process[@]}"))
        # Other crates' tests have these files' names.
        skipped=(--skip testing:: --skip a_computing_receiver_is_interrupted --skip processes_that_wait_are
            --skip processes_that_interrupt --skip no_driver_allocates)
    fi
    addresses detect_leaks=0 -p mad-marcel -p pioman -p pioman-extras -p newmad --lib "${tests[@]}" -- \
        --skip a_stack_overflow_ --skip allocates_nothing \
        --skip a_computing_receiver_does_not_hold_the_sender \
        --skip runtimes_that_start_and_stop_leave_nothing_behind \
        --skip runtimes_that_come_and_go_leave_nothing "${skipped[@]}"
}

# All integration tests of some crates.
names() {
    for crate in "$@"; do
        for file in "$crate"/tests/*.rs "$crate"/tests/*/main.rs; do
            [ ! -e "$file" ] || basename "${file%/main.rs}" .rs
        done
    done | sort -u
}

addresses() {
    CARGO_TARGET_DIR="$BUILD/asan" RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=address" \
        ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_stack_use_after_return=0:$1" \
        timeout "$LIMIT" cargo test --target "$TARGET" --features mad-marcel/asan "${@:2}"
}

leak() {
    # The same packages: what was built serves.
    addresses detect_leaks=1:quarantine_size_mb=0:thread_local_quarantine_size_kb=0 \
        -p mad-marcel -p pioman -p pioman-extras -p newmad \
        --test chaos --test locals --test many --test shutdown --test std_semantics --test threads -- \
        --skip a_stack_overflow_ --skip a_scope_waits_for_threads_that_nobody_joins
}

thread() {
    CARGO_TARGET_DIR="$BUILD/tsan" \
        RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg sanitized" \
        TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp:${TSAN_OPTIONS:-}" \
        timeout "$LIMIT" cargo test --target "$TARGET" -p mad-marcel -p pioman -p pioman-extras --lib -- --test-threads=1
}

[ $# -gt 0 ] || set -- address leak thread
for what in "$@"; do
    "$what"
done
