#!/bin/sh
# Writes what Fortran needs for each function and constant of the tables in abi/ into a folder: fortran/generate.sh FOLDER
#
# wrappers.c: the C functions that Fortran calls. Parts of the modules, and of mpif.h: numbers.h, handles.h (and .f90),
# types.f90, operators.f90, interfaces.f90, names.f90 (and _f08). Any awk does.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
folder="${1:?a folder}"
for part in constants procedures wrappers; do
    case $part in constants) rows=constants ;; *) rows=functions ;; esac
    awk -v folder="$folder" -f "$here/generate/table.awk" -f "$here/generate/arguments.awk" \
        -f "$here/generate/$part.awk" "$here/../abi/$rows.txt"
done
