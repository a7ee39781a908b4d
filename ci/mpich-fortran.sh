#!/usr/bin/env bash
# Runs MPICH's own tests of Fortran on madmpi: ci/mpich-fortran.sh [f77|f90|f08]...      (all three, without arguments)
#
# The tests come with the source package of MPICH, from Debian; they are not installed, and configured here by hand. Each prints
# "No Errors". `left_out` says which are not run, and why. Logs are in the target folder, one of each test.
set -uo pipefail
cd "$(dirname "$0")/.."

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
place="$target/mpich-fortran"
[ $# -gt 0 ] || set -- f77 f90 f08

# Why a test is left out; nothing for one that is run. Folders of what madmpi lacks: rma, io, spawn.
left_out() {
    case "$1" in
        */rma/* | */attr/attrlang*) echo "windows" ;;
        */io/*) echo "files" ;;
        */spawn/*) echo "starts processes" ;;
        */datatype/hindex1* | f77/datatype/typecntsf | f90/datatype/get_elem_u) echo "what MPI 3.0 removed" ;;
        */datatype/allctypes*) echo "MPI_LB and MPI_UB, which MPI 3.0 removed" ;;
        */datatype/typename[f0-9]*) echo "MPI_REAL16, which madmpi lacks" ;;
        */init/baseenv*) echo "takes MPI 4 for the newest" ;;
        */info/infocrenv*) echo "wants what MPI_Init finds out in an info object that was made before" ;;
        */pt2pt/greq*) echo "wants the extra state of a generalized request by reference, which the standard does not say" ;;
        f90/coll/alltoallvf90 | f90/coll/split_typef90) echo "passes an array of datatypes for one, which the module refuses" ;;
        f90/coll/vw_inplacef90 | f90/coll/nonblocking_inpf90) echo "passes a number for an array, which the module refuses" ;;
        f90/profile/profile1f90) echo "defines a procedure of the module that it uses" ;;
        f08/profile/profile1f90) echo "the names of procedures for descriptors (_f08ts)" ;;
        f08/subarray/test1[45]) echo "non-blocking with sections, which the compiler refuses as MPI_SUBARRAYS_SUPPORTED is false" ;;
    esac
}

missing() {
    echo "SKIPPED: MPICH's tests of Fortran: $1"
    exit 0
}

command -v gfortran >/dev/null || missing "there is no gfortran (apt-get install gfortran)"
command -v apt-get >/dev/null || missing "there is no apt-get, which gets the source package"
mkdir -p "$place/parts" "$place/lists/partial"
tests="$(compgen -G "$place/mpich-*/test/mpi" | sed -n 1p)"
if [ -z "$tests" ]; then
    # Debian's own archive as this machine has it, for sources: in lists of this script's.
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        grep -qsE '/debian/?( |$)' "$file" || continue
        sed -e 's/^Types: deb$/Types: deb-src/' -e 's/^deb /deb-src /' "$file" >"$place/parts/$(basename "$file")"
    done
    apt=(apt-get -qq -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$place/parts"
        -o "Dir::State::lists=$place/lists" -o "APT::Sandbox::User=root")
    (cd "$place" && timeout 120 "${apt[@]}" update && timeout 300 "${apt[@]}" source --download-only mpich) ||
        missing "the source package of mpich is not to be had from Debian"
    archive="$(compgen -G "$place/mpich_*.orig.tar.*" | sed -n 1p)"
    tar -C "$place" -xf "$archive" --wildcards '*/test/mpi/*' || exit 1
    tests="$(compgen -G "$place/mpich-*/test/mpi" | sed -n 1p)"
    for file in "$tests"/f77/*/*.h.in; do
        sed -e 's/@F77_MPI_ADDRESS@/integer (kind=MPI_ADDRESS_KIND)/' -e 's/@F77_MPI_OFFSET@/integer (kind=MPI_OFFSET_KIND)/' \
            -e 's/@[A-Z0-9_]*@//' "$file" >"${file%.in}"
    done
    {
        printf '#define %s 1\n' F77_NAME_LOWER_USCORE STDC_HEADERS HAVE_LONG_LONG HAVE_FORTRAN_BINDING \
            HAVE_{STDIO,STDLIB,STRING,STDARG,UNISTD}_H
        echo '#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX'
    } >"$tests/include/mpitestconf.h"
fi

cargo build -q -p madmpi -p mad-cli --lib --bins || exit 1
MPIFORT_FC=gfortran madmpi-rs/tools/install "$place/madmpi" "$target/debug" || exit 1
bin="$place/madmpi/bin"
fortran() { "$bin/mpifort" -w -g "$@"; }
c() { "$bin/mpicc" -w -g -I"$tests/include" "$@"; }

# Compiles a test in its folder: every source that its Makefile.am names, or the one of its name.
compile() {
    local name="$1" folder="$2" own sources source file objects=()
    own="$tests/$folder"
    sources="$(sed -n "s/^$name *_SOURCES *= *//p" "$own/Makefile.am" | sed -n 1p)"
    [ -n "$sources" ] || sources="$(cd "$own" && compgen -G "$name.[fc]*")"
    [ "${sources%.c}" = "$sources" ] || objects=("$work"/util_c[123].o)
    for source in $sources; do
        file="$own/$source"
        # Some are those of another of the three.
        [ -e "$file" ] || file="$(find "$tests"/f?? -name "$(basename "$source")" | sed -n 1p)"
        case "$source" in
            *.h) ;;
            *.c) c -c "$file" -o "$name.part.o" && objects+=("$name.part.o") || return 1 ;;
            *) objects+=("$file") ;;
        esac
    done
    [ ${#objects[@]} -gt 0 ] && fortran -J . -I"$own" -I"$tests/f77/$(basename "$folder")" "${objects[@]}" "$work/util.o" -o "$name"
}

passed=0 failed=0 left=0
for set; do
    work="$place/logs/$set"
    mkdir -p "$work"
    cd "$work" || exit 1
    fortran -c "$(compgen -G "$tests/util/mtest_$set.f*")" -o util.o && c -c "$tests/util/mtest.c" -o util_c1.o &&
        c -c "$tests/util/mtest_common.c" -o util_c2.o && c -c "$tests/util/mtest_single.c" -o util_c3.o || exit 1
    for list in "$tests/$set"/*/testlist{,.in}; do
        [ -e "$list" ] || continue
        folder="$set/$(basename "$(dirname "$list")")"
        while read -r name processes _; do
            case "$name" in "" | "#"* | @*) continue ;; esac
            if [ -n "$(left_out "$folder/$name")" ]; then
                left=$((left + 1))
            elif ! compile "$name" "$folder" >"$name.log" 2>&1; then
                echo "FAILED: $folder/$name does not compile: $work/$name.log"
                failed=$((failed + 1))
            elif timeout 60 "$bin/mpiexec" -n "$processes" "./$name" >"$name.log" 2>&1 </dev/null && grep -q "No Errors" "$name.log"; then
                passed=$((passed + 1))
            else
                echo "FAILED: $folder/$name with $processes processes: $work/$name.log"
                sed -n 1,5p "$name.log"
                failed=$((failed + 1))
            fi
        done <"$list"
    done
done
echo "MPICH's tests of Fortran ($*): $passed passed, $failed failed, $left left out"
[ $failed = 0 ] && [ $passed -gt 0 ]
