//! What the kernel grants, found by asking for it. What changes the asking thread is done on a thread of its
//! own, which then ends.

use std::io;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use marcel::plumbing::lwp;
use pioman::FileEngine;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::finding::Finding;
use mad_bench::clock;

fn last_error() -> String {
    io::Error::last_os_error().to_string()
}

/// Runs `f` on a thread of its own; `None` if that thread cannot be had.
fn aside<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    std::thread::Builder::new().spawn(f).ok()?.join().ok()
}

/// Whether the kernel puts guards into the page tables (`MADV_GUARD_INSTALL`, Linux 6.13): those of stacks split no
/// mapping then.
pub(super) fn has_guard_markers() -> bool {
    /// The C library's headers lack it.
    const GUARD_INSTALL: libc::c_int = 102;
    let len = 1 << 16;
    let (read_write, private) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of its own, which no reference leads to; it is unmapped below.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), len, read_write, private, -1, 0) };
    if memory == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping is ours, and not used again.
    unsafe {
        let installed = libc::madvise(memory, len, GUARD_INSTALL) == 0;
        libc::munmap(memory, len);
        installed
    }
}

/// Anonymous shared memory.
pub(super) fn memfd() -> Finding {
    let advice = "the shm driver needs it: use --driver tcp; a kernel of 3.17 or later has it";
    let fd = match memfd_create("mad-doctor", MemfdFlags::CLOEXEC) {
        Ok(fd) => fd,
        Err(why) => return Finding::lacking("memfd", why.to_string(), advice),
    };
    match ftruncate(fd, 1 << 20) {
        Ok(()) => Finding::ok("memfd", "1 MB of shared memory without a name"),
        Err(why) => {
            let advice = "the memory limit of this cgroup is too small";
            Finding::lacking("memfd", why.to_string(), advice)
        }
    }
}

/// TCP over the loopback interface, as the tcp driver uses it on one machine.
pub(super) fn loopback() -> Finding {
    let attempt = || -> io::Result<u16> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        Ok(address.port())
    };
    match attempt() {
        Ok(port) => Finding::ok("tcp_loopback", format!("connected to 127.0.0.1:{port}")),
        Err(e) => Finding::lacking(
            "tcp_loopback",
            e.to_string(),
            "the tcp driver needs it on one machine: bring the interface up (ip link set lo up), or use shm",
        ),
    }
}

const TICKS: usize = 64;
static TICK_AT: [AtomicU64; TICKS] = [const { AtomicU64::new(0) }; TICKS];
static TICK_COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_tick(_: i32) {
    let i = TICK_COUNT.load(Relaxed);
    if i < TICKS {
        TICK_AT[i].store(clock::now_ns(), Relaxed);
        TICK_COUNT.store(i + 1, Relaxed);
    }
}

/// A 1 ms timer that interrupts a thread which computes: what ticks are made of.
pub(super) fn timer_signal() -> Finding {
    const PERIOD_NS: i64 = 1_000_000;
    let check = "timer_signal";
    let advice = "mode mono and busy virtual processors detect events at ticks: with a coarse timer raise \
                  PIOM_TIMER_PERIOD to what the kernel can do; a kernel with high-resolution timers does better";
    let measured = aside(|| -> Result<(), String> {
        let signal = libc::SIGRTMIN() + 1;
        let mut timer = MaybeUninit::<libc::timer_t>::uninit();
        // SAFETY: all structures are zeroed before the fields that matter are set; the handler only stores
        // to atomics; the timer is deleted before the thread ends.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_tick as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                return Err(last_error());
            }
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr()) != 0 {
                return Err(last_error());
            }
            let period = libc::timespec { tv_sec: 0, tv_nsec: PERIOD_NS };
            let spec = libc::itimerspec { it_interval: period, it_value: period };
            let timer = timer.assume_init();
            if libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()) != 0 {
                let error = last_error();
                libc::timer_delete(timer);
                return Err(error);
            }
            let until = Instant::now() + Duration::from_secs(2);
            while TICK_COUNT.load(Relaxed) < TICKS && Instant::now() < until {
                std::hint::spin_loop();
            }
            libc::timer_delete(timer);
        }
        Ok(())
    });
    if let Some(Err(why)) = measured {
        return Finding::lacking(check, why, advice);
    }
    let n = TICK_COUNT.load(Relaxed);
    if n < 2 {
        return Finding::lacking(check, "no signal came within 2 s", advice);
    }
    let at: Vec<u64> = TICK_AT[..n].iter().map(|at| at.load(Relaxed)).collect();
    let mut gaps: Vec<u64> =
        at.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) / 1000).collect();
    gaps.sort_unstable();
    let (median, worst) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    let found =
        format!("asked every 1000 µs, came every {median} µs (median), at worst {worst} µs");
    Finding::enough(median <= 1500, check, found, advice)
}

/// A time slice of one's own for a normal thread: with a shorter one, a woken thread preempts sooner.
pub(super) fn slice() -> Finding {
    let got = aside(|| {
        if !lwp::prefer_current_thread() {
            return Err(last_error());
        }
        lwp::slice_of_current_thread().map_err(|error| error.to_string())
    });
    let advice = "reactive virtual processors wake a little later under load: a kernel of 6.12 or later \
                  honours slices of normal threads";
    match got {
        Some(Ok(lwp::SHORT_SLICE)) => Finding::ok("custom_slice", "a slice of 0.1 ms was accepted"),
        Some(Ok(_)) => Finding::limited("custom_slice", "accepted but not kept", advice),
        Some(Err(why)) => Finding::lacking("custom_slice", why, advice),
        None => Finding::lacking("custom_slice", "no thread to try it on", advice),
    }
}

/// Whether a thread may raise its priority among normal threads.
pub(super) fn priority() -> Finding {
    let got = aside(|| {
        // SAFETY: takes no pointers.
        let ret = unsafe { libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as u32, -10) };
        if ret == 0 { Ok(()) } else { Err(last_error()) }
    });
    match got {
        Some(Ok(())) => Finding::ok("nice", "a thread may take nice -10"),
        other => Finding::limited(
            "nice",
            other.and_then(Result::err).unwrap_or_default(),
            "not needed: woken threads preempt computing ones at normal priority. To allow it: ulimit -e 30 \
             (RLIMIT_NICE), or CAP_SYS_NICE",
        ),
    }
}

/// Whether a thread may take a real-time priority.
pub(super) fn real_time() -> Finding {
    let got = aside(|| {
        let param = libc::sched_param { sched_priority: 1 };
        // SAFETY: `param` is valid; 0 is the calling thread.
        let ret = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
        if ret == 0 { Ok(()) } else { Err(last_error()) }
    });
    match got {
        Some(Ok(())) => Finding::ok("real_time_priority", "a thread may take SCHED_FIFO 1"),
        other => Finding::limited(
            "real_time_priority",
            other.and_then(Result::err).unwrap_or_default(),
            "not needed. To allow it: ulimit -r 1 (RLIMIT_RTPRIO), or CAP_SYS_NICE",
        ),
    }
}

/// Asynchronous system calls: what files of green threads go by, tried as they do it.
pub(super) fn io_uring() -> Finding {
    const CHECK: &str = "io_uring";
    const ADVICE: &str = "files of green threads go by kernel threads that block instead (two wake-ups a call). \
                          To allow it: PIOM_URING=1, sysctl kernel.io_uring_disabled=0, in a container a seccomp profile \
                          with io_uring_setup, io_uring_enter and io_uring_register";
    let manager = match pioman::Manager::here() {
        Ok(manager) => manager,
        Err(error) => return Finding::lacking(CHECK, error.to_string(), ADVICE),
    };
    match manager.file_engine() {
        FileEngine::Uring { most, lacks } if lacks.is_empty() => Finding::ok(
            CHECK,
            format!("in use: a ring for {most} operations at once, of every kind that is needed"),
        ),
        FileEngine::Uring { most, lacks } => Finding::limited(
            CHECK,
            format!(
                "in use: a ring for {most} operations at once; this kernel lacks {}",
                lacks.join(", ")
            ),
            "those go by kernel threads that block; a newer kernel has them",
        ),
        FileEngine::Pool { why } => Finding::lacking(CHECK, format!("not in use: {why}"), ADVICE),
        _ => Finding::limited(CHECK, "in use in a way that this program does not know", ADVICE),
    }
}

/// Large pages.
pub(super) fn huge_pages() -> Finding {
    let thp =
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let thp = thp.split(['[', ']']).nth(1).unwrap_or("absent").to_owned();
    let size = 2 << 20;
    // SAFETY: an anonymous mapping at an address of the kernel's choice, unmapped below.
    let mapped = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        let at = libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, flags, -1, 0);
        if at == libc::MAP_FAILED {
            Err(last_error())
        } else {
            libc::munmap(at, size);
            Ok(())
        }
    };
    let transparent = format!("transparent ones: {thp}");
    match mapped {
        Ok(()) => Finding::ok("huge_pages", format!("reserved ones are there; {transparent}")),
        Err(why) => Finding::limited(
            "huge_pages",
            format!("reserved ones: {why}; {transparent}"),
            "only worth it for very large segments: sysctl vm.nr_hugepages=64",
        ),
    }
}
