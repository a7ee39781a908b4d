#!/usr/bin/env bash
# Runs each fuzz target (fuzz/) for a while, under AddressSanitizer. The same functions run in `cargo test` over inputs made
# from seeds; this finds more, the longer it runs.
#
#   ci/fuzz.sh [target]...        (all, without arguments)
#
# FUZZ_SECONDS: how long each runs (20). Needs cargo-fuzz (`cargo install --locked cargo-fuzz`) and a C++ compiler; the
# stable toolchain will do. What fails is in fuzz/artifacts; `cargo fuzz run TARGET FILE` in fuzz/ shows it again.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is not installed: cargo install --locked cargo-fuzz" >&2; exit 1; }
command -v c++ >/dev/null || { echo "there is no C++ compiler, which libfuzzer needs: apt install g++" >&2; exit 1; }

export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-../target}/fuzz"
[ $# -gt 0 ] || mapfile -t targets < <(cargo fuzz list)
[ $# -eq 0 ] || targets=("$@")
for target in "${targets[@]}"; do
    printf '\n-- %s\n' "$target"
    # What it prints about each new input is of no interest; what it prints at its end, or about a failure, is.
    cargo fuzz run "$target" -- -max_total_time="${FUZZ_SECONDS:-20}" -max_len=2000 -timeout=30 -verbosity=0 \
        -print_final_stats=1 2>&1 | {
        grep -vE '^(INFO|#|"|\s+(NEW_FUNC|Compiling|Finished|Running)|stat::(new|slow|peak|average))' || true
    }
done
