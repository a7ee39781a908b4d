//! Messages about the end of a process.

/// Writes the parts to standard error, in one call.
pub(crate) fn say(parts: &[&str]) {
    let text = parts.concat();
    // SAFETY: valid bytes. Not `std`'s lock: a thread that ends the process must not wait for one.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}
