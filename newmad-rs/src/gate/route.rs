//! Receiver-driven routing: over which virtual rail each side of a gate receives.
//!
//! Source: [Didelot14] 3.3. A process polls the virtual rail of the node on which its threads receive, so it says which one that
//! is, and its peer sends over it. (What virtual rails are: [`crate::net::virtual_rails`].)
//!
//! ```text
//!  receiver                                                     sender
//!  counts its receives, by the route of the thread's node
//!  a window of them: most are of another route
//!  Ack (word: route, how many there were before) ────────────▶  sends again over that rail what is not acknowledged,
//!                                                                then everything else
//!  … every Ack and Probe has the word …
//! ```
//! *When*: more than three quarters of a window's receives were of one route, and it is not the one in use. So threads of two nodes
//! that receive by turns change nothing.
//!
//! *Order* is that of rails that break and come back (`net/reliable/`): packets are numbered through all rails of a gate, and a second
//! rail begins with the oldest packet that is not acknowledged. A receiver takes each number once, in order. What is still under way
//! over the first rail comes twice, and is dropped.
//!
//! *A word gets lost* with its link, and overtakes older ones: it says the state, and its number tells the newest. A link that is made
//! anew begins with it. Until it is heard, messages come as before: the rail is a hint, and nothing relies on it.
//!
//! *What follows the route*: the small track; the pieces of long messages, which the sender posts; and reads of the sender's
//! memory, which the receiver posts over its own rail, where it finds their end. *What does not*: a rail that is closed. Then the other
//! rails carry all, as if there were no routes.
//!
//! A process pair has one route each way, since its packets have one order ([Didelot14] has one for each task). Receives from any rank
//! count for no peer.
//!
//! Rejected: the sender's own node chooses (its receiver polls all virtual rails, as the source says); a queue in which the receiver
//! puts packets of two rails in order (a second mechanism for what numbers and copies do already); to wait until all is acknowledged
//! before the rail is changed (a round trip in which nothing is sent, against packets that are sent twice).

use crate::wire::{MAX_RAILS, Malformed};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Route {
    /// What this process has asked for, and how often it has.
    own: u8,
    asked: u64,
    /// Receives of the window, by route.
    receives: [u32; MAX_RAILS],
    /// What the peer has asked for, and how often it had by then.
    theirs: u8,
    heard: u64,
}

/// Where the number begins in the word.
const NUMBER: u32 = 8;

impl Route {
    /// The route over which this process receives.
    #[inline]
    pub(crate) fn own(&self) -> usize {
        self.own.into()
    }

    /// The route over which the peer receives.
    #[inline]
    pub(crate) fn theirs(&self) -> usize {
        self.theirs.into()
    }

    /// A receive is made by a thread of this route. True: the window is over, and this process asks for another route now.
    pub(crate) fn receive(&mut self, route: usize, window: u32) -> bool {
        let Some(count) = self.receives.get_mut(route) else { return false };
        *count += 1;
        let all: u32 = self.receives.iter().sum();
        if all < window {
            return false;
        }
        let receives = std::mem::take(&mut self.receives);
        let most = |&(_, &count): &(usize, &u32)| u64::from(count) * 4 > u64::from(all) * 3;
        match receives.iter().enumerate().find(most) {
            Some((most, _)) if most != self.own() => {
                self.own = most as u8;
                self.asked += 1;
                true
            }
            _ => false,
        }
    }

    /// Whether this process has ever asked.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked > 0
    }

    /// What each `Ack` and `Probe` says: zero, until this process has asked.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        self.asked << NUMBER | u64::from(self.own)
    }

    /// The peer's word. True: it wants another route.
    ///
    /// # Errors
    /// It is none, where there are so many routes.
    pub(crate) fn hear(&mut self, word: u64, routes: usize) -> Result<bool, Malformed> {
        let (number, route) = (word >> NUMBER, word as u8);
        let is_sound =
            if number == 0 { route == 0 } else { usize::from(route) < routes && routes > 1 };
        if !is_sound {
            return Err(Malformed);
        }
        if number <= self.heard {
            return Ok(false);
        }
        self.heard = number;
        Ok(std::mem::replace(&mut self.theirs, route) != route)
    }
}

/// What a hostile peer's words do, for fuzzing: nothing but refusals.
#[cfg(any(test, fuzzing))]
pub(crate) fn hostile(input: &[u8]) {
    let mut route = Route::default();
    for bytes in input.chunks_exact(9) {
        let routes = 1 + usize::from(bytes[0] & 3);
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[1..]);
        let word = u64::from_le_bytes(word);
        // Plausible words, too.
        let word = if bytes[0] & 0x80 == 0 { word & 0x0303 } else { word };
        let before = route.heard;
        if route.hear(word, routes).is_err() {
            return;
        }
        assert!(route.heard >= before);
        assert!(route.heard == before || route.theirs() < routes, "a route that there is not");
        route.receive(usize::from(bytes[0] >> 2 & 7), 3);
        assert!(route.own() < MAX_RAILS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn another_route_is_asked_for_when_most_receives_of_a_window_are_made_there() {
        let mut route = Route::default();
        let mut window = |ours: [u32; 3]| -> bool {
            let all = ours.iter().sum();
            let mut asks = false;
            for (at, count) in ours.into_iter().enumerate() {
                for _ in 0..count {
                    assert!(!asks, "before the window is over");
                    asks = route.receive(at, all);
                }
            }
            asks
        };
        assert!(!window([100, 0, 0]), "it is there already");
        assert!(!window([25, 75, 0]), "three quarters are not more than three quarters");
        assert!(window([24, 76, 0]));
        assert!(!window([0, 100, 0]));
        assert!(!window([50, 50, 0]) && !window([34, 33, 33]), "by turns");
        assert!(window([0, 1, 99]));
        assert!(window([1, 0, 0]), "a window of one");
        assert_eq!((route.own(), route.asked), (0, 3));
        assert!(!route.receive(MAX_RAILS, 1) && !route.receive(usize::MAX, 1));
    }

    #[test]
    fn the_newest_word_counts_and_a_wrong_one_is_refused() {
        let (mut receiver, mut sender) = (Route::default(), Route::default());
        assert_eq!(receiver.word(), 0);
        assert_eq!(sender.hear(0, 2), Ok(false));
        assert!(receiver.receive(1, 1));
        let first = receiver.word();
        assert!(receiver.receive(0, 1) && receiver.receive(1, 1));
        assert_eq!(sender.hear(receiver.word(), 2), Ok(true));
        assert_eq!(sender.hear(receiver.word(), 2), Ok(false), "once more");
        assert!(receiver.receive(0, 1));
        assert_eq!((sender.hear(receiver.word(), 2), sender.theirs()), (Ok(true), 0));
        assert_eq!((sender.hear(first, 2), sender.theirs()), (Ok(false), 0), "it comes late");
        for wrong in [1, 0xff, 9 << NUMBER | 2, 9 << NUMBER | 0xff, u64::MAX] {
            assert_eq!(sender.hear(wrong, 2), Err(Malformed), "{wrong:x}");
        }
        assert_eq!(sender.hear(9 << NUMBER, 1), Err(Malformed), "there are no routes");
    }

    proptest! {
        #[test]
        fn hostile_words_never_panic(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            hostile(&input);
        }

        /// Beside an oracle that keeps the whole window; and whatever order words come in, the newest one counts.
        #[test]
        fn a_route_follows_its_windows(
            receives in proptest::collection::vec(0usize..3, 0..300), window in 1u32..20, order in any::<u64>(),
        ) {
            let mut route = Route::default();
            let (mut now, mut seen, mut words) = (0, Vec::new(), vec![0]);
            for at in receives {
                seen.push(at);
                let asks = route.receive(at, window);
                let mut expected = false;
                if seen.len() == window as usize {
                    for other in 0..3 {
                        let count = seen.iter().filter(|&&at| at == other).count();
                        if other != now && count as f64 > 0.75 * seen.len() as f64 {
                            (now, expected) = (other, true);
                            break;
                        }
                    }
                    seen.clear();
                }
                prop_assert_eq!(asks, expected);
                prop_assert_eq!(route.own(), now);
                if asks {
                    words.push(route.word());
                }
            }
            let mut peer = Route::default();
            for turn in 0..words.len() {
                let at = (order.rotate_left(turn as u32 * 7) as usize) % words.len();
                prop_assert!(peer.hear(words[at], 3).is_ok());
            }
            prop_assert!(peer.hear(route.word(), 3).is_ok());
            prop_assert_eq!(peer.theirs(), now);
        }
    }
}
