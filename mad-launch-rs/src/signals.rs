//! Signals as something to poll: while a job runs, the launcher's own are read from a descriptor.
//!
//! Rejected: handlers that set flags (they race with `poll`), and a thread that waits for signals (children
//! are tied to the life of the thread that started them, so everything stays on one).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Signals that end the job: they are forwarded; a second interruption kills.
pub const STOP: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// Signals that are only handed on. SIGQUIT has each process write what its threads do; two of them end it.
pub const HAND_ON: [i32; 3] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT];

/// One signal that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// The kernel sent it, for a terminal.
    pub from_terminal: bool,
}

impl Signal {
    /// Whether a process got it as well. The terminal signals its foreground process group, which this process is in; a
    /// terminal that closes signals only the leader of its session.
    pub fn has_reached(&self, process: u32) -> bool {
        // SAFETY: the calls take no pointers.
        let (is_leader, is_of_group) = unsafe {
            (libc::getsid(0) == libc::getpid(), libc::getpgid(process as i32) == libc::getpgrp())
        };
        self.from_terminal && is_of_group && !(self.number == libc::SIGHUP && is_leader)
    }
}

/// Signals that come within this time are one interruption.
const ONE: Duration = Duration::from_millis(500);

/// The user's interruptions. One often comes as several signals: when a terminal closes, its shell and the kernel each send
/// SIGHUP; `timeout` sends its signal to the process and to the process's group.
#[derive(Debug, Default)]
pub struct Interruptions {
    first: Option<Instant>,
    has_int: bool,
}

/// What a signal of [`STOP`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    /// The first word.
    First,
    /// The same word once more.
    Echo,
    /// The user insists.
    Again,
}

impl Interruptions {
    /// Judges a signal that arrives now. A second SIGINT counts at once: people press Ctrl-C twice.
    pub fn judge(&mut self, signal: i32, now: Instant) -> Interruption {
        let is_int = signal == libc::SIGINT;
        let is_second_int = is_int && std::mem::replace(&mut self.has_int, true);
        match self.first {
            None => {
                self.first = Some(now);
                Interruption::First
            }
            Some(first) if is_second_int || now - first >= ONE => Interruption::Again,
            Some(_) => Interruption::Echo,
        }
    }
}

/// Has the kernel keep the exit status of each child until it is collected. A process that inherits an ignored SIGCHLD
/// learns of no child's end: the kernel removes the child and sends nothing.
pub fn keep_exit_statuses() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: the default action runs no code of this process.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Whether SIGXFSZ would end this process if a launcher in it did not ignore it.
static FILE_LIMIT_ENDS: AtomicBool = AtomicBool::new(false);

/// Ignores SIGXFSZ. What it did before, if it was not ignored.
fn ignore_file_limit() -> Option<libc::sigaction> {
    let mut ignore = MaybeUninit::<libc::sigaction>::zeroed();
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are a valid value of both; the action that is set runs no code, and the call writes the other one.
    let before = unsafe {
        (*ignore.as_mut_ptr()).sa_sigaction = libc::SIG_IGN;
        libc::sigaction(libc::SIGXFSZ, ignore.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    };
    let is_new = before.sa_sigaction != libc::SIG_IGN;
    if is_new {
        FILE_LIMIT_ENDS.store(true, Ordering::Relaxed);
    }
    is_new.then_some(before)
}

/// Between fork and exec: a limit on the size of files (`ulimit -f`) does to the process that is being started what it would
/// have done to this one without a launcher. `ends`: what [`file_limit_ends`] has said. Async-signal-safe.
pub(crate) fn restore_file_limit(ends: bool) {
    if ends {
        // SAFETY: the default action runs no code of this process.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
}

/// Whether a process that is started gets the default action of SIGXFSZ back.
pub(crate) fn file_limit_ends() -> bool {
    FILE_LIMIT_ENDS.load(Ordering::Relaxed)
}

/// Whether this process ignores the signal: `nohup` and shells without job control start programs so.
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes `action`, of which all zeros are a valid value.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Blocks the signals in this thread and reads them from a descriptor; restores the mask when dropped.
///
/// SIGXFSZ is ignored meanwhile: the launcher, which has ranks to end, heeds the error of the write instead.
///
/// A signal that the process ignores stays ignored, here and in its children. It has to stay out of the set: a
/// descriptor delivers a blocked signal even if the process ignores it.
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
    /// What SIGXFSZ did before, if it was not ignored.
    file_limit: Option<libc::sigaction>,
}

impl Signals {
    /// Starts reading signals. An ignored SIGCHLD gets its default action ([`keep_exit_statuses`]).
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn catch() -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        keep_exit_statuses();
        let heeded = STOP.into_iter().chain(HAND_ON).filter(|&signal| !is_ignored(signal));
        // SAFETY: both sets are initialised by the calls before they are read.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in heeded.chain([libc::SIGCHLD]) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = OwnedFd::from_raw_fd(fd);
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            Ok(Signals { fd, before: before.assume_init(), file_limit: ignore_file_limit() })
        }
    }

    /// The descriptor, readable when a signal is there.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether a signal has arrived that ends what goes on. Those that have arrived are forgotten.
    pub fn asks_to_stop(&self) -> bool {
        std::iter::from_fn(|| self.next()).filter(|signal| STOP.contains(&signal.number)).count()
            > 0
    }

    /// The next signal that has arrived, if any.
    pub fn next(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is writable for `size` bytes, and every bit pattern is a valid value of it.
        let info = unsafe {
            if libc::read(self.fd(), info.as_mut_ptr().cast(), size) != size as isize {
                return None;
            }
            info.assume_init()
        };
        const SI_KERNEL: i32 = 0x80;
        Some(Signal { number: info.ssi_signo as i32, from_terminal: info.ssi_code == SI_KERNEL })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(before) = &self.file_limit {
            FILE_LIMIT_ENDS.store(false, Ordering::Relaxed);
            // SAFETY: the action was this signal's before.
            unsafe { libc::sigaction(libc::SIGXFSZ, before, std::ptr::null_mut()) };
        }
        // SAFETY: `before` was filled by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// A signal's name as people write it.
pub fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("{name} ({signal})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interruption_may_be_several_signals() {
        use Interruption::{Again, Echo, First};
        let begin = Instant::now();
        let judged = |signals: &[(i32, u64)]| -> Vec<Interruption> {
            let mut interruptions = Interruptions::default();
            let signals = signals.iter().map(|&(signal, ms)| {
                interruptions.judge(signal, begin + Duration::from_millis(ms))
            });
            signals.collect()
        };
        let (int, term, hup) = (libc::SIGINT, libc::SIGTERM, libc::SIGHUP);
        assert_eq!(
            judged(&[(hup, 0), (hup, 30), (term, 499), (hup, 500)]),
            [First, Echo, Echo, Again]
        );
        assert_eq!(judged(&[(int, 0), (int, 1)]), [First, Again]);
        assert_eq!(judged(&[(term, 0), (int, 1), (int, 2)]), [First, Echo, Again]);
        assert_eq!(judged(&[(int, 0), (term, 1), (int, 2)]), [First, Echo, Again]);
    }
}
