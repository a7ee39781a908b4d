#!/usr/bin/env bash
# Runs the whole suite beside nproc × 4 computing processes, as often as asked for, and says which tests took longest.
# Tests judge the product, not the machine: each round has to pass.
#
#   ci/beside-load.sh [ROUNDS, 10] [COMPUTING PROCESSES, nproc × 4]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds="${1:-10}"
processes="${2:-$(($(nproc) * 4))}"
log="$(mktemp -d)"

cargo test --workspace --no-run

load=()
for _ in $(seq "$processes"); do
    (while :; do :; done) &
    load+=($!)
done
trap 'kill "${load[@]}" 2>/dev/null || true' EXIT

# The test harness prints times on request, which it takes for an unstable feature.
triple="$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')"
export "CARGO_TARGET_${triple}_RUNNER=env RUSTC_BOOTSTRAP=1"

failed=0
for round in $(seq "$rounds"); do
    start=$SECONDS
    # A shell without job control starts background commands with these signals ignored; tests send them.
    env --default-signal=INT,QUIT cargo test --workspace --lib --bins --tests --examples --no-fail-fast -- -Zunstable-options --report-time \
        >"$log/$round" 2>&1 && cargo test --workspace --doc >>"$log/$round" 2>&1 && outcome=passed || outcome=FAILED
    echo "round $round of $rounds beside $processes computing processes: $outcome after $((SECONDS - start)) s"
    if [ $outcome = FAILED ]; then
        failed=$((failed + 1))
        grep -aE '^test .* FAILED|panicked at|^error' "$log/$round" || tail -n 20 "$log/$round"
    fi
done

echo "the longest tests, over all rounds:"
sed -nE 's/^test (.*) \.\.\. ok <([0-9.]+)s>$/\2 \1/p' "$log"/* |
    awk '{ time = $1; sub(/^[^ ]* /, ""); if (time > most[$0]) most[$0] = time }
         END { for (test in most) printf "%8.1f s  %s\n", most[test], test }' | sort -rn | head -n 15
echo "$((rounds - failed)) passed, $failed failed"
[ "$failed" = 0 ]
