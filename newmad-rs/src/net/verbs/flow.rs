//! Flow control of a link: a side sends only what the other one has buffers for.
//!
//! Each side grants the other one so many packets on each track. A packet's buffer is granted again when it was
//! released; that is told in the word that travels with every packet, and with a packet without data once half of a
//! track's grant is untold. So no sender finds a receiver without a buffer, unless the adapter has fewer buffers than
//! its links were granted: then the adapters themselves hold the sender back.
//!
//! ```text
//! word   bits 0 to 11: released on the small track   12 to 23: on the large one   24: the packet's track   rest: 0
//! ```

use super::Track;
use crate::wire::Malformed;

/// Bits of a count in the word.
const BITS: u32 = 12;
/// The most packets that are granted on a track.
pub(super) const MOST: u16 = (1 << BITS) - 1;
/// Packets without data that are under way, at the most: two of each track, since each tells of half a grant at least.
pub(super) const WORDS: usize = 4;

/// One track.
#[derive(Clone, Copy, Debug)]
struct Grant {
    /// Packets that may be sent.
    left: u16,
    /// Packets that were sent and are not known to be released, and `left`.
    theirs: u16,
    /// Packets that have come and are not released.
    held: u16,
    /// Released, and not told.
    untold: u16,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// What the peer was granted, on each track.
    own: u16,
    tracks: [Grant; 2],
}

impl Flow {
    /// A link whose sides have granted each other so many packets.
    pub(super) fn new(own: u16, theirs: u16) -> Flow {
        let theirs = theirs.min(MOST);
        let grant = Grant { left: theirs, theirs, held: 0, untold: 0 };
        Flow { own: own.min(MOST), tracks: [grant; 2] }
    }

    /// Packets that may be sent on that track now.
    #[inline]
    pub(super) fn left(&self, track: Track) -> usize {
        self.tracks[track as usize].left.into()
    }

    /// The word for a packet on that track, which is sent now.
    #[inline]
    pub(super) fn sends(&mut self, track: Track) -> u32 {
        let grant = &mut self.tracks[track as usize];
        grant.left = grant.left.saturating_sub(1);
        self.tells() | (track as u32) << (2 * BITS)
    }

    /// The word for a packet without data.
    #[inline]
    pub(super) fn tells(&mut self) -> u32 {
        let [small, large] = &mut self.tracks;
        let take = |grant: &mut Grant| u32::from(std::mem::take(&mut grant.untold));
        take(small) | take(large) << BITS
    }

    /// Whether a packet without data is due.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.tracks.iter().any(|grant| grant.untold > 0 && grant.untold * 2 >= self.own)
    }

    /// A packet has come with that word. `Some`: it has data, on that track.
    ///
    /// # Errors
    /// No such packet was granted, or the word is none.
    #[inline]
    pub(super) fn receives(
        &mut self,
        word: u32,
        has_data: bool,
    ) -> Result<Option<Track>, Malformed> {
        let released = [word, word >> BITS].map(|count| (count & u32::from(MOST)) as u16);
        let track = match word >> (2 * BITS) {
            0 => Track::Small,
            1 => Track::Large,
            _ => return Err(Malformed),
        };
        for (grant, released) in self.tracks.iter_mut().zip(released) {
            if released > grant.theirs - grant.left {
                return Err(Malformed);
            }
            grant.left += released;
        }
        if !has_data {
            return Ok(None);
        }
        let grant = &mut self.tracks[track as usize];
        if grant.held + grant.untold >= self.own {
            return Err(Malformed);
        }
        grant.held += 1;
        Ok(Some(track))
    }

    /// A packet of that track is done with: its buffer is free.
    #[inline]
    pub(super) fn releases(&mut self, track: Track) {
        let grant = &mut self.tracks[track as usize];
        if grant.held > 0 {
            grant.held -= 1;
            grant.untold += 1;
        }
    }
}

/// What a hostile peer's words do to one side, for fuzzing: nothing but refusals.
#[cfg(any(test, fuzzing))]
pub(crate) fn hostile(input: &[u8]) {
    let mut flow = Flow::new(8, 8);
    for bytes in input.chunks_exact(5) {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        match bytes[4] % 4 {
            0 if flow.left(Track::Small) > 0 => _ = flow.sends(Track::Small),
            1 if flow.left(Track::Large) > 0 => _ = flow.sends(Track::Large),
            2 => flow.releases(if bytes[4] & 4 == 0 { Track::Small } else { Track::Large }),
            _ => {
                // Plausible words, too.
                let word = if bytes[4] & 8 == 0 { word & 0x0100_3003 } else { word };
                if flow.receives(word, bytes[4] & 16 == 0).is_err() {
                    return;
                }
            }
        }
        for grant in &flow.tracks {
            assert!(grant.left <= grant.theirs && grant.held + grant.untold <= flow.own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn hostile_words_never_panic(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            hostile(&input);
        }

        /// Two sides that follow the rules: no packet is refused, and no grant gets lost.
        #[test]
        fn two_sides_lose_no_grant(grants in [1u16..9, 1..9], steps in proptest::collection::vec(any::<u8>(), 0..500)) {
            let [own, theirs] = grants;
            let mut sides = [Flow::new(own, theirs), Flow::new(theirs, own)];
            let mut ways: [VecDeque<(u32, bool)>; 2] = Default::default();
            let mut words = [0, 0];
            for step in steps {
                let side = usize::from(step & 1);
                let track = if step & 2 == 0 { Track::Small } else { Track::Large };
                match step >> 2 & 3 {
                    0 if sides[side].left(track) > 0 => {
                        let word = sides[side].sends(track);
                        ways[side].push_back((word, true));
                    }
                    1 => sides[side].releases(track),
                    2 if sides[side].is_due() => {
                        let word = sides[side].tells();
                        ways[side].push_back((word, false));
                        words[side] += 1;
                    }
                    _ => if let Some((word, has_data)) = ways[1 - side].pop_front() {
                        prop_assert!(sides[side].receives(word, has_data).is_ok());
                        words[1 - side] -= usize::from(!has_data);
                    },
                }
                for (side, &words) in words.iter().enumerate() {
                    prop_assert!(words <= WORDS, "{words} words of side {side} are under way");
                }
            }
            // All comes, all is released and told: everything is granted again.
            for _ in 0..4 {
                for side in 0..2 {
                    while let Some((word, has_data)) = ways[1 - side].pop_front() {
                        prop_assert!(sides[side].receives(word, has_data).is_ok());
                    }
                    for track in Track::ALL {
                        (0..10).for_each(|_| sides[side].releases(track));
                    }
                    let word = sides[side].tells();
                    ways[side].push_back((word, false));
                }
            }
            for (side, grant) in [(0, theirs), (1, own)] {
                for track in Track::ALL {
                    prop_assert_eq!(sides[side].left(track), usize::from(grant));
                }
            }
        }
    }
}
