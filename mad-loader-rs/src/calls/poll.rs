//! `poll`, `select`, `epoll_wait`: they wait as green threads do.
//!
//! A program that looks without waiting, again and again, lets others run each time it finds nothing.

use std::cell::LazyCell;
use std::io;
use std::time::{Duration, Instant};

use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::blocking::blocking;
use super::call::{Call, fail, waits_green};
use super::sleep::duration;
use super::wait_set::{self, Vain};

pub(super) fn calls() -> [Call; 8] {
    [
        ("poll", poll as *const () as usize),
        ("__poll_chk", poll as *const () as usize),
        ("ppoll", ppoll as *const () as usize),
        ("__ppoll_chk", ppoll as *const () as usize),
        ("select", select as *const () as usize),
        ("pselect", pselect as *const () as usize),
        ("epoll_wait", epoll_wait as *const () as usize),
        ("epoll_pwait", epoll_pwait as *const () as usize),
    ]
}

/// How long a call may wait.
#[derive(Clone, Copy)]
enum Limit {
    Now,
    Until(Instant),
    Never,
}

impl Limit {
    fn after(time: Option<Duration>) -> Limit {
        match time {
            Some(Duration::ZERO) => Limit::Now,
            Some(time) => Instant::now().checked_add(time).map_or(Limit::Never, Limit::Until),
            None => Limit::Never,
        }
    }

    fn of_milliseconds(milliseconds: c_int) -> Limit {
        Limit::after(u64::try_from(milliseconds).ok().map(Duration::from_millis))
    }

    fn deadline(self) -> Option<Instant> {
        match self {
            Limit::Until(deadline) => Some(deadline),
            _ => None,
        }
    }

    /// The time that is left.
    fn left(self) -> Duration {
        self.deadline().map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }
}

/// Calls `look`, which does not wait, until it finds something, fails, or the limit is reached; waits in between for what
/// `descriptors` says, which is asked when a look has been in vain.
fn until(
    limit: Limit,
    descriptors: impl Fn() -> Vec<pollfd>,
    mut look: impl FnMut() -> c_int,
) -> c_int {
    let mut over = matches!(limit, Limit::Now);
    let (mut vain, list) = (Vain::default(), LazyCell::new(descriptors));
    loop {
        let found = look();
        let interrupted = found < 0 && errno() == libc::EINTR; // by a tick
        if found > 0 || found < 0 && !interrupted {
            return found;
        }
        if over && !interrupted {
            marcel::yield_now();
            return 0;
        }
        if !interrupted {
            match wait_set::wait(&list, limit.deadline()) {
                Ok(true) => over = vain.is_over(limit.deadline()),
                Ok(false) => over = true,
                Err(error) => return fail(error.raw_os_error().unwrap_or(libc::ENOMEM)),
            }
        }
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
    if !waits_green() {
        // SAFETY: the caller's own call.
        return unsafe { libc::poll(fds, count, milliseconds) };
    }
    // SAFETY: the caller's own call.
    unsafe { poll_green(fds, count, Limit::of_milliseconds(milliseconds)) }
}

/// # Safety
/// As `poll`.
unsafe fn poll_green(fds: *mut pollfd, count: nfds_t, limit: Limit) -> c_int {
    // The kernel takes the lower half of the number, and has said by then that there can be so many.
    let descriptors = || match count as u32 {
        0 => Vec::new(),
        // SAFETY: the caller's array.
        count => unsafe { std::slice::from_raw_parts(fds, count as usize) }.to_vec(),
    };
    // SAFETY: the caller's own call.
    until(limit, descriptors, || unsafe { libc::poll(fds, count, 0) })
}

unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if !waits_green() || !mask.is_null() {
        let (fds, time, mask) = (fds as usize, time as usize, mask as usize);
        // SAFETY: the caller's own call. A mask holds for the thread that waits.
        return blocking(move || unsafe {
            libc::ppoll(fds as *mut _, count, time as *const _, mask as *const _)
        });
    }
    // SAFETY: the caller's argument.
    let limit = match unsafe { limit_of(time) } {
        Ok(limit) => limit,
        Err(error) => return fail(error),
    };
    // SAFETY: the caller's own call.
    unsafe { poll_green(fds, count, limit) }
}

/// # Safety
/// `time` is null or valid.
unsafe fn limit_of(time: *const timespec) -> Result<Limit, c_int> {
    if time.is_null() {
        return Ok(Limit::Never);
    }
    // SAFETY: the caller's promise.
    unsafe { duration(time) }.map(|time| Limit::after(Some(time))).ok_or(libc::EINVAL)
}

/// The three sets of `select`: a bit for each descriptor. They may be larger than an `fd_set`, or smaller.
#[derive(Clone, Copy)]
struct Sets {
    sets: [*mut u8; 3],
    /// So many descriptors are looked at.
    count: usize,
}

impl Sets {
    const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

    /// # Safety
    /// The sets are null or valid, for descriptors below `count` as far as the kernel looks.
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Sets {
        let most = if count > libc::FD_SETSIZE as c_int { table_size() } else { usize::MAX };
        let count = usize::try_from(count).unwrap_or(0).min(most);
        Sets { sets: sets.map(|set| set.cast()), count }
    }

    fn bytes(self) -> usize {
        self.count.div_ceil(u64::BITS as usize) * size_of::<u64>()
    }

    /// What they hold; nothing for one that is null.
    fn contents(self) -> [Vec<u8>; 3] {
        self.sets.map(|set| match set.is_null() {
            true => Vec::new(),
            // SAFETY: valid, as `new`'s caller says.
            false => unsafe { std::slice::from_raw_parts(set, self.bytes()) }.to_vec(),
        })
    }

    /// They hold this again.
    fn restore(self, contents: &[Vec<u8>; 3]) {
        for (set, contents) in self.sets.into_iter().zip(contents) {
            // SAFETY: so many bytes were read there; none if it is null.
            unsafe { set.copy_from(contents.as_ptr(), contents.len()) };
        }
    }

    fn descriptors(self, contents: &[Vec<u8>; 3]) -> Vec<pollfd> {
        let mut list = Vec::new();
        for fd in 0..self.count {
            // Words of the kernel's, little-endian.
            let has = |set: &Vec<u8>| set.get(fd / 8).is_some_and(|byte| byte >> (fd % 8) & 1 != 0);
            let sets = contents.iter().zip(Self::EVENTS);
            let events = sets.filter(|(set, _)| has(set)).fold(0, |all, (_, event)| all | event);
            if events != 0 {
                list.push(pollfd { fd: fd as c_int, events, revents: 0 });
            }
        }
        list
    }
}

/// How many descriptors the kernel's table of this process has room for: it looks at no more, whatever a program says.
fn table_size() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
    size.and_then(|size| size.trim().parse().ok()).unwrap_or(libc::FD_SETSIZE)
}

/// # Safety
/// The sets are null or valid, for descriptors below `count`.
unsafe fn select_green(count: c_int, sets: [*mut fd_set; 3], limit: Limit) -> c_int {
    // SAFETY: the caller's promise.
    let all = unsafe { Sets::new(count, sets) };
    let contents = all.contents();
    until(
        limit,
        || all.descriptors(&contents),
        || {
            // Each look has the sets as the caller gave them.
            all.restore(&contents);
            let mut now = timeval { tv_sec: 0, tv_usec: 0 };
            // SAFETY: the caller's own call.
            unsafe { libc::select(count, sets[0], sets[1], sets[2], &mut now) }
        },
    )
}

unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *mut timeval,
) -> c_int {
    if !waits_green() {
        // SAFETY: the caller's own call.
        return unsafe { libc::select(count, read, write, except, time) };
    }
    // SAFETY: the caller's arguments.
    unsafe {
        let limit = match time.as_ref() {
            None => Limit::Never,
            Some(time) => {
                let seconds = u64::try_from(time.tv_sec);
                let microseconds = u64::try_from(time.tv_usec);
                let (Ok(seconds), Ok(microseconds)) = (seconds, microseconds) else {
                    return fail(libc::EINVAL);
                };
                let rest = Duration::from_micros(microseconds);
                Limit::after(Some(Duration::from_secs(seconds).saturating_add(rest)))
            }
        };
        let found = select_green(count, [read, write, except], limit);
        if let Some(time) = time.as_mut() {
            // Linux tells how much is left.
            let left = limit.left();
            time.tv_sec = left.as_secs() as libc::time_t;
            time.tv_usec = left.subsec_micros().into();
        }
        found
    }
}

unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if !waits_green() || !mask.is_null() {
        let [read, write, except] = [read as usize, write as usize, except as usize];
        let (time, mask) = (time as usize, mask as usize);
        // SAFETY: the caller's own call. A mask holds for the thread that waits.
        return blocking(move || unsafe {
            libc::pselect(
                count,
                read as *mut _,
                write as *mut _,
                except as *mut _,
                time as *const _,
                mask as *const _,
            )
        });
    }
    // SAFETY: the caller's arguments.
    unsafe {
        match limit_of(time) {
            Ok(limit) => select_green(count, [read, write, except], limit),
            Err(error) => fail(error),
        }
    }
}

unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
) -> c_int {
    if !waits_green() {
        // SAFETY: the caller's own call.
        return unsafe { libc::epoll_wait(set, events, most, milliseconds) };
    }
    let itself = || vec![pollfd { fd: set, events: libc::POLLIN, revents: 0 }];
    // SAFETY: the caller's own call.
    until(Limit::of_milliseconds(milliseconds), itself, || unsafe {
        libc::epoll_wait(set, events, most, 0)
    })
}

unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    milliseconds: c_int,
    mask: *const sigset_t,
) -> c_int {
    if mask.is_null() {
        // SAFETY: the caller's own call.
        return unsafe { epoll_wait(set, events, most, milliseconds) };
    }
    let (events, mask) = (events as usize, mask as usize);
    // SAFETY: the caller's own call. The mask holds for the thread that waits.
    blocking(move || unsafe {
        libc::epoll_pwait(set, events as *mut _, most, milliseconds, mask as *const _)
    })
}
