//! What can be read off without trying.

use std::fs;

use mad_bench::quantity;
use marcel::topology::{self, Source, Topology};
use rustix::process::{Resource, Rlimit, getrlimit};

use super::finding::Finding;
use super::kernel;

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// A limit of this process in words, which is enough from `least` on.
fn limit(resource: Resource, least: u64, check: &'static str, advice: &'static str) -> Finding {
    let shown = |limit: Option<u64>| limit.map_or("unlimited".into(), |limit| limit.to_string());
    let Rlimit { current, maximum } = getrlimit(resource);
    let found = format!("{} (at most {})", shown(current), shown(maximum));
    Finding::enough(current.is_none_or(|limit| limit >= least), check, found, advice)
}

/// Cores, mask and quota.
pub(super) fn cores() -> Finding {
    let allowed = topology::allowed_cpus();
    let quota = topology::cgroup_quota();
    let found = format!(
        "cores {allowed:?} allowed, cgroup quota {}, {} compute virtual processors",
        quota.map_or("none".into(), |quota| format!("{quota:.2}")),
        topology::vp_count(),
    );
    if quota.is_some_and(|quota| quota < allowed.len() as f64) {
        Finding::limited(
            "cores",
            found,
            "the quota stops all threads of the group for the rest of each period when it is used up: polling \
             counts, so set PIOM_BUSY_WAIT_USEC=0, or give the group a cpuset instead of a quota",
        )
    } else if allowed.len() == 1 {
        Finding::limited(
            "cores",
            found,
            "one core: processes take turns, and a wait that polls gives the core to those that want it",
        )
    } else {
        Finding::ok("cores", found)
    }
}

/// Where the topology comes from.
pub(super) fn hwloc() -> Finding {
    let check = "topology";
    match Topology::current() {
        Err(why) => {
            Finding::lacking(check, why.to_string(), "no runtime starts until that is put right")
        }
        Ok(topology) => {
            let found = format!("from {}", topology.source());
            match topology.source() {
                Source::Hwloc { .. } => Finding::ok(check, found),
                Source::Kernel { .. } => Finding::limited(
                    check,
                    found,
                    "the kernel's files are enough on most machines; hwloc knows more of them: apt install \
                     libhwloc15 (no need to build anew), and MARCEL_HWLOC=auto",
                ),
                Source::Synthetic(_) => Finding::limited(
                    check,
                    found,
                    "virtual processors are placed on a machine that does not exist: unset MARCEL_TOPOLOGY \
                     for this one",
                ),
            }
        }
    }
}

/// Where the time of day comes from: a clock that needs a system call makes polling slow.
pub(super) fn clock() -> Finding {
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_else(|| "unknown".into());
    let start = mad_bench::clock::now_ns();
    let calls = 1000;
    for _ in 0..calls {
        std::hint::black_box(mad_bench::clock::now_ns());
    }
    let each = (mad_bench::clock::now_ns() - start) / calls;
    let found = format!("{source}, {} a reading", quantity::time(each as f64));
    let advice = "readings go through the kernel: choose clocksource=tsc if it is stable";
    Finding::enough(each <= 200, "clock", found, advice)
}

/// The file system for named shared memory.
pub(super) fn dev_shm() -> Finding {
    let advice = "this library does not use it, other MPI libraries do. In a container: \
                  --shm-size, or --ipc=host";
    let free = match rustix::fs::statvfs("/dev/shm") {
        Ok(stat) => stat.f_bavail * stat.f_frsize,
        Err(why) => return Finding::lacking("dev_shm", why.to_string(), advice),
    };
    Finding::enough(free >= 64 << 20, "dev_shm", format!("{} free", quantity::size(free)), advice)
}

/// Open files.
pub(super) fn descriptors() -> Finding {
    let advice = "a peer costs a few descriptors: ulimit -n 4096";
    limit(Resource::Nofile, 1024, "open_files", advice)
}

/// Processes and kernel threads of this user.
pub(super) fn processes() -> Finding {
    let advice = "a process has a handful of kernel threads: ulimit -u 4096";
    limit(Resource::Nproc, 512, "processes", advice)
}

/// Memory that may be pinned. Neither shm nor tcp pins any, so no limit is too low.
pub(super) fn locked_memory() -> Finding {
    let limit = getrlimit(Resource::Memlock).current;
    let found = limit.map_or("unlimited".into(), quantity::size);
    Finding::ok("locked_memory", format!("{found}; the library pins none"))
}

/// Mappings per process. They bound the green threads only where a stack's guard is a page that splits its mapping:
/// on kernels without guard markers.
pub(super) fn mappings() -> Finding {
    let text = read("/proc/sys/vm/max_map_count");
    let Some(count) = text.and_then(|text| text.parse::<u64>().ok()) else {
        return Finding::limited("max_map_count", "cannot be read", "is /proc mounted?");
    };
    if kernel::has_guard_markers() {
        let found =
            format!("{count}; stacks take few: their guards are markers (MADV_GUARD_INSTALL)");
        return Finding::ok("max_map_count", found);
    }
    // As marcel bounds the guard pages.
    let threads = (count - count / 16) / 2;
    let found = format!(
        "{count}: about {threads} green threads at a time, whose guard pages take two each"
    );
    let advice =
        "for more threads at a time: Linux 6.13 or later, or sysctl vm.max_map_count=1048576";
    Finding::enough(count >= 200_000, "max_map_count", found, advice)
}

/// InfiniBand and RoCE adapters, as the driver `verbs` finds them.
pub(super) fn verbs() -> Finding {
    let check = "verbs";
    let ports = match newmad::plumbing::ports() {
        Ok(ports) => ports,
        // Most machines have none, and lack nothing by that.
        Err(why) if !has_devices() => return Finding::ok(check, why),
        Err(why) => {
            return Finding::limited(
                check,
                why,
                "tcp goes over a network interface, if the adapter has one",
            );
        }
    };
    let lines: Vec<String> = ports
        .iter()
        .map(|port| {
            let state = if port.is_active { "active" } else { "down" };
            format!("{} {} {} {state}", port.name, port.network, port.address)
        })
        .collect();
    match ports.iter().any(|port| port.is_active) {
        true => Finding::ok(check, format!("{}: NMAD_DRIVER=verbs", lines.join(", "))),
        false => Finding::limited(
            check,
            format!("no port is active: {}", lines.join(", ")),
            "connect a cable, or set the interface up (ip link set DEV up)",
        ),
    }
}

fn has_devices() -> bool {
    fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some())
}

/// User interrupts of the processor.
pub(super) fn user_interrupts() -> Finding {
    let check = "user_interrupts";
    let advice = "timer signals (1-2 µs each) do the same; needs Sapphire Rapids or later and a kernel with \
                  the uintr patches";
    match mad_bench::clock::processor_has_user_interrupts() {
        true => {
            Finding::limited(check, "the processor has them, the kernel does not use them", advice)
        }
        false => Finding::lacking(check, "not in this processor", advice),
    }
}

/// Hardware counters.
pub(super) fn perf_events() -> Finding {
    let level =
        read("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse::<i32>().ok());
    match level {
        Some(level) if level <= 2 => Finding::ok(
            "perf_events",
            format!("perf_event_paranoid = {level}: own processes can be counted"),
        ),
        Some(level) => Finding::limited(
            "perf_events",
            format!("perf_event_paranoid = {level}"),
            "only profiling needs it: sysctl kernel.perf_event_paranoid=2",
        ),
        None => Finding::lacking("perf_events", "this kernel has none", "only profiling needs it"),
    }
}
