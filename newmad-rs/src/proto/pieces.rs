//! The pieces in which adapters read a long message: each is registered while the one before it moves, so the first is
//! short, and the others grow.

use crate::wire::Malformed;

/// The first piece. None is shorter, unless the message is.
const FIRST: usize = if cfg!(test) { 64 } else { 128 * 1024 };
/// No piece is longer by more than a first one.
const LARGEST: usize = if cfg!(test) { 256 } else { 4 * 1024 * 1024 };
/// Pieces of a message that are under way at once over a rail: one moves, the other is registered.
pub(crate) const ABREAST: usize = 2;
/// And over all rails.
pub(crate) const LANES: usize = ABREAST * 2;

/// Which piece its receiver wants to read, as `Cts` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its place in the message.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// One piece of a message is under way in each lane: a receiver that wants the next one has read the one before.
    pub(crate) lane: usize,
    /// The rail whose adapter reads.
    pub(crate) rail: usize,
}

impl Wanted {
    /// The word for it; the place has a field of its own.
    pub(crate) fn word(&self) -> u64 {
        self.len as u64 | (self.rail as u64) << 32 | (self.lane as u64) << 40
    }

    /// Of a peer's words.
    ///
    /// # Errors
    /// No receiver wants such a piece of a message of `total` bytes.
    pub(crate) fn of(at: u64, word: u64, total: usize) -> Result<Wanted, Malformed> {
        let byte = |from: u32| usize::from((word >> from) as u8);
        let at = usize::try_from(at).map_err(|_| Malformed)?;
        let wanted = Wanted { at, len: word as u32 as usize, rail: byte(32), lane: byte(40) };
        let fits = at.checked_add(wanted.len).is_some_and(|end| end <= total);
        let sound = fits && wanted.word() == word && wanted.lane < LANES;
        if sound && (1..LARGEST + FIRST).contains(&wanted.len) {
            Ok(wanted)
        } else {
            Err(Malformed)
        }
    }
}

/// The length of the piece at `at` of a message of `total` bytes; zero: there is none.
pub(crate) fn piece(at: usize, total: usize) -> usize {
    let left = total.saturating_sub(at);
    // As much as went before, and a first one more: lengths double.
    let len = LARGEST.min(at.saturating_add(FIRST));
    if left < len.saturating_add(FIRST) { left } else { len }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_a_message_once_grow_and_are_wanted_as_they_are(total in 1usize..20_000, rail in 0usize..4) {
            let (mut at, mut before, mut count) = (0, 0, 0);
            while at < total {
                let len = piece(at, total);
                let is_last = at + len == total;
                prop_assert!(len >= FIRST.min(total));
                prop_assert!(is_last || (len <= LARGEST && len >= before));
                let wanted = Wanted { at, len, lane: count % LANES, rail };
                prop_assert_eq!(Wanted::of(at as u64, wanted.word(), total), Ok(wanted));
                prop_assert!(Wanted::of(at as u64 + 1, wanted.word(), at + len).is_err());
                (at, before, count) = (at + len, len, count + 1);
            }
            prop_assert_eq!((at, piece(at, total)), (total, 0));
            // Doubling, not creeping.
            prop_assert!(count <= 4 + total / LARGEST);
        }

        #[test]
        fn hostile_words_are_refused_or_mean_a_piece_inside(at: u64, word: u64, total in 0usize..1_000_000) {
            for word in [word, word & 0x0101_0000_01ff] {
                for at in [at, at % 1_000_000] {
                    if let Ok(wanted) = Wanted::of(at, word, total) {
                        prop_assert!(wanted.len > 0 && wanted.at + wanted.len <= total);
                        prop_assert!(wanted.len < LARGEST + FIRST && wanted.lane < LANES);
                    }
                }
            }
        }
    }
}
