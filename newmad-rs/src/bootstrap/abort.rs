//! A process ends its job, and says so to the process manager: an exit status may not be enough (`mad run --keep-going`).
//!
//! Whoever ends it does not wait, neither for an answer nor for a request that is being answered. So this is one short text, written
//! beside whatever else goes over the connection, which takes it whole or, when it is full, not at all.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use marcel::plumbing::KernelMutex;
use rustix::net::{self, SendFlags};

/// A connection, as long as it is open, and the version of the protocol that is spoken over it.
static CONNECTION: KernelMutex<(Weak<OwnedFd>, u8)> = KernelMutex::new((Weak::new(), 0));

/// From now on jobs are ended over this connection.
pub(super) fn through(socket: &Arc<OwnedFd>, version: u8) {
    *CONNECTION.lock() = (Arc::downgrade(socket), version);
}

/// Asks the process manager of this process, if it is one of the PMI family, to end the job, which then ends with this status.
pub fn abort(status: i32, why: &str) {
    let Some(connection) = CONNECTION.try_lock() else { return };
    let Some(socket) = connection.0.upgrade() else { return };
    let text = request(connection.1, status, why);
    let _ = net::send(&socket, text.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

fn request(version: u8, status: i32, why: &str) -> String {
    let why: String =
        why.chars().map(|c| if c == ';' || c.is_control() { ' ' } else { c }).collect();
    if version == 1 {
        return format!("cmd=abort exitcode={status} message={why}\n");
    }
    let text = format!("cmd=abort;isworld=TRUE;exitcode={status};msg={why};");
    format!("{:6}{text}", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_does_not_end_the_request() {
        assert_eq!(request(1, 3, "a\nb;c"), "cmd=abort exitcode=3 message=a b c\n");
        assert_eq!(request(2, 3, "a;b"), "    42cmd=abort;isworld=TRUE;exitcode=3;msg=a b;");
    }
}
