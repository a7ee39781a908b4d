#!/usr/bin/env bash
# Runs the whole suite beside nproc × 4 computing processes, as often as asked for, and says which tests took longest.
# Tests judge the product, not the machine: each round has to pass.
#
#   ci/beside-load.sh [ROUNDS, 10] [COMPUTING PROCESSES, nproc × 4]
#
# Everything is compiled with a little optimisation: a round takes half of the time.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds="${1:-10}"
processes="${2:-$(($(nproc) * 4))}"
log="$(mktemp -d)"

export CARGO_PROFILE_DEV_OPT_LEVEL=1
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

# The suite in parts that run side by side: what one waits for, another uses. All are parts of the workspace, so that
# nothing is built twice. A name stands for the tests of that name in all packages.
slowest=" background mpi bench_threads "
names() { for file in "$@"; do basename "${file%/main.rs}" .rs; done | sort -u; }
own=() others=()
for name in $(names tests/*.rs); do
    [[ "$slowest" == *" $name "* ]] || own+=(--test "$name")
done
for name in $(names */tests/*.rs */tests/*/main.rs); do
    [ -e "tests/$name.rs" ] || others+=(--test "$name")
done
timed="-Zunstable-options --report-time"
parts=(
    "$(printf -- '--test %s ' $slowest) -- $timed"
    "${own[*]} -- $timed"
    "--lib --bins --examples ${others[*]} -- $timed"
    "--doc"
)

# Runs one part of a round; its output is in a file that is named after both.
part() {
    # A shell without job control starts background commands with these signals ignored; tests send them.
    # shellcheck disable=SC2086
    env --default-signal=INT,QUIT cargo test --workspace --no-fail-fast ${parts[$2]} >"$log/$1-$2" 2>&1
}

failed=0
for round in $(seq "$rounds"); do
    start=$SECONDS outcome=passed running=()
    for index in "${!parts[@]}"; do
        part "$round" "$index" &
        running+=($!)
    done
    for process in "${running[@]}"; do
        wait "$process" || outcome=FAILED
    done
    echo "round $round of $rounds beside $processes computing processes: $outcome after $((SECONDS - start)) s"
    if [ $outcome = FAILED ]; then
        failed=$((failed + 1))
        grep -haE '^test .* FAILED|panicked at|^error' "$log/$round"-* || tail -qn 20 "$log/$round"-*
    fi
done

echo "the longest tests, over all rounds:"
sed -nE 's/^test (.*) \.\.\. ok <([0-9.]+)s>$/\2 \1/p' "$log"/* |
    awk '{ time = $1; sub(/^[^ ]* /, ""); if (time > most[$0]) most[$0] = time }
         END { for (test in most) printf "%8.1f s  %s\n", most[test], test }' | sort -rn | sed -n 1,15p
echo "$((rounds - failed)) passed, $failed failed"
[ "$failed" = 0 ] || { echo "their output: $log"; exit 1; }
rm -r "$log"
