//! Cross-memory attach, tried between two processes that are siblings, as two ranks are: Yama lets a parent
//! read its child but not a child its sibling, so trying it on one's own child would prove nothing.
//!
//! `mad` starts itself twice with the hidden subcommand `probe`: one process *holds* a pattern and prints
//! where, the other *reads* it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use clap::Subcommand;

use super::finding::Finding;
use mad_bench::out::{self, Exit, Outcome};

const PATTERN: u64 = 0x6d61_6420_7072_6f62;
const WORDS: usize = 1024;
const CHECK: &str = "cross_memory_attach";
const ADVICE: &str = "large messages over shm are copied twice, in a pipeline, instead of once. To allow it: \
                      sysctl kernel.yama.ptrace_scope=0; in a container --cap-add SYS_PTRACE, or a seccomp \
                      profile that allows process_vm_readv";

/// What the started copy does.
#[derive(Subcommand, Debug)]
pub(crate) enum Probe {
    /// Hold a pattern in memory until standard input ends.
    Hold,
    /// Read the pattern of another process.
    Read {
        /// Its process id.
        pid: i32,
        /// Where the pattern is.
        address: usize,
    },
}

/// The copy's side.
pub(crate) fn run(probe: &Probe) -> Outcome {
    match *probe {
        Probe::Hold => {
            let pattern = vec![PATTERN; WORDS];
            out::print(&format!("{} {}", std::process::id(), pattern.as_ptr() as usize))?;
            let mut rest = Vec::new();
            let _ = std::io::stdin().lock().read_to_end(&mut rest);
            drop(std::hint::black_box(pattern));
            Ok(())
        }
        Probe::Read { pid, address } => {
            let mut read = vec![0u64; WORDS];
            let bytes = WORDS * 8;
            let local = libc::iovec { iov_base: read.as_mut_ptr().cast(), iov_len: bytes };
            let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes };
            // SAFETY: `local` describes writable memory of ours; `remote` is checked by the kernel.
            let n = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
            if n != bytes as isize {
                return Err(Exit::Failed(std::io::Error::last_os_error().to_string()));
            }
            if read.iter().any(|&word| word != PATTERN) {
                return Err(Exit::Failed(
                    "the bytes that arrived are not those that were held".into(),
                ));
            }
            Ok(())
        }
    }
}

/// A started copy, ended when dropped.
struct Copy(Child);

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tries it.
pub(super) fn cross_memory_attach() -> Finding {
    match attempt() {
        Ok(()) => Finding::ok(CHECK, "one process read the memory of its sibling"),
        Err(why) => Finding::lacking(CHECK, why, ADVICE),
    }
}

fn attempt() -> Result<(), String> {
    let text = |e: std::io::Error| format!("could not be tried: {e}");
    let own = mad_launch::own_program().map_err(text)?;
    let mut holder = Copy(
        Command::new(&own)
            .args(["probe", "hold"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(text)?,
    );
    let mut line = String::new();
    if let Some(output) = holder.0.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(text)?;
    }
    let reader = Command::new(&own)
        .args(["probe", "read"])
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .map_err(text)?;
    if reader.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&reader.stderr).trim().trim_start_matches("mad: ").to_owned())
    }
}
