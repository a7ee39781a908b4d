//! A handshake: a connection on which the greeting is not over. Its size and time are bounded, and no thread waits for
//! it.
//!
//! ```text
//!  caller   Connecting ─▶ Challenged ─────▶ Judged ─▶ Outcome::Verdict
//!  called                 Helloed ─▶ Proven ─▶ Outcome::Request (the connection manager decides, sends the verdict)
//! ```
//! Messages have fixed lengths and no byte beyond them is read: what follows on the socket is the link's.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::greeting::{self, CHALLENGE, HELLO, Hello, KEY, PROOF, Purpose, VERDICT, Verdict};
use super::rail::Offer;
use super::socket;
use crate::sys;

/// What a handshake came to.
pub(super) enum Outcome {
    /// A caller that knows the key asks for what its hello says; these are the descriptors that came along.
    Request(Hello, Vec<OwnedFd>),
    /// The called has decided.
    Verdict(Verdict, Vec<OwnedFd>),
}

/// What is being waited for.
enum Step {
    Connecting,
    Challenged,
    Judged,
    Helloed,
    Proven([u8; HELLO], [u8; CHALLENGE]),
}

/// See the module.
pub(super) struct Handshake {
    pub(super) socket: OwnedFd,
    pub(super) until: Instant,
    /// Of a call: the peer, and what for.
    pub(super) called: Option<(u32, Purpose)>,
    /// The rail over which it goes on.
    pub(super) on: usize,
    /// Of a call for a link: what the called is shown when it has proven itself.
    pub(super) offer: Offer,
    step: Step,
    /// The called's key: of the peer for a caller, the own one otherwise.
    key: [u8; KEY],
    hello: [u8; HELLO],
    input: [u8; HELLO],
    got: usize,
    descriptors: Vec<OwnedFd>,
}

impl Handshake {
    /// A call that has been begun, over the rail `on`.
    pub(super) fn call(
        socket: OwnedFd,
        until: Instant,
        key: [u8; KEY],
        hello: &Hello,
        on: usize,
        offer: Offer,
    ) -> Handshake {
        Handshake {
            offer,
            called: Some((hello.to, hello.purpose)),
            on,
            ..Handshake::new(socket, until, key, hello.encode(), Step::Connecting)
        }
    }

    /// A caller has connected.
    pub(super) fn answer(socket: OwnedFd, until: Instant, key: [u8; KEY], on: usize) -> Handshake {
        Handshake { on, ..Handshake::new(socket, until, key, [0; HELLO], Step::Helloed) }
    }

    fn new(
        socket: OwnedFd,
        until: Instant,
        key: [u8; KEY],
        hello: [u8; HELLO],
        step: Step,
    ) -> Handshake {
        Handshake {
            socket,
            until,
            called: None,
            on: 0,
            offer: Offer::Nothing,
            step,
            key,
            hello,
            input: [0; HELLO],
            got: 0,
            descriptors: Vec::new(),
        }
    }

    /// Whether it waits until it can be written.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.step, Step::Connecting)
    }

    /// Goes on as far as it can.
    pub(super) fn go_on(&mut self) -> io::Result<Option<Outcome>> {
        if self.is_connecting() {
            socket::outcome(&self.socket)?;
            socket::send(&self.socket, &self.hello, &[])?;
            self.step = Step::Challenged;
        }
        loop {
            let (want, may_show) = match self.step {
                Step::Connecting => return Ok(None),
                Step::Helloed => (HELLO, false),
                Step::Challenged => (CHALLENGE, false),
                Step::Proven(..) => (PROOF, true),
                Step::Judged => (VERDICT, true),
            };
            while self.got < want {
                let room = &mut self.input[self.got..want];
                match socket::receive(&self.socket, room, &mut self.descriptors) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(got) => self.got += got,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            if !may_show && !self.descriptors.is_empty() {
                return Err(stranger());
            }
            self.got = 0;
            if let Some(done) = self.treat()? {
                return Ok(Some(done));
            }
        }
    }

    /// A message is complete.
    fn treat(&mut self) -> io::Result<Option<Outcome>> {
        match self.step {
            Step::Connecting => {}
            Step::Helloed => {
                let hello = self.input;
                Hello::decode(&hello).ok_or_else(stranger)?;
                let nonce = sys::random().map_err(io::Error::other)?;
                let challenge =
                    greeting::challenge(&self.key, &hello, nonce).ok_or_else(stranger)?;
                socket::send(&self.socket, &challenge, &[])?;
                self.step = Step::Proven(hello, challenge);
            }
            Step::Challenged => {
                let challenge: [u8; CHALLENGE] = self.message()?;
                let proof = greeting::answer(&self.key, &self.hello, &challenge)
                    .ok_or_else(|| io::Error::other("another process answered"))?;
                socket::send(&self.socket, &proof, &self.offer.descriptors())?;
                self.step = Step::Judged;
            }
            Step::Proven(hello, challenge) => {
                if !greeting::admits(&self.key, &hello, &challenge, &self.message()?) {
                    return Err(stranger());
                }
                let hello = Hello::decode(&hello).ok_or_else(stranger)?;
                return Ok(Some(Outcome::Request(hello, std::mem::take(&mut self.descriptors))));
            }
            Step::Judged => {
                let verdict = Verdict::decode(&self.message()?).ok_or_else(stranger)?;
                return Ok(Some(Outcome::Verdict(verdict, std::mem::take(&mut self.descriptors))));
            }
        }
        Ok(None)
    }

    fn message<const N: usize>(&self) -> io::Result<[u8; N]> {
        self.input.get(..N).and_then(|bytes| bytes.try_into().ok()).ok_or_else(stranger)
    }
}

fn stranger() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not of this session")
}
