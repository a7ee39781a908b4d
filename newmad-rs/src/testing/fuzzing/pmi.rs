//! Process managers that answer anything.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Input;
use crate::bootstrap::over;
use crate::sys;

/// What a client of version 1 hears, in this order, when all is well.
const ONE: &[&str] = &[
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=",
    "cmd=my_kvsname kvsname=",
    "cmd=put_result rc=0",
    "cmd=barrier_out rc=0",
    "cmd=get_result rc=0 value=",
    "cmd=get_result rc=0 value=",
    "cmd=finalize_ack",
];
/// What one of version 2 hears.
const TWO: &[&str] = &[
    "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0",
    "cmd=fullinit-response;rank=0;size=3;rc=",
    "cmd=kvs-put-response;rc=0",
    "cmd=kvs-fence-response;rc=0",
    "cmd=kvs-get-response;rc=0;value=",
    "cmd=kvs-get-response;rc=0;value=",
    "cmd=finalize-response;rc=0",
];

/// What the process manager writes: mostly what should come, with something at its end, now and then something else.
fn said(input: &mut Input<'_>) -> (bool, Vec<u8>) {
    let two = input.below(2) == 1;
    let expected = if two { TWO } else { ONE };
    let (mut bytes, mut next) = (Vec::new(), 0);
    while !input.is_over() && bytes.len() < 4096 {
        let what = input.below(16);
        let tail = input.below(24);
        let mut text = match what {
            0 => Vec::new(),
            1 => expected[input.below(expected.len())].as_bytes().to_vec(),
            _ => expected[next % expected.len()].as_bytes().to_vec(),
        };
        text.extend_from_slice(input.take(tail));
        let lines = !two || next == 0;
        next += 1;
        if lines {
            text.push(b'\n');
        } else if what != 2 {
            bytes.extend_from_slice(format!("{:6}", text.len()).as_bytes());
        }
        bytes.extend_from_slice(&text);
    }
    (two, bytes)
}

/// A client that hears what no server should say.
pub(super) fn answers(input: &[u8]) {
    let (two, said) = said(&mut Input(input));
    let Ok((ours, mut theirs)) = UnixStream::pair() else { return };
    // All that is ever said is there at once, then comes the end: nothing waits for the deadline.
    if theirs.write_all(&said).and_then(|()| theirs.shutdown(Shutdown::Write)).is_err() {
        return;
    }
    let deadline = sys::deadline(Duration::from_secs(5));
    let asked = if two { "pmi2" } else { "pmi1" };
    let Ok(mut boot) = over(OwnedFd::from(ours), (0, 3), Some(asked), deadline) else { return };
    let card = "a card; of ours".repeat(50);
    if boot.publish(&card, deadline).and_then(|()| boot.fence(deadline)).is_ok() {
        let _ = boot.card_of(1, deadline);
        let _ = boot.card_of(2, deadline);
    }
    let _ = boot.finish();
}
