//! Lists of extents as messages, and which bytes a list of extents covers.

use super::map::Extent;

/// `count` extents of `len` bytes, `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Strip {
    at: u64,
    count: u64,
    stride: u64,
    len: u64,
}

/// Extents, of which regular ones are said together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Strips(Vec<Strip>);

/// Bytes of a strip in a message.
const STRIP: usize = 32;

impl Strips {
    pub(super) fn of(extents: impl Iterator<Item = Extent>) -> Strips {
        let mut strips: Vec<Strip> = Vec::new();
        for Extent { at, len } in extents {
            match strips.last_mut() {
                Some(last) if last.len == len && last.count == 1 && at > last.at => {
                    (last.count, last.stride) = (2, at - last.at);
                }
                Some(last) if last.len == len && at == last.at + last.count * last.stride => {
                    last.count += 1;
                }
                _ => strips.push(Strip { at, count: 1, stride: 0, len }),
            }
        }
        Strips(strips)
    }

    /// Bytes of all extents.
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|strip| strip.count * strip.len).sum()
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> {
        self.0.iter().flat_map(|strip| {
            (0..strip.count)
                .map(|index| Extent { at: strip.at + index * strip.stride, len: strip.len })
        })
    }

    /// Appends them to a message.
    pub(super) fn encode(&self, message: &mut Vec<u8>) {
        message.extend((self.0.len() as u64).to_ne_bytes());
        for strip in &self.0 {
            for word in [strip.at, strip.count, strip.stride, strip.len] {
                message.extend(word.to_ne_bytes());
            }
        }
    }

    /// The strips at the beginning of a message, and the rest of it. `None`: there are none, or they have bytes outside of
    /// the range, or more than it has together.
    pub(super) fn decode(message: &[u8], (begin, end): (u64, u64)) -> Option<(Strips, &[u8])> {
        let (count, rest) = message.split_at_checked(8)?;
        let count = usize::try_from(u64::from_ne_bytes(count.try_into().ok()?)).ok()?;
        let (strips, rest) = rest.split_at_checked(count.checked_mul(STRIP)?)?;
        let mut sum = 0u64;
        let mut all = Vec::with_capacity(count);
        for bytes in strips.chunks_exact(STRIP) {
            let word =
                |index: usize| bytes[index * 8..][..8].try_into().map_or(0, u64::from_ne_bytes);
            let strip = Strip { at: word(0), count: word(1), stride: word(2), len: word(3) };
            let last =
                strip.count.checked_sub(1)?.checked_mul(strip.stride)?.checked_add(strip.at)?;
            if strip.at < begin || strip.len == 0 || last.checked_add(strip.len)? > end {
                return None;
            }
            sum = sum.checked_add(strip.count.checked_mul(strip.len)?)?;
            all.push(strip);
        }
        (sum <= end - begin).then_some((Strips(all), rest))
    }
}

/// Which bytes of a buffer extents cover.
pub(super) struct Covered {
    words: Vec<u64>,
    len: usize,
}

impl Covered {
    pub(super) fn new(len: usize) -> Covered {
        Covered { words: vec![0; len.div_ceil(64)], len }
    }

    pub(super) fn add(&mut self, at: usize, len: usize) {
        let (mut at, end) = (at, (at + len).min(self.len));
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let bits = (64 - bit).min(end - at);
            self.words[word] |= (u64::MAX >> (64 - bits)) << bit;
            at += bits;
        }
    }

    /// The next byte from `at` on that is covered, or is not.
    fn next(&self, at: usize, covered: bool) -> usize {
        let flip = if covered { 0 } else { u64::MAX };
        let (mut word, bit) = (at / 64, at % 64);
        let mut bits = match self.words.get(word) {
            Some(bits) => (bits ^ flip) >> bit << bit,
            None => return self.len,
        };
        while bits == 0 {
            word += 1;
            match self.words.get(word) {
                Some(next) => bits = next ^ flip,
                None => return self.len,
            }
        }
        (word * 64 + bits.trailing_zeros() as usize).min(self.len)
    }

    /// The rows of covered bytes: where each begins and ends. Gaps up to `gap` belong to them.
    pub(super) fn rows(&self, gap: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let begin = self.next(at, true);
            if begin >= self.len {
                return None;
            }
            let mut end = self.next(begin, false);
            loop {
                at = self.next(end, true);
                if at >= self.len || at - end > gap {
                    return Some((begin, end));
                }
                end = self.next(at, false);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents() -> impl Strategy<Value = Vec<Extent>> {
        proptest::collection::vec((0..40u64, 1..40u64, 1..5usize), 0..12).prop_map(|runs| {
            let (mut at, mut extents) = (100, Vec::new());
            for (gap, len, times) in runs {
                for _ in 0..times {
                    extents.push(Extent { at: at + gap, len });
                    at += gap + len;
                }
            }
            extents
        })
    }

    proptest! {
        #[test]
        fn extents_arrive_as_they_were_sent(extents in extents(), rest in any::<[u8; 3]>()) {
            let end = extents.last().map_or(100, |last| last.end());
            let strips = Strips::of(extents.iter().copied());
            prop_assert_eq!(strips.extents().collect::<Vec<_>>(), extents.clone());
            let mut message = Vec::new();
            strips.encode(&mut message);
            message.extend(rest);
            prop_assert_eq!(Strips::decode(&message, (100, end)), Some((strips, &rest[..])));
            if !extents.is_empty() {
                prop_assert_eq!(Strips::decode(&message, (100, end - 1)), None);
                prop_assert_eq!(Strips::decode(&message, (extents[0].at + 1, end)), None);
            }
        }

        #[test]
        fn any_bytes_are_strips_inside_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some((strips, _)) = Strips::decode(&bytes, (1000, 5000)) {
                prop_assert!(strips.extents().all(|extent| extent.at >= 1000 && extent.end() <= 5000));
            }
        }

        #[test]
        fn covered_bytes_are_those_of_an_oracle(extents in extents(), gap in 0..50usize) {
            let len = extents.last().map_or(200, |last| last.end() as usize) + 7;
            let (mut covered, mut oracle) = (Covered::new(len), vec![false; len]);
            for extent in &extents {
                covered.add(extent.at as usize, extent.len as usize);
                oracle[extent.at as usize..extent.end() as usize].fill(true);
            }
            let mut rows: Vec<(usize, usize)> = Vec::new();
            for at in (0..len).filter(|&at| oracle[at]) {
                match rows.last_mut() {
                    Some(last) if at - last.1 <= gap => last.1 = at + 1,
                    _ => rows.push((at, at + 1)),
                }
            }
            prop_assert_eq!(covered.rows(gap).collect::<Vec<_>>(), rows);
        }
    }
}
