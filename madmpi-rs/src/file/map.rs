//! Maps: from the data of a view to bytes of the file.
//!
//! ```text
//!   tile       0                1                2                 each `extent` bytes
//!   runs       ██··███····      ██··███····      ██··███····
//!   data       01  234          56  789          ...               position in the data, in bytes
//! ```
//! The file type is a tile; its runs are kept as strips with the number of data bytes before each. So the place of a
//! position, and the position of a place, are found by a division and a search. A strip is the innermost loop of a type: a map
//! of nested loops has as many as the outer ones have passes.

use super::errors::beyond;
use crate::abi::*;
use crate::datatype::Datatype;
use crate::error::Fault;

/// Pieces that are longer on average are worth a system call each.
const LONG: u64 = 64 << 10;

/// Bytes of the file in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Extent {
    pub(super) fn end(self) -> u64 {
        self.at + self.len
    }
}

/// `count` runs of `len` bytes, `stride` apart, after `before` bytes of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Strip {
    at: u64,
    count: u64,
    stride: u64,
    len: u64,
    before: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Map {
    strips: Box<[Strip]>,
    /// Bytes of data in a tile.
    size: u64,
    extent: u64,
    /// The end of the last run of a tile.
    end: u64,
    /// Each run begins at or after the end of the one before, so positions and places are in the same order.
    ascends: bool,
    runs: u64,
}

fn negative(at: i64) -> Fault {
    let why = "a file type has no data before its displacement";
    Fault::argument(MPI_ERR_ARG, "filetype", format_args!("with data at {at}"), why)
}

impl Map {
    /// The map of bytes in a row.
    pub(super) fn row() -> Map {
        Map::new([(0, 1, 0, 1)].into_iter(), 1).unwrap_or_else(|_| unreachable!("one byte at 0"))
    }

    /// The map of a file type, whose places and lengths in the file are `numerator / denominator` of those in memory.
    ///
    /// # Errors
    /// The type has data at negative places, or places that decrease.
    pub(super) fn of(
        filetype: &Datatype,
        (numerator, denominator): (u64, u64),
    ) -> Result<Map, Fault> {
        let scale = |bytes: isize| bytes as i64 / denominator as i64 * numerator as i64;
        let mut strips = Vec::new();
        filetype.shape().part.flat.strips(1, 0, usize::MAX, |strip| {
            let (at, stride) = (scale(strip.at), scale(strip.stride));
            strips.push((at, strip.count as u64, stride, scale(strip.len as isize) as u64));
        });
        Map::new(strips.into_iter(), scale(filetype.extent))
    }

    fn new(strips: impl Iterator<Item = (i64, u64, i64, u64)>, extent: i64) -> Result<Map, Fault> {
        let (mut size, mut runs, mut begin, mut end, mut ascends) = (0, 0, 0, 0, true);
        let mut all = Vec::new();
        for (at, count, stride, len) in strips.filter(|&(_, count, _, len)| count > 0 && len > 0) {
            let stride = if count == 1 { len as i64 } else { stride };
            if at < 0 {
                return Err(negative(at));
            }
            let (at, first) = (at as u64, runs == 0);
            if stride < 0 || !first && at < begin {
                let why = "the places of its data must not decrease";
                return Err(Fault::argument(MPI_ERR_ARG, "filetype", "unordered", why));
            }
            let stride = stride as u64;
            ascends &= stride >= len && (first || at >= end);
            begin = at + (count - 1) * stride;
            end = end.max(begin + len);
            match all.last_mut() {
                // A run that touches the last one.
                Some(Strip { at: last, count: 1, stride: apart, len: long, .. })
                    if count == 1 && *last + *long == at =>
                {
                    *long += len;
                    *apart += len;
                }
                _ => {
                    all.push(Strip { at, count, stride, len, before: size });
                    runs += count;
                }
            }
            size += count * len;
        }
        let first = all.first().map_or(0, |strip| strip.at);
        let extent = u64::try_from(extent).map_err(|_| negative(extent))?;
        ascends &= end - first <= extent;
        Ok(Map { strips: all.into(), size, extent, end, ascends, runs })
    }

    /// Bytes of data in a tile.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn ascends(&self) -> bool {
        self.ascends
    }

    /// The average length of a run of bytes.
    pub(super) fn piece(&self) -> u64 {
        if self.is_row() { u64::MAX } else { self.size / self.runs.max(1) }
    }

    /// Whether pieces are worth a system call each.
    pub(super) fn is_long(&self) -> bool {
        self.piece() >= LONG
    }

    /// Whether all data lie in a row.
    fn is_row(&self) -> bool {
        self.runs == 1 && self.size == self.extent
    }

    /// Checks that `len` bytes of data from a position on lie where a file can have bytes.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn check(&self, disp: u64, position: u64, len: u64) -> Result<(), Fault> {
        if len == 0 {
            return Ok(());
        }
        if self.size == 0 {
            let why = "the file type of the view has no data";
            return Err(Fault::argument(MPI_ERR_ARG, "count", "not 0", why));
        }
        let last = position.checked_add(len - 1).map(|last| last / self.size);
        let end = last
            .and_then(|tile| tile.checked_mul(self.extent))
            .and_then(|at| at.checked_add(disp)?.checked_add(self.end));
        match end {
            Some(end) if end <= i64::MAX as u64 => Ok(()),
            _ => Err(beyond()),
        }
    }

    /// The bytes of the file that hold `len` bytes of data from a position on, in the order of the data; what touches is
    /// joined. They passed [`Map::check`].
    pub(super) fn extents(&self, disp: u64, position: u64, len: u64) -> Extents<'_> {
        if len == 0 || self.size == 0 {
            return Extents {
                map: self,
                tile: 0,
                strip: 0,
                index: 0,
                within: 0,
                left: 0,
                next: None,
            };
        }
        if self.is_row() {
            let at = disp + self.strips[0].at + position;
            let next = Some(Extent { at, len });
            return Extents { map: self, tile: 0, strip: 0, index: 0, within: 0, left: 0, next };
        }
        let (tile, rest) = (position / self.size, position % self.size);
        let strip = self.strips.partition_point(|strip| strip.before <= rest) - 1;
        let Strip { before, len: run, .. } = self.strips[strip];
        let (index, within) = ((rest - before) / run, (rest - before) % run);
        let tile = disp + tile * self.extent;
        let mut extents = Extents { map: self, tile, strip, index, within, left: len, next: None };
        extents.next = extents.step();
        extents
    }

    /// The place of a position, as bytes from the displacement on. The map has data.
    pub(super) fn place(&self, position: u64) -> Option<u64> {
        let rest = position.checked_rem(self.size)?;
        let strip = self.strips[self.strips.partition_point(|strip| strip.before <= rest) - 1];
        let (index, within) =
            ((rest - strip.before) / strip.len, (rest - strip.before) % strip.len);
        let tile = (position / self.size).checked_mul(self.extent)?;
        tile.checked_add(strip.at + index * strip.stride + within)
    }

    /// Bytes of data before a place, which is in bytes from the displacement on.
    pub(super) fn position(&self, place: u64) -> u64 {
        let Some(first) = self.strips.first() else { return 0 };
        let Some(after) = place.checked_sub(first.at) else { return 0 };
        let tile = after.checked_div(self.extent).unwrap_or(0);
        let place = place - tile * self.extent;
        let strip = self.strips.partition_point(|strip| strip.at < place);
        let Some(strip) = strip.checked_sub(1).map(|strip| self.strips[strip]) else {
            return tile * self.size;
        };
        let rest = place - strip.at;
        let whole =
            rest.checked_div(strip.stride).map_or(strip.count, |runs| runs.min(strip.count));
        let part =
            if whole < strip.count { (rest - whole * strip.stride).min(strip.len) } else { 0 };
        tile * self.size + strip.before + whole * strip.len + part
    }
}

/// See [`Map::extents`].
#[derive(Clone)]
pub(super) struct Extents<'a> {
    map: &'a Map,
    /// Where the tile begins.
    tile: u64,
    strip: usize,
    index: u64,
    /// Bytes of the run that are done.
    within: u64,
    left: u64,
    next: Option<Extent>,
}

impl Extents<'_> {
    /// The next run, or what is left of it.
    #[inline]
    fn step(&mut self) -> Option<Extent> {
        if self.left == 0 {
            return None;
        }
        let strip = &self.map.strips[self.strip];
        let at = self.tile + strip.at + self.index * strip.stride + self.within;
        let len = (strip.len - self.within).min(self.left);
        self.left -= len;
        self.within = 0;
        self.index += 1;
        if self.index == strip.count {
            self.index = 0;
            self.strip += 1;
            if self.strip == self.map.strips.len() {
                self.strip = 0;
                self.tile += self.map.extent;
            }
        }
        Some(Extent { at, len })
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        let mut extent = self.next?;
        loop {
            self.next = self.step();
            match self.next {
                Some(next) if next.at == extent.end() => extent.len += next.len,
                _ => return Some(extent),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every byte of the data by its place, the slow way.
    fn places(runs: &[(u64, u64)], extent: u64, disp: u64, count: usize) -> Vec<u64> {
        let tile = |tile: u64| {
            runs.iter().flat_map(move |&(at, len)| {
                (0..len).map(move |byte| disp + tile * extent + at + byte)
            })
        };
        (0..).flat_map(tile).take(count).collect()
    }

    fn bytes(extents: impl Iterator<Item = Extent>) -> Vec<u64> {
        extents.flat_map(|extent| extent.at..extent.end()).collect()
    }

    proptest! {
        #[test]
        fn extents_and_positions_are_those_of_an_oracle(
            strips in proptest::collection::vec((0..6u64, 1..5u64, 0..4u64, 1..5u64), 1..6),
            pad in 0..9u64,
            disp in 0..50u64,
            position in 0..200u64,
            len in 0..200u64,
        ) {
            // Gaps before strips and between runs, in order.
            let (mut at, mut all, mut runs) = (0, Vec::new(), Vec::new());
            for (gap, count, between, run) in strips {
                let stride = run + between;
                at += gap;
                all.push((at as i64, count, stride as i64, run));
                runs.extend((0..count).map(|index| (at + index * stride, run)));
                at += (count - 1) * stride + run;
            }
            let extent = at - runs[0].0 + pad;
            let map = Map::new(all.into_iter(), extent as i64).ok().unwrap();
            prop_assert!(map.ascends());
            let oracle = places(&runs, extent, disp, (position + len) as usize + 1);
            let found: Vec<Extent> = map.extents(disp, position, len).collect();
            prop_assert_eq!(bytes(found.iter().copied()), &oracle[position as usize..(position + len) as usize]);
            // What touches is joined.
            prop_assert!(found.windows(2).all(|pair| pair[0].end() < pair[1].at));
            prop_assert_eq!(map.place(position).unwrap() + disp, oracle[position as usize]);
            for place in 0..=oracle[position as usize] - disp {
                let before = oracle.iter().filter(|&&byte| byte - disp < place).count() as u64;
                prop_assert_eq!(map.position(place), before);
            }
        }

        #[test]
        fn runs_that_overlap_are_found_too(
            runs in proptest::collection::vec((0..20i64, 1..6u64), 1..6),
            extent in 1..40i64,
            position in 0..60u64,
            len in 0..60u64,
        ) {
            let mut runs = runs;
            runs.sort_unstable();
            let map = Map::new(runs.iter().map(|&(at, len)| (at, 1, 0, len)), extent).ok().unwrap();
            let plain: Vec<(u64, u64)> = runs.iter().map(|&(at, len)| (at as u64, len)).collect();
            let oracle = places(&plain, extent as u64, 7, (position + len) as usize);
            prop_assert_eq!(bytes(map.extents(7, position, len)), &oracle[position as usize..]);
        }
    }

    #[test]
    fn places_that_are_no_file_types_are_refused() {
        assert!(Map::new([(-1, 1, 0, 4)].into_iter(), 8).is_err());
        assert!(Map::new([(8, 1, 0, 4), (0, 1, 0, 4)].into_iter(), 16).is_err());
        assert!(Map::new([(8, 2, -8, 4)].into_iter(), 16).is_err());
        let row = Map::row();
        assert!(row.check(0, i64::MAX as u64 - 1, 1).is_ok());
        assert!(row.check(1, i64::MAX as u64 - 1, 1).is_err());
        assert!(row.check(0, u64::MAX, 1).is_err());
        assert!(Map::new([].into_iter(), 4).ok().unwrap().check(0, 0, 1).is_err());
    }
}
