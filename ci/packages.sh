#!/usr/bin/env bash
# Makes the packages that crates.io would get and compiles all from what they hold: ci/packages.sh
#
# Nothing is sent. The packages are unpacked into one workspace, in which each depends on the others' packages, and checked
# there with the dependencies that are compiled already. `cargo package --workspace` builds each one apart: the same answer,
# for many times the time.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "FAILED: $1" >&2
    exit 1
}

metadata="$(cargo metadata --format-version 1 --no-deps)"
target="$(sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p' <<<"$metadata")"
packages="$target/package"
rm -rf "$packages"
# Quiet, since cargo warns of each test that a package leaves out. `layers` is not published.
cargo package -q --workspace --exclude layers --no-verify --allow-dirty

place="$packages/unpacked"
mkdir -p "$place"
# The same profiles and locked versions: what is compiled already is compiled for these.
{
    printf '[workspace]\nmembers = ["*"]\nresolver = "3"\n\n'
    awk '/^\[/ { inside = /^\[profile/ } inside' Cargo.toml
    printf '\n[patch.crates-io]\n'
    for file in "$packages"/*.crate; do
        folder="$(basename "$file" .crate)"
        echo "${folder%-[0-9]*} = { path = \"$folder\" }"
    done
} >"$place/Cargo.toml"
cp Cargo.lock "$place/"

for file in "$packages"/*.crate; do
    # With the time of now: in packages files have one date for ever, by which cargo would take them for unchanged.
    tar -C "$place" -m -xf "$file"
    folder="$(basename "$file" .crate)"
    for wanted in LICENSE-MIT LICENSE-APACHE; do
        cmp -s "$place/$folder/$wanted" "$wanted" || fail "$folder has another $wanted than the workspace"
    done
    for field in description readme documentation keywords categories license; do
        grep -q "^$field = " "$place/$folder/Cargo.toml" || fail "$folder has no $field"
    done
    printf '%-22s %4d files, %4d KiB\n' "$folder" "$(tar -tf "$file" | wc -l)" "$(($(stat -c %s "$file") / 1024))"
done

# What the installer makes Fortran's modules from.
fortran="$(mktemp -d)"
"$place"/madmpi-[0-9]*/fortran/generate.sh "$fortran"
for wanted in wrappers.c numbers.h handles.h interfaces.f90 interfaces_f08.f90; do
    [ -s "$fortran/$wanted" ] || fail "the package madmpi cannot make $wanted for Fortran"
done
rm -r "$fortran"

CARGO_TARGET_DIR="$target" cargo check --manifest-path "$place/Cargo.toml" --workspace
