#!/usr/bin/env bash
# Runs marcel's tests on so many virtual processors: ci/processors.sh NUMBER...
#
# The binaries are the workspace's, which are built already: those of the package alone have other features, and so have the
# packages that they need, a minute's work. Cargo starts each test of the workspace by this script, which runs marcel's.
set -euo pipefail

if [ "${1:-}" = started-by-cargo ]; then
    shift
    [ "$CARGO_PKG_NAME" = mad-marcel ] || exit 0
    echo "$1" >>"$TESTS_THAT_RAN"
    exec "$@"
fi

cd "$(dirname "$0")/.."
triple="$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')"
export "CARGO_TARGET_${triple}_RUNNER=$PWD/ci/processors.sh started-by-cargo"
files=(marcel-rs/tests/*.rs)
for number; do
    TESTS_THAT_RAN="$(mktemp)"
    export TESTS_THAT_RAN
    trap 'rm -f "$TESTS_THAT_RAN"' EXIT
    MARCEL_NVP="$number" cargo test -q --workspace --tests
    ran="$(wc -l <"$TESTS_THAT_RAN")"
    rm "$TESTS_THAT_RAN"
    trap - EXIT
    # A file each but one that wants a feature, and the library and the folders beside them.
    [ "$ran" -ge ${#files[@]} ] || { echo "only $ran of marcel's test binaries ran" >&2; exit 1; }
    echo "marcel's $ran test binaries passed on $number virtual processors"
done
