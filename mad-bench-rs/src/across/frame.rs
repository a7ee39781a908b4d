//! What a proxy and a supervisor say to each other: frames, each a byte of kind, four bytes of length, and as many bytes.
//!
//! Pure: bytes in, frames out. A frame has [`LONGEST`] bytes at the most, and nothing is reserved for one before its bytes have
//! come, so what a length claims costs nothing. Unknown kinds and impossible contents are an error, which ends the connection.

use mad_launch::End;

/// Most bytes of a frame's content. The longest is a worker's argument, of which the kernel takes 128 KiB.
pub(super) const LONGEST: usize = 1 << 20;
/// Kind and length.
const HEAD: usize = 5;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// To the supervisor: the worker to start (an [`Assignment`](super::supervisor::Assignment)).
    Start(Vec<u8>),
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
    Ended(End, u32),
    /// To the proxy, the last one: why there is no worker.
    Failed(String),
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
    /// Its bytes. Contents that are longer than [`LONGEST`] are cut.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, content) = match self {
            Frame::Start(assignment) => (1, assignment.clone()),
            Frame::Pmi(bytes) => (2, bytes.clone()),
            Frame::PmiClosed => (3, Vec::new()),
            Frame::Signal(number) => (4, number.to_le_bytes().to_vec()),
            Frame::Out(bytes) => (5, bytes.clone()),
            Frame::Err(bytes) => (6, bytes.clone()),
            Frame::Ended(end, pid) => {
                let (how, number) = match end {
                    End::Code(code) => (0, code),
                    End::Signal(signal) => (1, signal),
                };
                let mut content = vec![how];
                content.extend(number.to_le_bytes());
                content.extend(pid.to_le_bytes());
                (7, content)
            }
            Frame::Failed(why) => (8, why.clone().into_bytes()),
        };
        let content = &content[..content.len().min(LONGEST)];
        let mut bytes = vec![kind];
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    fn decode(kind: u8, content: &[u8]) -> Result<Frame, Broken> {
        let word = |at: usize| -> Option<[u8; 4]> { content.get(at..at + 4)?.try_into().ok() };
        let frame = match (kind, content.len()) {
            (1, _) => Some(Frame::Start(content.to_vec())),
            (2, _) => Some(Frame::Pmi(content.to_vec())),
            (3, 0) => Some(Frame::PmiClosed),
            (4, 4) => word(0).map(|number| Frame::Signal(i32::from_le_bytes(number))),
            (5, _) => Some(Frame::Out(content.to_vec())),
            (6, _) => Some(Frame::Err(content.to_vec())),
            (7, 9) => word(1).zip(word(5)).and_then(|(number, pid)| {
                let number = i32::from_le_bytes(number);
                let end = match content[0] {
                    0 => End::Code(number),
                    1 => End::Signal(number),
                    _ => return None,
                };
                Some(Frame::Ended(end, u32::from_le_bytes(pid)))
            }),
            (8, _) => Some(Frame::Failed(String::from_utf8_lossy(content).into_owned())),
            _ => None,
        };
        frame.ok_or(Broken("no such frame"))
    }
}

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
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > LONGEST {
            return Err(Broken("a frame is too long"));
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let frame = Frame::decode(head[0], content)?;
        self.held.drain(..HEAD + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
        prop_oneof![
            bytes().prop_map(Frame::Start),
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
            let bytes: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
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
                prop_assert!(frames.held.len() < HEAD + LONGEST);
            }
        }
    }

    #[test]
    fn a_length_that_is_not_allowed_is_refused_before_anything_is_kept_for_it() {
        let mut frames = Frames::default();
        frames.feed(&[5, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(frames.next(), Err(Broken("a frame is too long")));
        let mut frames = Frames::default();
        frames.feed(&[99, 0, 0, 0, 0]);
        assert!(frames.next().is_err());
        let mut frames = Frames::default();
        frames.feed(&[7, 9, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(frames.next().is_err(), "neither a code nor a signal");
    }
}
