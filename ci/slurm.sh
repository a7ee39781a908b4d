#!/usr/bin/env bash
# Runs the tests that want Slurm, with a Slurm of its own: ci/slurm.sh [COMMAND...]      (without: the tests)
#
# A COMMAND is run instead of the tests, and finds that Slurm: ci/slurm.sh srun -n 4 -N 2 --mpi=pmix ./hello; ci/slurm.sh bash
#
# Slurm and munge come from Debian (13 MB, as root). What is started is in a temporary folder, on 127.0.0.1 and free ports:
# munge with a key of its own, the controller, and two nodes, which both are this machine. No systemd, no cgroups, nothing
# is bound to cores. All of it is ended and removed when this script ends, whatever ends it.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
# A daemon that is killed with its children may dump one, here.
ulimit -c 0

skipped() {
    echo "SKIPPED: Slurm: $1"
    exit 0
}

missing() {
    for program in munged slurmctld slurmd srun; do
        command -v "$program" >/dev/null || return 0
    done
    return 1
}

[ "$(id -u)" = 0 ] || skipped "its daemons are started as root"
if missing && command -v apt-get >/dev/null; then
    {
        timeout 60 apt-get update -qq
        DEBIAN_FRONTEND=noninteractive timeout 300 \
            apt-get install -y -qq --no-install-recommends munge slurmctld slurmd slurm-client
    } >/dev/null 2>&1
fi
missing && skipped "munge, slurmctld, slurmd, slurm-client are not installed and not to be had by apt-get"

# Short, for the paths of sockets.
place="$(TMPDIR=/tmp mktemp -d -t mad-slurm.XXXXXX)"
export SLURM_CONF="$place/slurm.conf"

# What belongs to it: daemons, steps, their tasks, the tests. Not what looks for them.
ours() (
    conf="$SLURM_CONF"
    unset SLURM_CONF
    grep -lsz "^SLURM_CONF=$conf\$" /proc/[0-9]*/environ | cut -d / -f 3
)

# shellcheck disable=SC2317 # called by the trap
finish() {
    status=$?
    trap - EXIT
    trap '' INT TERM
    # Not what is said at every start, nor when this script was interrupted.
    [ "$status" = 0 ] || [ "$status" -ge 124 ] || grep -iE "error|fatal" "$place"/*.log |
        grep -vE "state file|backup state|MailProg|Domain socket directory|xcpuinfo" | tail -n 30
    # shellcheck disable=SC2046 # words, not lines
    for _ in $(seq 100); do
        [ -n "$(ours)" ] || break
        kill -KILL $(ours) 2>/dev/null
        sleep 0.1
    done
    rm -rf "$place"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

listened() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
while port=$((20000 + RANDOM % 12000)); do
    listened "$port" || listened $((port + 1)) || listened $((port + 2)) || break
done

host="$(hostname -s)"
cat >"$SLURM_CONF" <<CONF
ClusterName=mad
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthInfo=socket=$place/munge/socket
StateSaveLocation=$place/state
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd-%n.pid
SlurmdSpoolDir=$place/spool-%n
# PMIx has a folder there for each step, and none that two nodes on one machine could share.
TmpFS=$place/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
# More processors than there are.
SlurmdParameters=config_overrides
NodeName=n0 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=16
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=16
PartitionName=all Nodes=n0,n1 Default=YES
CONF
# Without it /etc/slurm is looked at.
: >"$place/cgroup.conf"
mkdir "$place"/{state,tmp-n0,tmp-n1}
mkdir -m 700 "$place/munge"
(umask 077 && head -c 1024 /dev/urandom >"$place/munge/key")
# Tasks of other users, munge's clients, go through it.
chmod 711 "$place" "$place/munge"

munged --foreground --force --socket="$place/munge/socket" --key-file="$place/munge/key" \
    --pid-file="$place/munge/pid" --seed-file="$place/munge/seed" --log-file="$place/munge/log" \
    </dev/null >"$place/munged.log" 2>&1 &
disown
for _ in $(seq 100); do
    [ -S "$place/munge/socket" ] && break
    sleep 0.1
done
slurmctld -D </dev/null >"$place/slurmctld.log" 2>&1 &
disown
for node in n0 n1; do
    slurmd -D -N "$node" </dev/null >"$place/slurmd-$node.log" 2>&1 &
    disown
done
for _ in $(seq 300); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && break
    sleep 0.1
done
if [ "$(sinfo -h -t idle -o %D)" != 2 ]; then
    echo "FAILED: the two nodes do not come up" >&2
    exit 1
fi

if [ $# -gt 0 ]; then
    "$@"
    exit $?
fi
srun --version
export MAD_TEST_SLURM="$SLURM_CONF"
cargo build -q --workspace --examples &&
    cargo test --workspace --lib --test managers --test sessions --test across --test mpi --test connected -- slurm jobs_inside other_launchers
