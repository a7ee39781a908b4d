//! The messages of windows that are reached by them.
//!
//! ```text
//!   number of the answers: u64 │ request │ request │ ...
//!
//!   a request:
//!   kind, row: u8 │ runs: u16 │ operator: u32 │ number: u64 │ length: u64 │ the runs, 32 bytes each │ data
//!
//!   the answers:
//!   class: u32 │ data │ class │ data │ ...        in the order of those requests whose answer is short; an access that fails has zeros
//! ```
//! All numbers are the machine's own. Addresses are the target's, which checks them.

use core::ffi::c_int;

use smallvec::smallvec;

use super::layout::{Piece, Run, Runs};

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
/// Puts up to this length are in the request; answers up to this length come with others.
pub(super) const SHORT: usize = 4096;
/// Bytes of the class in an answer.
pub(super) const CLASS: usize = size_of::<c_int>();
/// Bytes before the requests of a message.
const NUMBER: usize = 8;
/// Bytes of the longest message: an accumulation may need some runs more, to its last element's end.
pub(super) const LONGEST: usize = NUMBER + HEAD + (RUNS + 64) * RUN + BYTES;

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

impl Kind {
    /// Whether the target answers.
    pub(super) fn has_reply(self) -> bool {
        matches!(self, Kind::Get | Kind::Fetch | Kind::Swap | Kind::Flush | Kind::Lock)
    }

    /// Bytes of data in a request for so many at the target. `None`: more than memory has.
    fn carried(self, len: usize) -> Option<usize> {
        match self {
            Kind::Put | Kind::Accumulate | Kind::Fetch => Some(len),
            Kind::Swap => len.checked_mul(2),
            _ => Some(0),
        }
    }
}

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
    pub(super) runs: Runs,
    pub(super) data: &'a [u8],
}

impl<'a> Request<'a> {
    #[inline]
    pub(super) fn bare(kind: Kind, number: u32) -> Request<'a> {
        Request { kind, row: 0, operator: 0, number, len: 0, runs: Runs::new(), data: &[] }
    }

    /// Of bytes in a row, without a number.
    #[inline]
    pub(super) fn row(kind: Kind, at: usize, data: &'a [u8]) -> Request<'a> {
        let runs = smallvec![Run::whole(at, data.len())];
        Request { len: data.len(), runs, data, ..Request::bare(kind, 0) }
    }

    pub(super) fn of(kind: Kind, number: u32, piece: Piece, data: &'a [u8]) -> Request<'a> {
        Request { len: piece.len, runs: piece.runs, data, ..Request::bare(kind, number) }
    }

    /// Bytes that it takes in a message.
    pub(super) fn room(&self) -> usize {
        HEAD + self.runs.len() * RUN + self.data.len()
    }

    /// A message of this request alone, to which there is no answer.
    pub(super) fn alone(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        self.append_to(&mut bytes);
        bytes
    }

    /// Whether its answer comes with others.
    pub(super) fn has_short_answer(&self) -> bool {
        match self.kind {
            Kind::Get | Kind::Fetch | Kind::Swap => self.len <= SHORT,
            Kind::Flush => true,
            _ => false,
        }
    }

    #[inline]
    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.room());
        let mut head = [0; HEAD];
        (head[0], head[1]) = (self.kind as u8, self.row);
        head[2..4].copy_from_slice(&(self.runs.len() as u16).to_ne_bytes());
        head[4..8].copy_from_slice(&self.operator.to_ne_bytes());
        head[8..16].copy_from_slice(&u64::from(self.number).to_ne_bytes());
        head[16..].copy_from_slice(&self.len.to_ne_bytes());
        bytes.extend_from_slice(&head);
        for run in &self.runs {
            let mut numbers = [0; RUN];
            let places = numbers.chunks_exact_mut(8);
            for (place, number) in places.zip([run.at, run.stride as usize, run.count, run.len]) {
                place.copy_from_slice(&number.to_ne_bytes());
            }
            bytes.extend_from_slice(&numbers);
        }
        bytes.extend_from_slice(self.data);
    }

    /// The first request of a message, and what follows it. `None`: it is no request.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<(Request<'a>, &'a [u8])> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let word = |at: usize| head[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
        let kind = *KINDS.get(usize::from(head[0]))?;
        let count = usize::from(u16::from_ne_bytes([head[2], head[3]]));
        let (runs, rest) = rest.split_at_checked(count * RUN)?;
        let runs = runs.chunks_exact(RUN).map(|run| {
            let number =
                |index: usize| run[index * 8..][..8].try_into().map_or(0, usize::from_ne_bytes);
            Run { at: number(0), stride: number(1) as isize, count: number(2), len: number(3) }
        });
        let runs: Runs = runs.collect();
        let len = word(16) as usize;
        let mut sum = 0usize;
        for run in &runs {
            // A run without bytes would be walked through for nothing.
            sum = sum.checked_add(run.count.checked_mul(run.len).filter(|&bytes| bytes > 0)?)?;
        }
        if sum != len {
            return None;
        }
        let (data, rest) = rest.split_at_checked(kind.carried(len)?)?;
        let operator = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        let number = u32::try_from(word(8)).ok()?;
        Some((Request { kind, row: head[1], operator, number, len, runs, data }, rest))
    }
}

/// Begins a message, of no requests yet.
pub(super) fn begin(message: &mut Vec<u8>) {
    message.extend_from_slice(&[0; NUMBER]);
}

/// Names the answers to a message.
pub(super) fn set_number(message: &mut [u8], number: u32) {
    message[..NUMBER].copy_from_slice(&u64::from(number).to_ne_bytes());
}

/// The number of a message's answers, and its requests. `None`: it is no message.
pub(super) fn split(message: &[u8]) -> Option<(u32, &[u8])> {
    let (number, requests) = message.split_first_chunk()?;
    Some((u32::try_from(u64::from_ne_bytes(*number)).ok()?, requests))
}

/// The next of several answers, of `len` bytes: its class and data. `None`: they are shorter.
pub(super) fn answer<'a>(bytes: &mut &'a [u8], len: usize) -> Option<(c_int, &'a [u8])> {
    let (class, rest) = bytes.split_first_chunk()?;
    let (data, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some((c_int::from_ne_bytes(*class), data))
}

/// For `fuzz/`: what is taken for requests is encoded as it came.
#[cfg(any(test, fuzzing))]
pub(crate) fn parse(message: &[u8]) {
    let Some((_, mut bytes)) = split(message) else { return };
    while let Some((request, rest)) = Request::decode(bytes) {
        let mut again = Vec::new();
        request.append_to(&mut again);
        assert_eq!(again, bytes[..bytes.len() - rest.len()]);
        bytes = rest;
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
            let runs: Runs =
                runs.into_iter().map(|(at, stride, count, len)| Run { at, stride, count, len }).collect();
            let len: usize = runs.iter().map(|run| run.count * run.len).sum();
            let data = vec![7; kind.carried(len).unwrap_or(0)];
            let request = Request { kind, row, operator, number, len, runs, data: &data };
            let mut bytes = request.alone();
            prop_assert_eq!(bytes.len(), NUMBER + request.room());
            prop_assert_eq!(Request::decode(&bytes[NUMBER..bytes.len() - 1]), None);
            set_number(&mut bytes, 7);
            let next = Request::bare(Kind::Flush, 3);
            next.append_to(&mut bytes);
            let split = split(&bytes);
            prop_assert_eq!(split.map(|(number, _)| number), Some(7));
            let decoded = split.and_then(|(_, requests)| Request::decode(requests));
            let Some((first, rest)) = decoded else { return Err(TestCaseError::fail("no request")) };
            prop_assert_eq!(first, request);
            prop_assert_eq!(Request::decode(rest), Some((next, &[][..])));
        }
    }
}
