#!/usr/bin/env bash
# Runs the NAS parallel benchmarks on madmpi, the smallest class: NPB_HOME=FOLDER ci/nas.sh [PROCESSES]...      (2 4, without arguments)
#
# NPB_HOME: an unpacked NPB 3.4 (the folder that holds NPB3.4-MPI). None was found among the packages of Debian, PyPI and npm, so the
# script cannot get it. Each benchmark verifies its own result. Programs of the project's own in their manner (cg, ep, ft, lu, mg)
# are among the tests (madmpi-rs/tests/fortran).
set -uo pipefail
cd "$(dirname "$0")/.."

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
place="$target/nas"
[ $# -gt 0 ] || set -- 2 4

missing() {
    echo "SKIPPED: NAS parallel benchmarks: $1"
    exit 0
}

[ -n "${NPB_HOME:-}" ] || missing "no package has their source; NPB_HOME=FOLDER names an unpacked NPB 3.4"
source="$(compgen -G "$NPB_HOME/NPB3.4*-MPI" | sed -n 1p)"
if [ -z "$source" ]; then
    echo "FAILED: there is no NPB3.4-MPI in $NPB_HOME" >&2
    exit 1
fi
for tool in gfortran make gcc; do
    command -v "$tool" >/dev/null || missing "there is no $tool"
done

cargo build -q -p madmpi -p mad-cli --lib --bins || exit 1
MPIFORT_FC=gfortran madmpi-rs/tools/install "$place/madmpi" "$target/debug" || exit 1
rm -rf "$place/npb"
cp -r "$source" "$place/npb"
mkdir -p "$place/npb/bin"
cat >"$place/npb/config/make.def" <<DEF
MPIFC = $place/madmpi/bin/mpifort
FLINK = \$(MPIFC)
FFLAGS = -O2
FLINKFLAGS = \$(FFLAGS)
MPICC = $place/madmpi/bin/mpicc
CLINK = \$(MPICC)
CFLAGS = -O2
CLINKFLAGS = \$(CFLAGS)
CC = gcc
BINDIR = ../bin
CONVERTFLAG = -DFORTRAN_REC_SIZE=1
RAND = randi8
DEF

failed=0 passed=0
for benchmark in bt cg ep ft is lu mg sp; do
    if ! make -C "$place/npb" "$benchmark" CLASS=S >"$place/$benchmark.log" 2>&1; then
        echo "FAILED: $benchmark does not compile: $place/$benchmark.log"
        failed=$((failed + 1))
        continue
    fi
    for processes; do
        log="$place/$benchmark.$processes.log"
        if (cd "$place/npb/bin" && timeout 300 "$place/madmpi/bin/mpiexec" -n "$processes" "./$benchmark.S.x") >"$log" 2>&1 &&
            grep -qE 'Verification *= *SUCCESSFUL' "$log"; then
            echo "$benchmark, $processes processes: $(sed -n 's/^ *Time in seconds *= */verified, seconds: /p' "$log")"
            passed=$((passed + 1))
        else
            echo "FAILED: $benchmark with $processes processes: $log"
            failed=$((failed + 1))
        fi
    done
done
echo "NAS parallel benchmarks, class S ($*): $passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
