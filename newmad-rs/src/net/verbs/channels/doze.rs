//! Whether the receiver of a channel polls: the word that it writes into the sender's memory, and its timer.

/// What the word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net::verbs) struct Word {
    /// Slots that are released, of all that the link has had, modulo 2^32.
    pub(super) taken: u32,
    /// Counts the changes; odd: the receiver sleeps, or may.
    pub(super) epoch: u32,
}

impl Word {
    pub(in crate::net::verbs) fn of_bits(bits: u64) -> Word {
        Word { taken: bits as u32, epoch: (bits >> 32) as u32 }
    }

    pub(in crate::net::verbs) fn bits(self) -> u64 {
        u64::from(self.taken) | u64::from(self.epoch) << 32
    }

    #[inline]
    pub(super) fn sleeps(self) -> bool {
        self.epoch & 1 == 1
    }
}

/// A link begins with this: nothing is taken, and the receiver sleeps.
pub(super) const BEGIN: Word = Word { taken: 0, epoch: 1 };

/// Polls without sleep after which a receiver says that it polls.
const AWAKE: u32 = 32;
/// The first nap of a sleeper in ns; each is four times as long as the one before, up to the longest.
const FIRST: u64 = 100_000;
const LONGEST: u64 = 1_000_000_000;

/// A thread may sleep that armed before others polled on and on, and they may stop without arming. So it wakes up so
/// many ns after the word said that this process polls, and arms again.
pub(in crate::net::verbs) const OUTPOLLED: u64 = 1_000_000;

/// The receiver's part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doze {
    polls: u32,
    nap: u64,
    until: u64,
}

impl Doze {
    pub(super) fn new() -> Doze {
        Doze { polls: 0, nap: FIRST, until: 0 }
    }

    /// The receiver may sleep from now on. The word's epoch changes if it said that the receiver polls. Returns when to
    /// wake up, and look for a slot that was written before the sender saw the word.
    pub(super) fn arm(&mut self, epoch: &mut u32, now: u64) -> u64 {
        self.polls = 0;
        if *epoch & 1 == 0 {
            *epoch = epoch.wrapping_add(1);
            self.nap = FIRST;
            self.until = now + FIRST;
        } else if now >= self.until {
            // A nap is over.
            self.nap = (self.nap * 4).min(LONGEST);
            self.until = now + self.nap;
        }
        self.until
    }

    /// The receiver has polled. True: the epoch has changed, since it polls on and on.
    #[inline]
    pub(super) fn polled(&mut self, epoch: &mut u32) -> bool {
        if *epoch & 1 == 0 {
            return false;
        }
        self.polls += 1;
        let awake = self.polls >= AWAKE;
        *epoch = epoch.wrapping_add(u32::from(awake));
        awake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_looks_again_after_longer_and_longer_naps_for_ever() {
        let (mut doze, mut epoch) = (Doze::new(), 0);
        let first = doze.arm(&mut epoch, 1000);
        assert_eq!((first, epoch), (1000 + FIRST, 1));
        assert_eq!(doze.arm(&mut epoch, first - 1), first, "the nap is not over");
        let (mut now, mut naps) = (first, vec![]);
        for _ in 0..10 {
            let until = doze.arm(&mut epoch, now);
            naps.push(until - now);
            now = until;
        }
        assert!(naps.is_sorted() && naps[0] == 4 * FIRST && naps[9] == LONGEST, "{naps:?}");
        assert_eq!(epoch, 1);
        // Polling on and on, it is awake; the next sleep begins with a short nap.
        let polls = (1..100).find(|_| doze.polled(&mut epoch)).unwrap();
        assert_eq!((polls, epoch), (AWAKE as i32, 2));
        assert_eq!(doze.arm(&mut epoch, now), now + FIRST);
        assert_eq!(epoch, 3);
    }

    #[test]
    fn the_word_survives_its_bits() {
        let word = Word { taken: 0xfedc_ba98, epoch: 0x8000_0001 };
        assert_eq!(Word::of_bits(word.bits()), word);
    }
}
