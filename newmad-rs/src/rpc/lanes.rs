//! Lanes: the ways on which calls come in, each with its tag, its bound and a thread that receives.
//!
//! | lane | calls | run |
//! |---|---|---|
//! | 0 | urgent | one after the other by the lane's thread, which has a high priority |
//! | 1 | background | each on a thread of low priority: when its virtual processor has nothing else |
//! | 2 + d | normal ones that a handler of depth d - 1 makes (d = 0: no handler) | each on a thread |
//!
//! A call has a *place* in its lane from before it is received until its answer has been sent, and a lane that has none
//! left does not receive: calls then stay where unexpected messages wait, and, when that is full, with
//! their callers. Long arguments take their length from the lane's *memory* before they are received.
//!
//! Why nothing waits in a circle: what a handler of depth d calls is of depth d + 1 and finds places and memory of its
//! own; the deepest makes no calls ([`LEVELS`]), so it ends, so the level above it does, and so on. Rejected: one bound
//! for all (two processes whose handlers call each other fill it and wait for ever); no bound for inner calls.

use std::sync::Arc;

use marcel::sync::Semaphore;

/// How urgent a call is, at its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Its thread runs when its virtual processor finds nothing else.
    Background,
    /// Its thread takes its turn.
    #[default]
    Normal,
    /// Runs before the others, one after the other, where it is found: the handler should not wait. Counts for calls
    /// that are not made by a handler; those are normal ones.
    Urgent,
}

/// Most levels of handlers that call services.
pub(super) const LEVELS: u32 = 8;
const URGENT: usize = 0;
const BACKGROUND: usize = 1;
const NORMAL: usize = 2;
/// Number of lanes.
pub(super) const LANES: usize = NORMAL + LEVELS as usize;

/// The lane of a call that is made at this depth.
pub(super) fn lane_of(priority: Priority, depth: u32) -> usize {
    match (priority, depth) {
        (Priority::Urgent, 0) => URGENT,
        (Priority::Background, 0) => BACKGROUND,
        _ => NORMAL + depth as usize,
    }
}

/// How calls of this lane are to be run.
pub(super) fn priority_of(lane: usize) -> Priority {
    match lane {
        URGENT => Priority::Urgent,
        BACKGROUND => Priority::Background,
        _ => Priority::Normal,
    }
}

/// Depth of the calls of this lane.
pub(super) fn depth_of(lane: usize) -> u32 {
    lane.saturating_sub(NORMAL) as u32
}

/// The right to receive on the lanes of a session. The lanes' threads share it.
pub(super) struct Receiving(pub(super) Arc<Semaphore>);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Bounds of the lanes. Holds nothing of the session's, so that the owner of a place may drop it anywhere.
pub(super) struct Bounds {
    places: [Semaphore; LANES],
    memory: [Semaphore; LANES],
    /// Most memory of each lane.
    pub(super) limit: usize,
}

impl Bounds {
    pub(super) fn new(places: usize, limit: usize) -> Arc<Bounds> {
        Arc::new(Bounds {
            places: std::array::from_fn(|_| Semaphore::new(places)),
            memory: std::array::from_fn(|_| Semaphore::new(limit)),
            limit,
        })
    }

    /// Lets a lane's thread go on although every place is taken.
    pub(super) fn rouse(&self, lane: usize) {
        self.places[lane].release();
    }
}

/// A place in a lane, and what was taken of its memory.
pub(super) struct Place {
    bounds: Arc<Bounds>,
    lane: usize,
    bytes: usize,
}

impl Place {
    /// Blocks the calling thread until there is one.
    pub(super) fn take(bounds: &Arc<Bounds>, lane: usize) -> Place {
        bounds.places[lane].acquire().forget();
        Place { bounds: bounds.clone(), lane, bytes: 0 }
    }

    pub(super) fn lane(&self) -> usize {
        self.lane
    }

    /// Takes memory; blocks the calling thread until there is enough. False: there never will be.
    pub(super) fn reserve(&mut self, bytes: u64) -> bool {
        let Ok(bytes) = usize::try_from(bytes) else { return false };
        if bytes > self.bounds.limit {
            return false;
        }
        self.bounds.memory[self.lane].acquire_many(bytes).forget();
        self.bytes += bytes;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.bounds.memory[self.lane].release_many(self.bytes);
        }
        self.bounds.places[self.lane].release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_comes_back_with_the_place() {
        let bounds = Bounds::new(1, 100);
        let mut place = Place::take(&bounds, 2);
        assert!(!place.reserve(101) && !place.reserve(u64::MAX));
        assert!(place.reserve(100));
        assert_eq!((bounds.places[2].available(), bounds.memory[2].available()), (0, 0));
        drop(place);
        assert_eq!((bounds.places[2].available(), bounds.memory[2].available()), (1, 100));
    }

    #[test]
    fn every_depth_has_a_lane_of_its_own() {
        let mut lanes: Vec<_> = (0..LEVELS).map(|d| lane_of(Priority::Normal, d)).collect();
        lanes.extend([lane_of(Priority::Urgent, 0), lane_of(Priority::Background, 0)]);
        lanes.sort_unstable();
        assert_eq!(lanes, (0..LANES).collect::<Vec<_>>());
        assert_eq!(lane_of(Priority::Urgent, 3), lane_of(Priority::Background, 3));
        assert_eq!(depth_of(lane_of(Priority::Normal, 5)), 5);
    }
}
