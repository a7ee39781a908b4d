#!/usr/bin/env bash
# Runs mpi4py's own test suite on madmpi: ci/mpi4py.sh [PROCESSES]...      (1 2 4, without arguments)
#
# MPI4PY_ALL=1: all files are run with any number of processes, not only those that are worth the time there.
# MPI4PY_SILENCE: after how many seconds in which no process has begun a test a run is taken for one that hangs (180). That is
# a failure that says in which test. A slow machine needs longer for the whole, not for one test.
#
# mpi4py comes from PyPI, as source: its wheels hold extensions for the binary interfaces of MPICH and Open MPI only, and the
# one for the standard ABI has to be compiled, which our mpicc does. The virtual environment stays in the target folder.
# docs/mpi.md says what is left out, and why; logs are in the target folder, one of each process.
set -uo pipefail
cd "$(dirname "$0")/.."

version=4.1.1
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
place="$target/mpi4py"
source="$place/mpi4py-$version"
[ $# -gt 0 ] || set -- 1 2 4

missing() {
    echo "SKIPPED: mpi4py's tests: $1"
    exit 0
}

command -v python3 >/dev/null || missing "there is no python3"
mkdir -p "$place"
cargo build -q -p madmpi -p mad-cli --lib --bins || exit 1
# No test of mpi4py's is in Fortran.
MPIFORT_FC='' madmpi-rs/tools/install "$place/madmpi" "$target/debug" || exit 1

if ! [ -e "$place/venv/ready" ]; then
    rm -rf "$place/venv"
    python3 -m venv "$place/venv" || missing "python3 -m venv does not work (apt install python3-venv)"
    pip="$place/venv/bin/pip"
    timeout 120 "$pip" install -q --only-binary :all: numpy || missing "numpy is not to be had from PyPI"
    if ! [ -e "$source" ]; then
        timeout 180 "$pip" download -q --no-deps --no-binary mpi4py -d "$place" "mpi4py==$version" ||
            missing "the source of mpi4py is not to be had from PyPI"
        tar -C "$place" -xf "$place/mpi4py-$version.tar.gz" || exit 1
    fi
    # Not from pip's cache: it may hold a wheel for another library.
    MPICC="$place/madmpi/bin/mpicc" MPI4PY_BUILD_MPICC="$place/madmpi/bin/mpicc" MPI4PY_BUILD_MPIABI=1 CFLAGS=-O0 \
        timeout 600 "$pip" install -q --no-cache-dir --no-deps "$place/mpi4py-$version.tar.gz" >"$place/build.log" 2>&1 || {
        tail -20 "$place/build.log"
        python3 -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
            missing "Python.h is missing (apt install python3-dev)"
        echo "FAILED: mpi4py does not build with our mpicc"
        exit 1
    }
    touch "$place/venv/ready"
fi

# A test that relies on a stand-in of mpi4py's.
without=(-x test_ulfm.TestULFMWorld.testIAgree)
# What does not depend on the number of processes; with four, also the longest loops over types and counts.
local='test_(datatype|pack|msgspec|util_dtlib)\.py'
longest='test_(cco(_nb|_pr)?_vec|cco(_pr)?_ngh_buf|p2p_buf_part)\.py'

# Waits for the mpiexec $1, whose status it returns, and ends it if no test begins any more: 124.
ended() {
    local begun=0 now since=$SECONDS
    while [ -n "$(jobs -r)" ]; do
        sleep 1
        now="$(cat "$LOG".* 2>/dev/null | grep -c ' \.\.\. ')"
        if [ "$now" != "$begun" ]; then
            begun="$now" since=$SECONDS
        elif [ $((SECONDS - since)) -gt "${MPI4PY_SILENCE:-180}" ]; then
            kill "$1"
            wait "$1"
            return 124
        fi
    done
    wait "$1"
}
trap 'jobs -rp | xargs -r kill' EXIT

export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
failed=0
for processes; do
    files=()
    if [ "${MPI4PY_ALL:-0}" != 1 ]; then
        [ "$processes" = 1 ] || files+=(-e "$local")
        [ "$processes" -lt 4 ] || files+=(-e "$longest")
    fi
    export LOG="$place/log.$processes"
    rm -f "$LOG".*
    began=$SECONDS
    # Each process has a log of its own. A shell starts what goes on in the background with both signals ignored.
    # shellcheck disable=SC2016
    env --default-signal=INT,QUIT "$place/madmpi/bin/mpiexec" -n "$processes" \
        sh -c 'exec "$@" >"$LOG.$PMI_RANK" 2>&1' sh \
        "$place/venv/bin/python" "$source/test/main.py" --no-builddir -v "${without[@]}" "${files[@]}" &
    ended $!
    status=$?
    python3 ci/mpi4py-summary.py "$processes" "$status" "$((SECONDS - began))" "$LOG".* || failed=1
done
exit $failed
