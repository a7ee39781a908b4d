#!/usr/bin/env bash
# Instructions of the inner paths, counted by valgrind: they do not depend on the machine's load.
#
#   ci/instructions.sh                 this tree
#   ci/instructions.sh FOLDER          another tree (an earlier commit's, say), measured by this tree's programs where it has none
#
# One line for each path: its name and instructions for each time. Compare two trees on one machine with one compiler.
set -euo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
tree="$(cd "${1:-$here}" && pwd)"
target="$(realpath -m "${CARGO_TARGET_DIR:-$tree/target}")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
command -v valgrind >/dev/null || { echo "ci/instructions.sh needs valgrind" >&2; exit 2; }

# No `-p` for the command: it is the default package, whatever its name is in that tree.
(cd "$tree" && cargo bench -q --bench instructions --no-run && cargo build -q --release && cargo build -q --release -p madmpi)
bench="$(ls -t "$target"/release/deps/instructions-* | grep -v '\.d$' | head -1)"

total() { # instructions of a case run so many times
    valgrind --tool=callgrind --callgrind-out-file="$work/total" "$bench" "$1" "$2" >/dev/null 2>"$work/log" ||
        { cat "$work/log" >&2; exit 1; }
    sed -n 's/^\(summary\|totals\): //p' "$work/total" | head -1
}
for case in switch yield spawn+join park+unpark match ring; do
    few="$(total "$case" 2000)" many="$(total "$case" 12000)"
    awk -v name="$case" -v few="$few" -v many="$many" 'BEGIN { printf "%-12s %8.1f\n", name, (many - few) / 10000 }'
done

"$tree/madmpi-rs/tools/install" "$work/mpi" "$target/release" >/dev/null
"$work/mpi/bin/mpicc" -O2 -g "$here/benches/instructions/message.c" -o "$work/message"
# What happens once drops out here too. What a receiver meets at a poll differs a little from run to run (some 4 instructions): the least of five.
messages() { # instructions of a part in so many windows
    for run in 1 2 3 4 5; do
        "$target/release/mad" run -n 2 --driver shm -- valgrind --tool=callgrind --collect-atstart=no \
            --callgrind-out-file="$work/$1.$2.$run.%p" --toggle-collect="$1" "$work/message" "$2" >/dev/null 2>"$work/log" ||
            { cat "$work/log" >&2; exit 1; }
        # One of the two ranks never calls it: the other's file has the larger sum.
        sed -n 's/^\(summary\|totals\): //p' "$work/$1.$2.$run".* | sort -n | tail -1
    done | sort -n | head -1
}
for part in send_one receive_one; do
    few="$(messages "$part" 20)" many="$(messages "$part" 120)"
    awk -v name="$part" -v few="$few" -v many="$many" 'BEGIN { printf "%-12s %8.1f\n", name, (many - few) / (100 * 16) }'
done
