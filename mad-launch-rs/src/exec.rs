//! What a new process becomes: the call that the kernel judges, made by the child itself.
//!
//! std's `Command` calls `execvp`. That searches `PATH` once more, and has `/bin/sh` read a file that the kernel cannot run:
//! data, or another machine's program, whose bytes may look like commands. Here the kernel is asked first. What it does not
//! know is left to `execvp`, and so to the shell, only if it is text. Rejected: judging the file by its first bytes alone
//! (`binfmt_misc` has the kernel run other machines' programs).

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

/// How much of a file shows whether it is text.
const BEGINNING: u64 = 512;

/// What `execve` takes. It is made before the fork, since the child may not allocate.
pub(crate) struct Exec {
    program: CString,
    argv: Strings,
    envp: Strings,
    is_text: bool,
}

impl Exec {
    /// The call for the file `program`, which is called `name`, with the command's arguments and variables.
    ///
    /// # Errors
    /// A word has a zero byte in it.
    pub(crate) fn of(program: &Path, name: &OsStr, command: &Command) -> io::Result<Exec> {
        let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => drop(variables.insert(name.into(), value.into())),
                None => drop(variables.remove(name)),
            }
        }
        let variables = variables.into_iter().map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            name
        });
        let words = std::iter::once(name).chain(command.get_args()).map(OsStr::to_owned);
        Ok(Exec {
            program: CString::new(program.as_os_str().to_owned().into_vec())?,
            argv: Strings::of(words)?,
            envp: Strings::of(variables)?,
            is_text: is_text(program).unwrap_or(false),
        })
    }

    /// Becomes the program. Makes async-signal-safe calls only.
    ///
    /// # Errors
    /// The kernel's. `Ok`: the file is for the shell.
    pub(crate) fn call(&self) -> io::Result<()> {
        // SAFETY: the strings end with zeros, both arrays with null, and all live as long as `self`.
        unsafe {
            libc::execve(
                self.program.as_ptr(),
                self.argv.pointers.as_ptr(),
                self.envp.pointers.as_ptr(),
            );
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOEXEC) if self.is_text => Ok(()),
            _ => Err(error),
        }
    }
}

/// Whether the file begins as text does: without a zero byte. The kernel judges later: a pipe is not waited for.
fn is_text(program: &Path) -> io::Result<bool> {
    let mut beginning = Vec::new();
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(program)?;
    file.take(BEGINNING).read_to_end(&mut beginning)?;
    Ok(!beginning.contains(&0))
}

/// Strings as C has them.
struct Strings {
    /// Of `strings`, and null.
    pointers: Vec<*const c_char>,
    #[expect(dead_code, reason = "the pointers lead there")]
    strings: Vec<CString>,
}

// SAFETY: the pointers lead to memory that `strings` owns, and that nothing changes.
unsafe impl Send for Strings {}
// SAFETY: as above.
unsafe impl Sync for Strings {}

impl Strings {
    fn of(strings: impl Iterator<Item = OsString>) -> io::Result<Strings> {
        let strings: Vec<CString> =
            strings.map(|string| CString::new(string.into_vec())).collect::<Result<_, _>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr());
        let pointers = pointers.chain([std::ptr::null()]).collect();
        Ok(Strings { pointers, strings })
    }
}
