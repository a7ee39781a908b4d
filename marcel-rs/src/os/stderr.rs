//! The file descriptor 2, without the lock of `std::io::stderr`, which a stuck thread may hold.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// Has something written to file descriptor 2.
pub(crate) fn to_stderr(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    // SAFETY: borrowed, not closed. If the program has closed it, writing is an error, which is ignored.
    let stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
    let mut out = BufWriter::new(&*stderr);
    let _ = write(&mut out).and_then(|()| out.flush());
}

/// Writes a text. In signal handlers, too.
pub(crate) fn say(text: &str) {
    // SAFETY: valid bytes; write is async-signal-safe.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Writes a number. In signal handlers, too.
pub(crate) fn say_number(number: usize) {
    say_digits(number, 10);
}

/// Writes an address. In signal handlers, too.
pub(crate) fn say_address(address: usize) {
    say("0x");
    say_digits(address, 16);
}

fn say_digits(mut number: usize, base: usize) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b"0123456789abcdef"[number % base];
        number /= base;
        if number == 0 {
            break;
        }
    }
    say(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}
