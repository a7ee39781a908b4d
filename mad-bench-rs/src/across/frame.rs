//! What a proxy and a supervisor say to each other: frames, each four bytes of length and as many bytes of postcard.
//!
//! Pure: bytes in, frames out. A frame has [`FRAME_MAX`] bytes at the most, and nothing is reserved for one before
//! its bytes have come, so what a length claims costs nothing. What is no frame is an error, which ends the
//! connection.

use mad_launch::End;
use serde::{Deserialize, Serialize};

/// Most bytes of output in a frame.
pub(super) const OUTPUT_MAX: usize = 1 << 20;
/// Most bytes of a frame, all told. A worker's longest argument has 128 KiB: the kernel takes no longer one.
const FRAME_MAX: usize = OUTPUT_MAX + 64;
/// The length of a frame, ahead of it.
const HEAD: usize = 4;

/// What a supervisor is to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Assignment {
    /// The program's arguments.
    pub(super) args: Vec<String>,
    /// Variables that the job sets.
    pub(super) env: Vec<(String, String)>,
    /// Rank and size of the job.
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Which it is of those that share the cores, and how many do.
    pub(super) local: (u32, u32),
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Frame {
    /// To the supervisor, the first one: the worker to start.
    Start(Assignment),
    /// Both ways: bytes of the worker's PMI connection.
    Pmi(Vec<u8>),
    /// To the proxy: the worker has closed that.
    PmiClosed,
    /// To the supervisor: a signal for the worker.
    Signal(i32),
    /// To the proxy: what the worker has written to its standard output.
    Out(Vec<u8>),
    /// To the proxy: the same of its standard error.
    Err(Vec<u8>),
    /// To the proxy, the last one: how the worker has ended, and its process id.
    Ended(#[serde(with = "Ending")] End, u32),
    /// To the proxy, the last one: why there is no worker.
    Failed(String),
}

/// How a worker has ended, as postcard has it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "End")]
enum Ending {
    Code(i32),
    Signal(i32),
}

/// Why a connection is given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken(&'static str);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "what came on the connection makes no sense: {}", self.0)
    }
}

impl Frame {
    /// Its bytes.
    ///
    /// # Errors
    /// The frame is too long.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Broken> {
        let content = postcard::to_stdvec(self).map_err(|_| Broken("no frame"))?;
        if content.len() > FRAME_MAX {
            return Err(TOO_LONG);
        }
        Ok([&(content.len() as u32).to_le_bytes(), &content[..]].concat())
    }
}

const TOO_LONG: Broken = Broken("a frame is too long");

/// Bytes as they come, cut into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    held: Vec<u8>,
}

impl Frames {
    /// Takes bytes that have come. Frames are to be taken out before more are given.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next frame, if all of it has come.
    ///
    /// # Errors
    /// When the other side does not keep to the protocol.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        let Some((head, rest)) = self.held.split_at_checked(HEAD) else { return Ok(None) };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length > FRAME_MAX {
            return Err(TOO_LONG);
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        match postcard::take_from_bytes(content) {
            Ok((frame, [])) => {
                self.held.drain(..HEAD + length);
                Ok(Some(frame))
            }
            _ => Err(Broken("no such frame")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
        prop_oneof![
            any::<(Vec<String>, Vec<(String, String)>, u32, u32, (u32, u32))>().prop_map(
                |(args, env, rank, size, local)| {
                    Frame::Start(Assignment { args, env, rank, size, local })
                }
            ),
            bytes().prop_map(Frame::Pmi),
            Just(Frame::PmiClosed),
            any::<i32>().prop_map(Frame::Signal),
            bytes().prop_map(Frame::Out),
            bytes().prop_map(Frame::Err),
            any::<(i32, u32)>().prop_map(|(code, pid)| Frame::Ended(End::Code(code), pid)),
            any::<(i32, u32)>().prop_map(|(signal, pid)| Frame::Ended(End::Signal(signal), pid)),
            ".*".prop_map(Frame::Failed),
        ]
    }

    proptest! {
        #[test]
        fn frames_come_whole_however_they_are_cut(
            sent in proptest::collection::vec(frame(), 0..8),
            pieces in proptest::collection::vec(1usize..70, 1..20),
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(|frame| frame.encode().unwrap()).collect();
            let (mut frames, mut come, mut at) = (Frames::default(), Vec::new(), 0);
            for piece in pieces.iter().cycle() {
                let end = (at + piece).min(bytes.len());
                frames.feed(&bytes[at..end]);
                at = end;
                while let Some(frame) = frames.next().unwrap() {
                    come.push(frame);
                }
                if at == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!(come, sent);
        }

        #[test]
        fn hostile_bytes_never_panic_and_are_not_hoarded(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..40),
        ) {
            let mut frames = Frames::default();
            for piece in pieces {
                frames.feed(&piece);
                loop {
                    match frames.next() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                prop_assert!(frames.held.len() < HEAD + FRAME_MAX);
            }
        }
    }

    #[test]
    fn a_length_that_is_not_allowed_is_refused_before_anything_is_kept_for_it() {
        let mut frames = Frames::default();
        frames.feed(&[0xff, 0xff, 0xff, 0xff]);
        assert_eq!(frames.next(), Err(TOO_LONG));
        for nonsense in [&[99][..], &[6, 7, 0, 0], &[2, 0], &[0, 0xff, 0xff, 0xff, 0xff, 0x0f]] {
            let mut frames = Frames::default();
            frames.feed(&(nonsense.len() as u32).to_le_bytes());
            frames.feed(nonsense);
            assert!(frames.next().is_err(), "{nonsense:?}");
        }
        assert_eq!(Frame::Out(vec![0; 2 * OUTPUT_MAX]).encode(), Err(TOO_LONG));
        assert!(Frame::Out(vec![0; OUTPUT_MAX]).encode().is_ok());
    }
}
