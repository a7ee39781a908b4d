#!/usr/bin/env bash
# Makes the guest in which the verbs driver is tested on machines without an adapter, and prints its runner's path: the
# runner runs a command in User-Mode Linux beside a soft-RoCE adapter, and serves as cargo's runner
# (CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER). The kernel comes from Debian's source package: 10 to 20 minutes, once for
# each version and ci/verbs-guest/kernel.config; it is kept in ~/.cache/mad/verbs-guest.
# Prints nothing where the guest is not to be had: the tests say that they are skipped.
#   ci/verbs-guest.sh             installs what is missing (as root), builds
#   ci/verbs-guest.sh --if-built  the runner's path if the kernel is there
set -uo pipefail
here="$(dirname "$(realpath "$0")")/verbs-guest"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/mad/verbs-guest"
package=linux-source-6.12

say() { echo "verbs guest: $*" >&2; }
give_up() { say "not to be had: $*"; exit 0; }

[ "$(uname -sm)" = "Linux x86_64" ] || give_up "it is built for x86-64 only"

# The kernels that this configuration made, newest first: a new version of the package does not throw away the one
# that is there, on a machine that cannot ask for it.
key="$(sha256sum "$here/kernel.config" | cut -c1-12)"
newest() { find "$cache" -maxdepth 2 -path "*-$key/linux" -perm -u+x -printf '%T@ %h\n' 2>/dev/null | sort -rn | head -1 | cut -d' ' -f2-; }
ready() { install -m 755 "$here/run" "$1/run.$$" && mv "$1/run.$$" "$1/run" && echo "$1/run"; exit 0; }

if [ "${1:-}" = --if-built ]; then
    found="$(newest)"
    [ -n "$found" ] && ready "$found"
    exit 0
fi

wanted=()
for program in make gcc flex bison bc xz dpkg-deb; do command -v "$program" >/dev/null || wanted+=("$program"); done
[ -e /usr/include/stdio.h ] || wanted+=(libc6-dev)
ldconfig -p | grep -q 'libibverbs\.so\.1 ' || wanted+=(libibverbs1)
[ -d /etc/libibverbs.d ] || wanted+=(ibverbs-providers)
command -v ibv_rc_pingpong >/dev/null || wanted+=(ibverbs-utils)
command -v ip >/dev/null && command -v rdma >/dev/null || wanted+=(iproute2)
command -v busybox >/dev/null || wanted+=(busybox-static)
wanted=("${wanted[@]/#xz/xz-utils}")
if [ ${#wanted[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || give_up "install ${wanted[*]}"
    {
        timeout 60 apt-get update -qq
        DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends "${wanted[@]}"
    } >&2 || give_up "${wanted[*]} could not be installed"
fi

known() { apt-cache show --no-all-versions "$package" 2>/dev/null | sed -n 's/^Version: //p'; }
version="$(known)"
if [ -z "$version" ]; then
    found="$(newest)"
    [ -n "$found" ] && ready "$found"
    # Where everything else was installed already, what apt knows may be old.
    if [ "$(id -u)" = 0 ]; then timeout 60 apt-get update -qq >&2 || true; fi
    version="$(known)"
fi
if [ -z "$version" ]; then
    give_up "Debian's package $package is unknown here (apt-get update)"
fi
place="$cache/$version-$key"
mkdir -p "$place"
exec 9>"$place/lock"
flock 9
[ -x "$place/linux" ] && ready "$place"

work="$(mktemp -d "$place/build.XXXXXX")"
trap 'rm -rf "$work"' EXIT
say "building a kernel of $package $version in $work"
cd "$work" || exit 1
apt-get download -q "$package=$version" >&2 || give_up "$package could not be downloaded"
dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './usr/src/linux-source-*.tar.xz' || give_up "$package could not be unpacked"
rm ./*.deb
# User-Mode Linux takes what it needs of x86; the other architectures, most drivers' tables and the documentation stay packed.
tar -xf usr/src/linux-source-*.tar.xz --exclude='*/drivers/gpu/drm/amd/include' --exclude='*/Documentation/*.rst' || give_up "$package could not be unpacked"
rm -r usr
source="$(echo linux-source-*)"
# It has room for the registers up to AVX-512. Where processors have more (AMX), no program of the guest would ever run: the host
# wants all or nothing. (The larger stacks of kernel.config are for what lies on them.)
sed -i 's/HOST_FP_SIZE, 2696/HOST_FP_SIZE, 16384/' "$source/arch/x86/um/user-offsets.c"
make -s -C "$source" ARCH=um O=../out KCONFIG_ALLCONFIG="$here/kernel.config" allnoconfig >&2 || give_up "the kernel could not be configured"
for option in INFINIBAND_USER_ACCESS RDMA_RXE USERFAULTFD CROSS_MEMORY_ATTACH OVERLAY_FS; do
    grep -q "^CONFIG_$option=y" out/.config || give_up "$version has no $option for User-Mode Linux"
done
make -s -C "$source" ARCH=um O=../out -j"$(nproc)" linux >build.log 2>&1 || { tail -20 build.log >&2; give_up "the kernel does not compile"; }
strip out/linux
mv out/linux "$place/linux"
ready "$place"
