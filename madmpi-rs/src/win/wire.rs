//! The requests of windows that are reached by messages.
//!
//! ```text
//!   kind, row: u8 │ runs: u16 │ operator: u32 │ number: u64 │ length: u64 │ the runs, 32 bytes each │ data
//! ```
//! All numbers are the machine's own. Addresses are the target's, which checks them.

use super::layout::{Piece, Run};

/// Internal tags of a window's communicator: requests, locks that are given back, epochs of groups.
pub(super) const REQUEST: u32 = 2;
pub(super) const RELEASE: u32 = 3;
pub(super) const POST: u32 = 4;
pub(super) const COMPLETE: u32 = 5;
/// Internal tags plus the number of a request: data of a long put, replies.
pub(super) const DATA: u32 = 1 << 27;
pub(super) const REPLY: u32 = 1 << 28;

/// Most runs of a request.
pub(super) const RUNS: usize = 64;
/// Most bytes of data in a request. Longer data have a message of their own, or several requests.
pub(super) const BYTES: usize = 16 * 1024;
const HEAD: usize = 24;
const RUN: usize = 32;
/// Bytes of the longest request: an accumulation may need some runs more, to its last element's end.
pub(super) const LONGEST: usize = HEAD + (RUNS + 64) * RUN + BYTES;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The data are in the request.
    Put,
    /// The data come in a message of their own.
    PutLong,
    Get,
    Accumulate,
    /// As `Accumulate`; the reply is what was there.
    Fetch,
    /// The data are what is compared, and what is put there then.
    Swap,
    /// The reply comes when all earlier requests of the same origin are done: a status.
    Flush,
    /// The reply comes when the origin holds the lock: a status. The operator says whether for itself.
    Lock,
    /// The window's own process ends its service.
    Stop,
}

const KINDS: [Kind; 9] = [
    Kind::Put,
    Kind::PutLong,
    Kind::Get,
    Kind::Accumulate,
    Kind::Fetch,
    Kind::Swap,
    Kind::Flush,
    Kind::Lock,
    Kind::Stop,
];

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) kind: Kind,
    /// The kind of basic element.
    pub(super) row: u8,
    pub(super) operator: u32,
    /// Names the messages that belong to it.
    pub(super) number: u32,
    /// Bytes at the target.
    pub(super) len: usize,
    pub(super) runs: Vec<Run>,
    pub(super) data: &'a [u8],
}

impl<'a> Request<'a> {
    pub(super) fn bare(kind: Kind, number: u32) -> Request<'a> {
        Request { kind, row: 0, operator: 0, number, len: 0, runs: Vec::new(), data: &[] }
    }

    pub(super) fn of(kind: Kind, number: u32, piece: Piece, data: &'a [u8]) -> Request<'a> {
        Request { len: piece.len, runs: piece.runs, data, ..Request::bare(kind, number) }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.runs.len() * RUN + self.data.len());
        bytes.extend([self.kind as u8, self.row]);
        bytes.extend((self.runs.len() as u16).to_ne_bytes());
        bytes.extend(self.operator.to_ne_bytes());
        bytes.extend(u64::from(self.number).to_ne_bytes());
        bytes.extend(self.len.to_ne_bytes());
        for run in &self.runs {
            for number in [run.at, run.stride as usize, run.count, run.len] {
                bytes.extend(number.to_ne_bytes());
            }
        }
        bytes.extend(self.data);
        bytes
    }

    /// `None`: it is no request.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Request<'a>> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let word = |at: usize| head[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
        let kind = *KINDS.get(usize::from(head[0]))?;
        let count = usize::from(u16::from_ne_bytes([head[2], head[3]]));
        let (runs, data) = rest.split_at_checked(count * RUN)?;
        let runs = runs.chunks_exact(RUN).map(|run| {
            let number =
                |index: usize| run[index * 8..][..8].try_into().map_or(0, usize::from_ne_bytes);
            Run { at: number(0), stride: number(1) as isize, count: number(2), len: number(3) }
        });
        let runs: Vec<Run> = runs.collect();
        let len = word(16) as usize;
        let mut sum = 0usize;
        for run in &runs {
            // A run without bytes would be walked through for nothing.
            sum = sum.checked_add(run.count.checked_mul(run.len).filter(|&bytes| bytes > 0)?)?;
        }
        let carried = match kind {
            Kind::Put | Kind::Accumulate | Kind::Fetch => len,
            Kind::Swap => len.checked_mul(2)?,
            _ => 0,
        };
        if sum != len || data.len() != carried {
            return None;
        }
        let operator = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        let number = u32::try_from(word(8)).ok()?;
        Some(Request { kind, row: head[1], operator, number, len, runs, data })
    }
}

/// For `fuzz/`: what is taken for a request is encoded as it came.
#[cfg(any(test, fuzzing))]
pub(crate) fn parse(bytes: &[u8]) {
    if let Some(request) = Request::decode(bytes) {
        assert_eq!(request.encode(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }

        #[test]
        fn requests_arrive_as_they_were_sent(
            kind in 0..KINDS.len(),
            row in any::<u8>(),
            operator in any::<u32>(),
            number in any::<u32>(),
            runs in proptest::collection::vec((any::<usize>(), any::<isize>(), 1..9usize, 1..40usize), 0..9),
        ) {
            let kind = KINDS[kind];
            let runs: Vec<Run> =
                runs.into_iter().map(|(at, stride, count, len)| Run { at, stride, count, len }).collect();
            let len: usize = runs.iter().map(|run| run.count * run.len).sum();
            let data = vec![7; match kind {
                Kind::Put | Kind::Accumulate | Kind::Fetch => len,
                Kind::Swap => 2 * len,
                _ => 0,
            }];
            let request = Request { kind, row, operator, number, len, runs, data: &data };
            let bytes = request.encode();
            prop_assert_eq!(Request::decode(&bytes), Some(request));
            prop_assert_eq!(Request::decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}
