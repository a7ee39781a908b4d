//! What a job can leave behind, and how it is removed: orphaned processes, files in `/dev/shm`.
//!
//! The launcher is a child subreaper: a process whose parent was a rank, or a descendant of one, becomes its
//! child when that parent ends. While the job runs, the launcher collects those that end. After the last rank has ended,
//! whatever is a child then may end by itself for a while, and is killed then.

use crate::rank::Rank;

/// Variable that marks the processes of a job.
pub const MARK: &str = "MAD_JOB";

/// Processes whose parent this one is.
fn children() -> Vec<i32> {
    // Children started by this thread, and orphans, which the kernel gives to the main thread: the same one.
    let me = std::process::id();
    std::fs::read_to_string(format!("/proc/self/task/{me}/children"))
        .map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
        .unwrap_or_default()
}

/// Whether a child has ended that was not waited for.
fn has_ended_child() -> bool {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is writable, all zeros are a valid value of it, and the kernel sets the child's id or leaves 0.
    unsafe {
        libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) == 0
            && info.assume_init().si_pid() != 0
    }
}

/// Has this process inherit what its children leave behind. A refusal (kernels before 3.4) only loses the cleaning up
/// of grandchildren.
pub fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Removes what a job can leave behind.
pub struct Cleanup {
    name: String,
    /// Children that were there before the job: another program started them (`exec mad run` in a script
    /// that has background processes).
    foreign: Vec<i32>,
}

impl Cleanup {
    /// To be called before the job's first process is started.
    pub fn before(name: String) -> Cleanup {
        Cleanup { name, foreign: children() }
    }

    /// Collects the orphans that have ended. Ranks are left to [`Rank::reap`], foreign children to the program that
    /// started them.
    ///
    /// Rejected: taking what `waitid` names until it names nothing. A rank or a foreign child that has ended would be
    /// named again and again, and so would a child of another thread.
    pub fn collect_orphans(&self, ranks: &[Rank]) {
        if !has_ended_child() {
            return;
        }
        let is_rank =
            |pid: i32| ranks.iter().any(|rank| rank.ended.is_none() && rank.pid() as i32 == pid);
        for pid in children() {
            if !is_rank(pid) && !self.foreign.contains(&pid) {
                // SAFETY: a null status pointer is allowed.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
            }
        }
    }

    /// Whether something is left that [`Cleanup::processes`] would kill. All ranks have ended.
    pub(crate) fn has_orphans(&self) -> bool {
        children().into_iter().any(|pid| self.is_ours(pid))
    }

    /// Sends SIGTERM to those that [`Cleanup::processes`] would kill and that are not in `told`, where they are from now on.
    pub(crate) fn terminate_orphans(&self, told: &mut Vec<i32>) {
        for pid in children() {
            if self.is_ours(pid) && !told.contains(&pid) {
                told.push(pid);
                // SAFETY: takes no pointers; `pid` is a child that was not waited for, so the id is its own.
                unsafe { libc::kill(pid, libc::SIGTERM) };
            }
        }
    }

    /// Kills what the ranks started and left: their orphans are now children of this process.
    pub fn processes(&self) {
        for _ in 0..100 {
            let mut killed = children();
            // A process of another user (set-user-ID) cannot be killed: waiting for it could last for ever.
            killed.retain(|&pid| {
                // SAFETY: takes no pointers; `pid` is a child that was not waited for, so the id is its own.
                self.is_ours(pid) && unsafe { libc::kill(pid, libc::SIGKILL) } == 0
            });
            if killed.is_empty() {
                return;
            }
            for pid in killed {
                // SAFETY: a null status pointer is allowed.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            }
        }
    }

    /// Without foreign children every orphan is ours; with some, an orphan can be a child of theirs, so it
    /// has to carry the job's name.
    fn is_ours(&self, pid: i32) -> bool {
        if self.foreign.is_empty() {
            return true;
        }
        let mark = format!("{MARK}={}", self.name);
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        !self.foreign.contains(&pid)
            && env.split(|&byte| byte == 0).any(|var| var == mark.as_bytes())
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let Ok(files) = std::fs::read_dir("/dev/shm") else { return };
        for file in files.flatten() {
            if file.file_name().to_string_lossy().starts_with(&self.name) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}
