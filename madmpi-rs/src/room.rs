//! Room for ranks: whether a process can hold as many as it is to.
//!
//! What the second copy of the program takes is measured when it is loaded: mappings of memory, and bytes of it. (The first one
//! brings the program's libraries along.) So a number of ranks that goes beyond a limit is refused then, with the number that would
//! do, instead of ending somewhere between them.

use std::fs::read_to_string;

/// The copy, by its place, by which the others are judged.
pub(crate) const MEASURED: usize = 1;

/// Mappings of a rank's stack: itself and its guard.
const STACK_MAPS: u64 = 2;
/// Bytes of memory that a rank takes beside its copy of the program, before it computes: the pages of its stack that a start
/// needs, its matching tables, its communicators.
const BESIDE: u64 = 96 << 10;
/// Mappings and bytes for what ranks share: the engine, its threads, connections with other processes.
const SHARED_MAPS: u64 = 2000;
const SHARED_BYTES: u64 = 64 << 20;

/// What the process has taken at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    maps: u64,
    bytes: u64,
}

impl Usage {
    /// Now; `None`: the kernel does not tell.
    pub(crate) fn now() -> Option<Usage> {
        let maps = read_to_string("/proc/self/maps").ok()?.lines().count() as u64;
        let pages = read_to_string("/proc/self/statm").ok()?;
        let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
        let shared: u64 = pages.split(' ').nth(2)?.parse().ok()?;
        // SAFETY: takes no pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        Some(Usage { maps, bytes: resident.saturating_sub(shared) * page })
    }
}

/// What the machine and the user's limits allow.
#[derive(Clone, Copy, Debug)]
struct Limits {
    maps: u64,
    bytes: u64,
    /// Addresses (`ulimit -v`), and those that are taken.
    addresses: Option<(u64, u64)>,
}

impl Limits {
    fn read() -> Limits {
        let maps = number("/proc/sys/vm/max_map_count").unwrap_or(u64::MAX);
        let kib = |text: &str| text.split_whitespace().nth(1)?.parse::<u64>().ok();
        let available = read_to_string("/proc/meminfo")
            .ok()
            .and_then(|info| kib(info.lines().find(|line| line.starts_with("MemAvailable:"))?));
        let mut bytes = available.map_or(u64::MAX, |kib| kib << 10);
        if let (Some(max), Some(used)) =
            (number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current"))
        {
            bytes = bytes.min(max.saturating_sub(used));
        }
        let taken = read_to_string("/proc/self/statm").ok();
        let taken = taken.and_then(|pages| pages.split(' ').next()?.parse::<u64>().ok());
        let addresses = limit(libc::RLIMIT_AS).map(|limit| (limit, taken.unwrap_or(0) << 12));
        Limits { maps, bytes, addresses }
    }
}

/// How much of something this process may have, if that is limited.
pub(crate) fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: memory for the answer.
    let told = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    Some(limit.rlim_cur).filter(|&limit| told && limit != libc::RLIM_INFINITY)
}

fn number(path: &str) -> Option<u64> {
    read_to_string(path).ok()?.trim().parse().ok()
}

/// Whether `ranks` have room, of which one was loaded between the two moments, the last one so far, each with a stack of `stack` bytes.
///
/// # Errors
/// Why not, and what to do about it.
pub(crate) fn check(ranks: u32, stack: usize, before: Usage, after: Usage) -> Result<(), String> {
    judge(ranks.into(), stack as u64, before, after, Limits::read())
}

fn judge(
    ranks: u64,
    stack: u64,
    before: Usage,
    after: Usage,
    limits: Limits,
) -> Result<(), String> {
    let maps = after.maps.saturating_sub(before.maps) + STACK_MAPS;
    let bytes = after.bytes.saturating_sub(before.bytes) + BESIDE;
    let others = ranks.saturating_sub(1);
    let room = |limit: u64, taken: u64, each: u64| 1 + limit.saturating_sub(taken) / each.max(1);
    let refused = |what: String, most: u64, more: &str| {
        let most = most.min(others);
        Err(format!(
            "{ranks} ranks have no room in a process: {what}. Take --ranks-per-process {most} at the most{more}"
        ))
    };
    let taken = after.maps + SHARED_MAPS;
    if taken + others * maps > limits.maps {
        let (limit, needed) = (limits.maps, taken + ranks * maps);
        let what = format!(
            "each takes {maps} mappings of memory, and the kernel allows a process {limit} (vm.max_map_count)"
        );
        let more =
            format!(", or allow more: sysctl vm.max_map_count={}", needed.next_multiple_of(10_000));
        return refused(what, room(limit, taken, maps), &more);
    }
    if others * bytes + SHARED_BYTES > limits.bytes {
        let what = format!(
            "each takes {} KiB of memory before it computes, and {} MiB are available",
            bytes >> 10,
            limits.bytes >> 20
        );
        return refused(what, room(limits.bytes, SHARED_BYTES, bytes), ", or fewer ranks in all");
    }
    if let Some((limit, taken)) = limits.addresses
        && taken + ranks * stack > limit
    {
        let what = format!(
            "each has a stack of {} MiB of addresses (ulimit -s), and {} MiB are allowed (ulimit -v)",
            stack >> 20,
            limit >> 20
        );
        return refused(what, room(limit, taken + stack, stack), ", or raise the limit");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Usage = Usage { maps: 300, bytes: 10 << 20 };
    /// A rank of 7 mappings, and of 160 KiB with what it takes beside its copy.
    const AFTER: Usage = Usage { maps: 305, bytes: (10 << 20) + (64 << 10) };
    const PLENTY: Limits = Limits { maps: 65_530, bytes: 8 << 30, addresses: None };

    fn judged(ranks: u64, limits: Limits) -> Result<(), String> {
        judge(ranks, 8 << 20, BEFORE, AFTER, limits)
    }

    #[test]
    fn what_fits_is_taken() {
        assert_eq!(judged(1, PLENTY), Ok(()));
        assert_eq!(judged(9000, PLENTY), Ok(()));
    }

    #[test]
    fn what_does_not_is_refused_with_the_number_that_would() {
        let cases = [
            (10_000, PLENTY, "vm.max_map_count"),
            (9000, Limits { bytes: 1 << 30, ..PLENTY }, "160 KiB of memory"),
            (9000, Limits { addresses: Some((16 << 30, 1 << 30)), ..PLENTY }, "ulimit -v"),
        ];
        for (ranks, limits, says) in cases {
            let why = judged(ranks, limits).unwrap_err();
            assert!(why.contains(says), "{why}");
            let (_, rest) = why.split_once("--ranks-per-process ").unwrap();
            let most: u64 = rest.split_once(' ').unwrap().0.parse().unwrap();
            assert!(most > 100 && most < ranks, "{why}");
            assert_eq!(judged(most, limits), Ok(()), "{why}");
            judged(most + most / 10, limits).unwrap_err();
        }
    }

    #[test]
    fn the_kernel_tells_what_a_process_has_taken() {
        let before = Usage::now().unwrap();
        assert!(before.maps > 5 && before.bytes > 4096, "{before:?}");
        check(1, 8 << 20, before, Usage::now().unwrap()).unwrap();
    }
}
