#!/usr/bin/env bash
# Installs a compiler wrapper of another library for the standard ABI: MPICH's mpicc_abi, from PyPI. Prints its path, for
# MAD_TEST_MPICC_ABI. If it is not to be had that is not an error: the test that wants it says that it is skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

place="${CARGO_TARGET_DIR:-target}/abi-wrapper"
if ! [ -x "$place/bin/mpicc_abi" ]; then
    {
        python3 -m venv "$place" && timeout 180 "$place/bin/pip" install -q 'mpich>=5,<6'
    } >&2 || echo "not to be had: mpich from PyPI" >&2
fi
[ -x "$place/bin/mpicc_abi" ] && realpath -s "$place/bin/mpicc_abi"
exit 0
