//! Collective access, in two phases: ranks bring their data to aggregators, each of which writes a part of the file in long
//! rows; reads go the other way round.
//!
//! ```text
//!   what all access      ├────────── domain of aggregator 0 ──────────┼────────── domain of aggregator 1 ────────┤
//!   rounds               ├─ buffer ─┼─ buffer ─┼─ …                  ├─ buffer ─┼─ …
//! ```
//! In each round every rank tells every aggregator which bytes of the round it has, as strips, with the data if it writes.
//! The places of a view ascend with its data, so a round is a part of each rank's data.
//!
//! Ranks whose pieces are long, or lie apart from the others', access the file by themselves: all know the bounds of all,
//! or know that all views have long pieces, and then exchange nothing. So do ranks that all have the file's pages in memory:
//! a copy there is what an aggregator would do, without the messages. And where the pieces are few and far apart: the rounds
//! would go through what lies between them.
//!
//! # Errors
//! Of ranks that access the file by themselves each learns of its own part. In two phases a rank whose arguments are wrong
//! takes part without data; an aggregator that cannot write goes on without writing. At the end all learn who has failed, and
//! fail with it: a rank that is told that its data are written can rely on it. If a rank dies, the collectives of the group
//! fail at all others.
//!
//! An aggregator does not write what no rank has sent, not even with what was there.

use super::File;
use super::errors::{elsewhere, fault};
use super::exchange::{Exchange, Letters, Turn};
use super::hints::{Aggregate, Hints};
use super::map::Extent;
use super::mapped::are_close;
use super::strips::{Covered, Strips};
use super::transfer::{self, Buffer, Progress};
use super::view::View;
use crate::abi::*;
use crate::error::Fault;

/// Domains begin at multiples of it.
const PAGE: u64 = 4096;
/// A read of an aggregator goes on over gaps up to this length.
const GAP: u64 = 64 << 10;

/// A round in which only one of so many bytes is data is not worth its messages.
const THIN: u64 = 4096;

/// The part of a rank in a collective access.
pub(super) struct Part<'a> {
    pub(super) file: &'a File,
    pub(super) view: &'a View,
    pub(super) hints: Hints,
    pub(super) atomic: bool,
    pub(super) turn: Turn,
    pub(super) position: u64,
    pub(super) len: u64,
    pub(super) writes: bool,
}

/// What all know of the access.
struct Domains {
    begin: u64,
    end: u64,
    /// Bytes of each aggregator's.
    each: u64,
    aggregators: u64,
    buffer: u64,
    ranks: u64,
}

impl Domains {
    fn new(begin: u64, end: u64, ranks: u64, hints: &Hints) -> Domains {
        let base = begin / PAGE * PAGE;
        let most = if hints.aggregators == 0 { ranks } else { hints.aggregators.min(ranks) };
        let aggregators = most.min((end - base).div_ceil(PAGE)).max(1);
        let each = (end - base).div_ceil(aggregators).next_multiple_of(PAGE);
        let aggregators = (end - base).div_ceil(each);
        Domains {
            begin: base,
            end,
            each,
            aggregators,
            buffer: hints.buffer.next_multiple_of(PAGE),
            ranks,
        }
    }

    fn rounds(&self) -> u64 {
        self.each.div_ceil(self.buffer)
    }

    /// Whether the rounds would have next to nothing to do, with so many bytes of data.
    fn are_empty(&self, data: u64) -> bool {
        let rounds = self.rounds();
        rounds > 1 && data / (self.buffer / THIN) < rounds
    }

    /// The rank of an aggregator.
    fn rank(&self, aggregator: u64) -> usize {
        (aggregator * self.ranks / self.aggregators) as usize
    }

    /// The aggregator that a rank is.
    fn aggregator(&self, rank: u64) -> Option<u64> {
        (0..self.aggregators).find(|&aggregator| self.rank(aggregator) as u64 == rank)
    }

    /// The bytes of the file that an aggregator has in a round.
    fn bytes(&self, aggregator: u64, round: u64) -> (u64, u64) {
        let domain = self.begin + aggregator * self.each;
        let end = (domain + self.each).min(self.end);
        let begin = (domain + round * self.buffer).min(end);
        (begin, (begin + self.buffer).min(end))
    }
}

/// What a rank says of its part.
#[derive(Clone, Copy)]
struct Summary {
    class: u64,
    begin: u64,
    end: u64,
    len: u64,
    /// Its pieces are long.
    long: bool,
    ascends: bool,
    /// Scattered accesses of the rank go by the file's pages.
    maps: bool,
}

impl Summary {
    fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Accesses the file as all ranks do, with the bytes of the program; how many bytes.
///
/// # Errors
/// The fault of the arguments; another rank has failed, or has died.
pub(super) fn access(part: &Part<'_>, bytes: Result<Buffer<'_>, Fault>) -> Result<u64, Fault> {
    if part.view.long && part.hints.on(part.writes) == Aggregate::Automatic {
        return part.by_itself(bytes?);
    }
    let exchange = Exchange::new(&part.file.comm, part.turn)?;
    let (bytes, wrong) = match bytes {
        Ok(bytes) => (bytes, None),
        Err(fault) => (Buffer::none(part.writes), Some(fault)),
    };
    let own = part.summary(wrong.as_ref());
    let flags = u64::from(own.ascends) | u64::from(own.maps) << 1 | u64::from(own.long) << 2;
    let all = exchange.gather([own.class, own.begin, own.end, own.len, flags])?;
    let of = |&[class, begin, end, len, flags]: &[u64; 5]| Summary {
        class,
        begin,
        end,
        len,
        long: flags & 4 != 0,
        ascends: flags & 1 != 0,
        maps: flags & 2 != 0,
    };
    let all: Vec<Summary> = all.iter().map(of).collect();
    let hints = &part.hints;
    let bounds = aggregate(&all, part.writes, hints).filter(|_| !part.atomic);
    let domains = bounds.map(|(begin, end)| Domains::new(begin, end, all.len() as u64, hints));
    let sum = all.iter().map(|part| part.len).fold(0, u64::saturating_add);
    let done = match domains.filter(|domains| !domains.are_empty(sum)) {
        Some(domains) => {
            let (done, failed) = part.by_aggregators(&exchange, &domains, bytes)?;
            let classes =
                exchange.gather([failed.as_ref().map_or(0, |fault| fault.class as u64)])?;
            let other = classes.iter().position(|&[class]| class != 0);
            match (failed, other) {
                (Some(fault), _) => Err(fault),
                (None, Some(rank)) => {
                    Err(elsewhere("the collective access", rank, classes[rank][0]))
                }
                (None, None) => Ok(done),
            }
        }
        _ if wrong.is_some() => Ok(0),
        _ => part.by_itself(bytes),
    };
    match wrong {
        Some(fault) => Err(fault),
        None => done,
    }
}

/// The bytes that all ranks access, if it is worth to bring them to aggregators.
fn aggregate(all: &[Summary], writes: bool, hints: &Hints) -> Option<(u64, u64)> {
    if !all.iter().all(|part| part.ascends) {
        return None;
    }
    let parts = || all.iter().filter(|part| !part.is_empty());
    let begin = parts().map(|part| part.begin).min()?;
    let end = parts().map(|part| part.end).max()?;
    let apart = || parts().zip(parts().skip(1)).all(|(part, next)| part.end <= next.begin);
    let long = || parts().all(|part| part.long);
    // A rank by itself: the kernel's copy is cheaper than messages.
    let close = || parts().all(|part| are_close(part.len, part.begin, part.end));
    let maps = || all.iter().all(|part| part.maps);
    let worth = match hints.on(writes) {
        Aggregate::Never => false,
        Aggregate::Always => true,
        Aggregate::Automatic => !apart() && !long() && !(close() && (!writes || maps())),
    };
    worth.then_some((begin, end))
}

impl Part<'_> {
    /// The access of this rank's part, without the others.
    fn by_itself(&self, bytes: Buffer<'_>) -> Result<u64, Fault> {
        self.file.transfer(self.view, self.position, bytes, (self.hints.sieve, self.atomic))
    }

    fn summary(&self, wrong: Option<&Fault>) -> Summary {
        let ends = || {
            let last = self.position + self.len.checked_sub(1)?;
            let place = |position| Some(self.view.map.place(position)? + self.view.disp);
            Some((place(self.position)?, place(last)? + 1, self.len))
        };
        let (begin, end, len) = wrong.map_or_else(ends, |_| None).unwrap_or((0, 0, 0));
        Summary {
            class: wrong.map_or(0, |fault| fault.class as u64),
            begin,
            end,
            len,
            long: self.view.map.is_long(),
            // Where tiles interleave the last byte may lie before the first.
            ascends: self.view.map.ascends() || len == 0,
            maps: self.file.mapped.may(self.writes),
        }
    }

    /// The positions of this rank's data that an aggregator has in a round, as bytes of the access.
    fn of_round(&self, domains: &Domains, aggregator: u64, round: u64) -> (u64, u64) {
        let (begin, end) = domains.bytes(aggregator, round);
        let position =
            |place| self.view.position(place).clamp(self.position, self.position + self.len);
        (position(begin) - self.position, position(end) - self.position)
    }

    /// Both phases; what this rank's part has come to, and its fault as an aggregator.
    fn by_aggregators(
        &self,
        exchange: &Exchange<'_>,
        domains: &Domains,
        mut bytes: Buffer<'_>,
    ) -> Result<(u64, Option<Fault>), Fault> {
        let own = domains.aggregator(exchange.rank());
        let (len, mut buffer) = (bytes.len(), self.file.scratch());
        let (mut done, mut failed) = (0, None);
        for round in 0..domains.rounds() {
            let mut out = Letters::new(self.file.letters(), domains.ranks);
            for aggregator in 0..domains.aggregators {
                let (first, last) = self.of_round(domains, aggregator, round);
                let (first, last) = (first.min(len), last.min(len));
                if first == last {
                    continue;
                }
                let extents = self.view.extents(self.position + first, last - first);
                out.write(domains.rank(aggregator), |message| {
                    Strips::of(extents).encode(message);
                    if let Buffer::From(bytes) = bytes {
                        message.extend_from_slice(&bytes[first as usize..last as usize]);
                    }
                });
            }
            let came = self.exchange(exchange, out)?;
            let round_of = |aggregator| domains.bytes(aggregator, round);
            match &mut bytes {
                Buffer::From(_) => {
                    if let Some(place) = own.map(round_of) {
                        let written = self.write(place, &came, &mut buffer, failed.is_some());
                        failed = failed.or(written.err());
                    }
                }
                Buffer::Into(bytes) => {
                    let mut replies = Letters::new(self.file.letters(), domains.ranks);
                    if let Some(place) = own.map(round_of)
                        && let Err(fault) = self.read(place, &came, &mut buffer, &mut replies)
                    {
                        failed.get_or_insert(fault);
                    }
                    let replies = self.exchange(exchange, replies)?;
                    done += self.take(domains, round, &replies, bytes);
                    self.file.keep(replies.into_memory());
                }
            }
            self.file.keep(came.into_memory());
        }
        self.file.keep(buffer);
        Ok((if self.writes { len } else { done }, failed))
    }

    /// Exchanges messages, in memory that the file keeps from one time to the next.
    fn exchange(&self, exchange: &Exchange<'_>, out: Letters) -> Result<Letters, Fault> {
        let (came, memory) = exchange.exchange(out, self.file.scratch())?;
        self.file.keep_letters(memory);
        Ok(came)
    }

    /// Writes what has come for a round.
    fn write(
        &self,
        (begin, end): (u64, u64),
        came: &Letters,
        buffer: &mut Vec<u8>,
        only_check: bool,
    ) -> Result<(), Fault> {
        let span = (end - begin) as usize;
        if buffer.len() < span {
            buffer.resize(span, 0);
        }
        let mut covered = Covered::new(span);
        for message in came.each().filter(|message| !message.is_empty()) {
            let (strips, mut data) = Strips::decode(message, (begin, end)).ok_or_else(garbled)?;
            if data.len() as u64 != strips.len() {
                return Err(garbled());
            }
            for Extent { at, len } in strips.extents() {
                let (at, len) = ((at - begin) as usize, len as usize);
                buffer[at..at + len].copy_from_slice(&data[..len]);
                covered.add(at, len);
                data = &data[len..];
            }
        }
        if only_check {
            return Ok(());
        }
        for (at, to) in covered.rows(0) {
            let row = Extent { at: begin + at as u64, len: (to - at) as u64 };
            let Progress { error, .. } =
                transfer::write(&self.file.file, [row].into_iter(), &buffer[at..to]);
            if let Some(error) = error {
                return Err(fault(&self.file.says("writing"), &error));
            }
        }
        Ok(())
    }

    /// Reads what the ranks have asked for in a round: a reply to each, shorter where the file ends.
    fn read(
        &self,
        (begin, end): (u64, u64),
        came: &Letters,
        buffer: &mut Vec<u8>,
        replies: &mut Letters,
    ) -> Result<(), Fault> {
        let span = (end - begin) as usize;
        if buffer.len() < span {
            buffer.resize(span, 0);
        }
        let mut covered = Covered::new(span);
        let mut asked = Vec::new();
        for message in came.each() {
            let strips = match message.is_empty() {
                true => Strips::default(),
                false => Strips::decode(message, (begin, end)).ok_or_else(garbled)?.0,
            };
            for Extent { at, len } in strips.extents() {
                covered.add((at - begin) as usize, len as usize);
            }
            asked.push(strips);
        }
        let mut limit = end;
        for (at, to) in covered.rows(GAP as usize) {
            let row = Extent { at: begin + at as u64, len: (to - at) as u64 };
            let (bytes, error) = transfer::read_row(&self.file.file, row.at, &mut buffer[at..to]);
            if let Some(error) = error {
                return Err(fault(&self.file.says("reading"), &error));
            }
            if bytes < row.len {
                limit = row.at + bytes;
                break;
            }
        }
        for (rank, strips) in asked.iter().enumerate() {
            replies.write(rank, |reply| {
                for extent in strips.extents() {
                    let to = extent.end().min(limit);
                    if to > extent.at {
                        let (at, to) = ((extent.at - begin) as usize, (to - begin) as usize);
                        reply.extend_from_slice(&buffer[at..to]);
                    }
                    if to < extent.end() {
                        break;
                    }
                }
            });
        }
        Ok(())
    }

    /// Takes this rank's bytes out of the replies of a round; how many came before the end of the file.
    fn take(&self, domains: &Domains, round: u64, replies: &Letters, bytes: &mut [u8]) -> u64 {
        let mut done = 0;
        for (rank, reply) in replies.each().enumerate() {
            let Some(aggregator) = domains.aggregator(rank as u64) else { continue };
            let (first, last) = self.of_round(domains, aggregator, round);
            let (first, last) =
                ((first as usize).min(bytes.len()), (last as usize).min(bytes.len()));
            let len = reply.len().min(last - first);
            bytes[first..first + len].copy_from_slice(&reply[..len]);
            done += len as u64;
        }
        done
    }
}

#[cold]
fn garbled() -> Fault {
    Fault::new(MPI_ERR_INTERN, "a rank asks for bytes that the round does not have")
}
