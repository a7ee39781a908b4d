//! A caller of an agent that is not authenticated yet: a greeting that never blocks the agent.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use crate::across::card::random;
use crate::across::greeting;
use crate::across::greeting::{ADMITTED, CHALLENGE, HELLO, KEY, PROOF, Purpose};

enum Stage {
    /// Its hello is awaited.
    Hello,
    /// Its proof is awaited.
    Proof { hello: [u8; HELLO], challenge: [u8; CHALLENGE] },
}

/// See the module.
pub(super) struct PendingPeer {
    stream: TcpStream,
    /// When it is sent away.
    pub(super) until: Instant,
    stage: Stage,
    got: Vec<u8>,
}

/// How far it is.
pub(super) enum Step {
    /// More has to come.
    Waits,
    /// It has gone, or does not know the key.
    Refused,
    /// It is to be let in for this.
    Admitted(Purpose),
}

impl PendingPeer {
    /// A connection that does not block.
    pub(super) fn new(stream: TcpStream, until: Instant) -> PendingPeer {
        PendingPeer { stream, until, stage: Stage::Hello, got: Vec::new() }
    }

    /// The descriptor to poll.
    pub(super) fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Its connection, which blocks from now on, after telling it that it is admitted.
    pub(super) fn welcome(mut self) -> std::io::Result<TcpStream> {
        self.stream.set_nonblocking(false)?;
        self.stream.write_all(&[ADMITTED])?;
        Ok(self.stream)
    }

    /// Takes what has come, never more than the next message has.
    pub(super) fn step(&mut self, key: &[u8; KEY]) -> Step {
        loop {
            let wanted = match self.stage {
                Stage::Hello => HELLO,
                Stage::Proof { .. } => PROOF,
            };
            let mut buffer = [0; HELLO + PROOF];
            match self.stream.read(&mut buffer[..wanted - self.got.len()]) {
                Ok(0) => return Step::Refused,
                Ok(n) => self.got.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Step::Waits,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Step::Refused,
            }
            if self.got.len() == wanted
                && let Some(step) = self.complete(key)
            {
                return step;
            }
        }
    }

    /// Looks at a message that is complete; `None`: on to the next.
    fn complete(&mut self, key: &[u8; KEY]) -> Option<Step> {
        let got = std::mem::take(&mut self.got);
        if let Stage::Proof { hello, challenge } = &self.stage {
            let proof = <&[u8; PROOF]>::try_from(got.as_slice()).ok();
            let proven = proof.is_some_and(|proof| greeting::admits(key, hello, challenge, proof));
            let purpose = greeting::purpose(hello).filter(|_| proven);
            return Some(purpose.map_or(Step::Refused, Step::Admitted));
        }
        let answer = || {
            let hello = <[u8; HELLO]>::try_from(got.as_slice()).ok()?;
            greeting::purpose(&hello)?;
            let challenge = greeting::challenge(key, &hello, random().ok()?)?;
            Some(Stage::Proof { hello, challenge })
        };
        match answer() {
            Some(stage @ Stage::Proof { challenge, .. }) => {
                self.stage = stage;
                // A fresh connection has room for it.
                let sent = self.stream.write(&challenge).is_ok_and(|n| n == CHALLENGE);
                (!sent).then_some(Step::Refused)
            }
            _ => Some(Step::Refused),
        }
    }
}
