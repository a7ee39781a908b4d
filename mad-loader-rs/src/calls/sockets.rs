//! Sends and receives of sockets: tried without waiting, then a green thread waits as the descriptor says.

use std::io;
use std::time::Instant;

use libc::{c_int, c_void, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::blocking::blocking;
use super::call::{Call, check_room, fail, waits_green};
use super::wait_set::{Vain, await_ready, is_blocking, time_limit, wait_one};

pub(super) fn calls() -> [Call; 10] {
    [
        ("recv", recv as *const () as usize),
        ("__recv_chk", recv_checked as *const () as usize),
        ("recvfrom", recvfrom as *const () as usize),
        ("__recvfrom_chk", recvfrom_checked as *const () as usize),
        ("recvmsg", recvmsg as *const () as usize),
        ("send", send as *const () as usize),
        ("sendto", sendto as *const () as usize),
        ("sendmsg", sendmsg as *const () as usize),
        ("accept", accept as *const () as usize),
        ("accept4", accept4 as *const () as usize),
    ]
}

/// What never waits, whatever the socket is: the queue of errors, and urgent data.
const AT_ONCE: c_int = libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB;

/// Until when a call waits, once that has been looked up: `None` for ever.
type Deadline = Option<Option<Instant>>;

/// Makes a call that does not wait until it does not say "not now" any more, and waits in between, if the program's call
/// would, up to the `deadline` of the whole.
fn until(
    fd: c_int,
    events: i16,
    flags: c_int,
    deadline: &mut Deadline,
    mut call: impl FnMut() -> ssize_t,
) -> ssize_t {
    let (mut vain, mut is_over) = (Vain::default(), false);
    loop {
        let result = call();
        if result >= 0 {
            return result;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => continue, // by a tick
            Some(libc::EAGAIN) if flags & AT_ONCE == 0 && is_blocking(fd) => {}
            _ => return result,
        }
        let limit = *deadline.get_or_insert_with(|| time_limit(fd, events));
        match wait_one(fd, events, limit) {
            // In vain, where a datagram finds no room at its receiver: no call waits for that.
            Ok(true) if !is_over => is_over = vain.is_over(limit),
            Ok(_) => return fail(libc::EAGAIN) as ssize_t,
            Err(error) => return fail(error.raw_os_error().unwrap_or(libc::ENOMEM)) as ssize_t,
        }
    }
}

unsafe extern "C-unwind" fn recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let null = std::ptr::null_mut();
    // SAFETY: the caller's own call.
    unsafe { recvfrom(fd, to, len, flags, null, null.cast()) }
}

unsafe extern "C-unwind" fn recv_checked(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check_room(len, room);
    // SAFETY: the caller's own call.
    unsafe { recv(fd, to, len, flags) }
}

unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if !waits_green() {
        // SAFETY: the caller's own call.
        return unsafe { libc::recvfrom(fd, to, len, flags, from, from_len) };
    }
    // All of it: a call that does not wait returns what is there, and is made again for the rest. Messages are whole anyway.
    let whole = flags & libc::MSG_WAITALL != 0
        && flags & libc::MSG_PEEK == 0
        && from.is_null()
        && is_stream(fd);
    let (mut done, mut deadline) = (0, None);
    loop {
        // SAFETY: a part of the caller's buffer.
        let got = until(fd, libc::POLLIN, flags, &mut deadline, || unsafe {
            let rest = to.cast::<u8>().add(done).cast();
            libc::recvfrom(fd, rest, len - done, flags | libc::MSG_DONTWAIT, from, from_len)
        });
        if got <= 0 {
            return if done > 0 { done as ssize_t } else { got };
        }
        done += got as usize;
        if !whole || done >= len {
            return done as ssize_t;
        }
    }
}

/// Whether what comes has no bounds.
fn is_stream(fd: c_int) -> bool {
    let (mut kind, mut len): (c_int, _) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: a place for a number, and its length.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &mut len)
    };
    result == 0 && kind == libc::SOCK_STREAM
}

unsafe extern "C-unwind" fn recvfrom_checked(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    check_room(len, room);
    // SAFETY: the caller's own call.
    unsafe { recvfrom(fd, to, len, flags, from, from_len) }
}

unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if !waits_green() || flags & libc::MSG_WAITALL != 0 {
        let message = message as usize;
        // SAFETY: the caller's own call.
        return blocking(move || unsafe { libc::recvmsg(fd, message as *mut _, flags) });
    }
    // SAFETY: the caller's own call.
    until(fd, libc::POLLIN, flags, &mut None, || unsafe {
        libc::recvmsg(fd, message, flags | libc::MSG_DONTWAIT)
    })
}

unsafe extern "C-unwind" fn send(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if !waits_green() {
        // SAFETY: the caller's own call.
        return unsafe { libc::send(fd, from, len, flags) };
    }
    // SAFETY: the caller's own call.
    unsafe { send_all(fd, from, len, flags) }
}

/// Sends everything, as a blocking call does; a non-blocking one sends what goes.
///
/// # Safety
/// As `send`, by a green thread.
pub(super) unsafe fn send_all(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    let (mut done, mut deadline) = (0, None);
    loop {
        // SAFETY: a part of the caller's buffer.
        let sent = until(fd, libc::POLLOUT, flags, &mut deadline, || unsafe {
            let rest = from.cast::<u8>().add(done).cast();
            libc::send(fd, rest, len - done, flags | libc::MSG_DONTWAIT)
        });
        if sent < 0 {
            return if done > 0 { done as ssize_t } else { sent };
        }
        done += sent as usize;
        let waits = || flags & libc::MSG_DONTWAIT == 0 && is_blocking(fd);
        if done >= len || sent == 0 || !waits() {
            return done as ssize_t;
        }
    }
}

unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if !waits_green() {
        // SAFETY: the caller's own call.
        return unsafe { libc::sendto(fd, from, len, flags, to, to_len) };
    }
    if to.is_null() {
        // SAFETY: the caller's own call.
        return unsafe { send_all(fd, from, len, flags) };
    }
    // A datagram, which goes whole or not.
    // SAFETY: the caller's own call.
    until(fd, libc::POLLOUT, flags, &mut None, || unsafe {
        libc::sendto(fd, from, len, flags | libc::MSG_DONTWAIT, to, to_len)
    })
}

unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // A part of it may go; the rest, with what else the message has, is the kernel's to continue.
    let message = message as usize;
    // SAFETY: the caller's own call.
    blocking(move || unsafe { libc::sendmsg(fd, message as *const _, flags) })
}

unsafe extern "C-unwind" fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's own call.
    unsafe { accept4(fd, from, len, 0) }
}

unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if waits_green() && !await_ready(fd, libc::POLLIN) {
        return -1;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::accept4(fd, from, len, flags) }
}
