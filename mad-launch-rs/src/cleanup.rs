//! What a job can leave behind, and how it is removed: orphaned processes, files in `/dev/shm`.
//!
//! The launcher is a child subreaper: a process whose parent was a rank, or a descendant of one, becomes its
//! child when that parent ends. After the last rank has ended, whatever is a child then is killed.

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

    /// Kills what the ranks started and left: their orphans are now children of this process.
    pub fn processes(&self) {
        for _ in 0..100 {
            let orphans: Vec<i32> =
                children().into_iter().filter(|&pid| self.is_ours(pid)).collect();
            if orphans.is_empty() {
                return;
            }
            for &pid in &orphans {
                // SAFETY: takes no pointers; `pid` is a child that was not waited for, so the id is its own.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            for pid in orphans {
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
