//! The places of a source's descriptors. They live as long as the source, so that a poller that holds an event may
//! look at the place without asking whether its descriptor is still there; generations tell.
//!
//! Chunks that double in size, made when they are first needed; never on the progress path, which only looks.

use std::sync::atomic::AtomicU32;
use std::sync::{MutexGuard, OnceLock};

use crate::io::fd::readiness::Readiness;
use marcel::plumbing::KernelMutex;

/// Places in the first chunk.
const FIRST: u32 = 64;
/// Chunks: more places than a process can have descriptors.
const CHUNKS: usize = 25;

/// What is known of a descriptor.
#[derive(Default)]
pub(super) struct Place {
    pub(super) read: Readiness,
    pub(super) write: Readiness,
    /// The events that the kernel has been asked for.
    pub(super) interest: AtomicU32,
}

impl Place {
    pub(super) fn generation(&self) -> u32 {
        self.read.generation()
    }
}

#[derive(Default)]
pub(super) struct Arena {
    chunks: [OnceLock<Box<[Place]>>; CHUNKS],
    free: KernelMutex<Free>,
}

#[derive(Default)]
struct Free {
    returned: Vec<u32>,
    /// Places from this one on have never been taken.
    end: u32,
}

impl Arena {
    /// Chunk, and place within.
    fn split(index: u32) -> (usize, usize) {
        let chunk = (index / FIRST + 1).ilog2();
        (chunk as usize, (index - FIRST * ((1 << chunk) - 1)) as usize)
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock()
    }

    /// A place that has been taken at least once. Progress path.
    pub(super) fn get(&self, index: u32) -> Option<&Place> {
        let (chunk, place) = Self::split(index);
        self.chunks.get(chunk)?.get()?.get(place)
    }

    /// Takes a place; `None` if all are taken.
    pub(super) fn take(&self) -> Option<(u32, &Place)> {
        let mut free = self.free();
        let index = free.returned.pop().unwrap_or(free.end);
        let (chunk, place) = Self::split(index);
        let places = self.chunks.get(chunk)?.get_or_init(|| {
            std::iter::repeat_with(Place::default).take((FIRST as usize) << chunk).collect()
        });
        free.end = free.end.max(index + 1);
        Some((index, &places[place]))
    }

    /// Gives a place back, of the next generation.
    pub(super) fn give(&self, index: u32) {
        if let Some(place) = self.get(index) {
            place.read.renew();
            place.write.renew();
            self.free().returned.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_another_one_and_stays_where_it_is() {
        let arena = Arena::default();
        assert!(arena.get(0).is_none());
        let addresses: Vec<_> = (0..1000)
            .map(|i| {
                let (index, place) = arena.take().unwrap();
                assert_eq!(index, i);
                std::ptr::from_ref(place)
            })
            .collect();
        let mut unique = addresses.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 1000);
        for (i, address) in addresses.iter().enumerate() {
            assert!(std::ptr::eq(arena.get(i as u32).unwrap(), *address));
        }
    }

    #[test]
    fn a_place_comes_back_as_the_next_generation() {
        let arena = Arena::default();
        let (index, place) = arena.take().unwrap();
        let generation = place.generation();
        arena.give(index);
        let (again, place) = arena.take().unwrap();
        assert_eq!((again, place.generation()), (index, generation + 1));
        assert_eq!(place.write.generation(), generation + 1);
    }

    #[test]
    fn there_is_an_end_to_the_places() {
        let arena = Arena::default();
        assert!(arena.get(u32::MAX).is_none());
        let (chunk, place) = Arena::split(FIRST * ((1 << CHUNKS) - 1) - 1);
        assert_eq!((chunk, place), (CHUNKS - 1, ((FIRST as usize) << (CHUNKS - 1)) - 1));
    }
}
