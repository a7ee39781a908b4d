//! Contexts that no thread uses, ready for the next one.
//!
//! Three levels, from warm to cold: a list of each virtual processor (no lock; newest first, so that the stack
//! that has just been used is used again), one list of the runtime for each size of stack, and the slabs, which
//! give their memory back to the kernel. A list that overflows goes down by half, so that threads that come and
//! go around a limit cost nothing below.
//!
//! Sizes other than the default one are rounded up to powers of two; those contexts have no list in the virtual
//! processors.

use std::collections::BTreeMap;
use std::io;

use super::Context;
use super::memory::{MIN_GUARD, MIN_SIZE, page};
use super::slab::{Guards, Slabs};
use crate::os::KernelMutex;

/// Most contexts in the list of a virtual processor.
const CACHE_MAX: usize = 64;
/// Most address space of the contexts in the runtime's list of one size.
const WARM_BYTES: usize = 256 << 20;

/// The contexts of a runtime.
pub(crate) struct ContextPool {
    size: usize,
    guard: usize,
    body: fn(),
    classes: KernelMutex<BTreeMap<usize, Class>>,
}

/// Contexts with stacks of one size.
struct Class {
    warm: Vec<Context>,
    slabs: Slabs,
}

impl Class {
    fn take(&mut self, body: fn()) -> io::Result<Context> {
        if let Some(context) = self.warm.pop() {
            return Ok(context);
        }
        let stack = self.slabs.take()?;
        // SAFETY: taken for this context, given back after `into_stack`.
        Ok(unsafe { Context::new(stack, body) })
    }

    /// Gives the stacks of the `n` contexts that were idle for longest back.
    fn cool(&mut self, n: usize) {
        let stacks = self.warm.drain(..n).map(Context::into_stack).collect();
        self.slabs.give_back(stacks);
    }
}

impl ContextPool {
    /// A pool of contexts that run `body`, with stacks of `size` bytes unless another size is asked for, above guards of
    /// `guard` bytes. `body` must not unwind.
    pub(crate) fn new(size: usize, guard: usize, body: fn()) -> ContextPool {
        let size = size.max(MIN_SIZE).next_multiple_of(page());
        let guard = guard.max(MIN_GUARD).next_multiple_of(page());
        ContextPool { size, guard, body, classes: KernelMutex::new(BTreeMap::new()) }
    }

    /// Gives every idle context's memory, and slabs without users, back to the kernel.
    pub(crate) fn clear(&self) {
        for class in self.classes.lock().values_mut() {
            class.cool(class.warm.len());
        }
    }

    /// Where stacks of at least `size` bytes are (0: of the pool's size).
    fn class(&self, size: usize) -> io::Result<usize> {
        if size == 0 || size.checked_next_multiple_of(page()) == Some(self.size) {
            return Ok(self.size);
        }
        let too_large = || {
            let why = format!("a stack of {size} bytes is more than any address space holds");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        };
        own_class(size, page()).ok_or_else(too_large)
    }

    /// Bytes of address space.
    #[cfg(test)]
    pub(crate) fn mapped(&self) -> usize {
        self.classes.lock().values().map(|class| class.slabs.mapped()).sum()
    }
}

/// The class of a size that is not the pool's: a power of two, and so whole pages. `None`: too large.
fn own_class(size: usize, page: usize) -> Option<usize> {
    size.max(MIN_SIZE).max(page).checked_next_power_of_two()
}

fn of_size(classes: &mut BTreeMap<usize, Class>, size: usize, guard: usize) -> &mut Class {
    classes.entry(size).or_insert_with(|| Class {
        warm: Vec::new(),
        slabs: Slabs::new(size, guard, Guards::Markers),
    })
}

/// The part of the pool that one virtual processor keeps for itself; empty when dropped.
pub(crate) struct ContextCache {
    /// Has room for [`CACHE_MAX`] contexts; the newest last.
    idle: Vec<Context>,
}

impl Default for ContextCache {
    fn default() -> ContextCache {
        ContextCache { idle: Vec::with_capacity(CACHE_MAX) }
    }
}

impl ContextCache {
    /// An idle context with a stack of at least `size` bytes (0: the pool's size).
    ///
    /// # Errors
    /// No memory; the error says what to do.
    #[inline]
    pub(crate) fn take(&mut self, pool: &ContextPool, size: usize) -> io::Result<Context> {
        if size == 0
            && let Some(context) = self.idle.pop()
        {
            return Ok(context);
        }
        self.take_slowly(pool, size)
    }

    /// Gives an idle context back.
    #[inline]
    pub(crate) fn put(&mut self, pool: &ContextPool, context: Context) {
        if self.idle.len() < CACHE_MAX && context.stack().size() == pool.size {
            self.idle.push(context);
        } else {
            self.put_slowly(pool, context);
        }
    }

    /// Gives all of them back.
    pub(crate) fn empty(&mut self, pool: &ContextPool) {
        while !self.idle.is_empty() {
            self.spill(&mut of_size(&mut pool.classes.lock(), pool.size, pool.guard).warm);
        }
    }

    /// Moves the older half of a full list, or all of a shorter one, to `warm`.
    fn spill(&mut self, warm: &mut Vec<Context>) {
        let most = self.idle.len().min(CACHE_MAX / 2);
        warm.extend(self.idle.drain(..most));
    }

    #[cold]
    fn take_slowly(&mut self, pool: &ContextPool, size: usize) -> io::Result<Context> {
        let size = pool.class(size)?;
        let mut classes = pool.classes.lock();
        let class = of_size(&mut classes, size, pool.guard);
        if size == pool.size {
            if let Some(context) = self.idle.pop() {
                return Ok(context);
            }
            let from = class.warm.len().saturating_sub(CACHE_MAX / 2);
            self.idle.extend(class.warm.drain(from..));
            if let Some(context) = self.idle.pop() {
                return Ok(context);
            }
        }
        class.take(pool.body)
    }

    #[cold]
    fn put_slowly(&mut self, pool: &ContextPool, context: Context) {
        let size = context.stack().size();
        let mut classes = pool.classes.lock();
        let class = of_size(&mut classes, size, pool.guard);
        if size == pool.size {
            self.spill(&mut class.warm);
            self.idle.push(context);
        } else {
            class.warm.push(context);
        }
        let most = WARM_BYTES / size;
        if class.warm.len() > most {
            class.cool(class.warm.len() - most / 2);
        }
    }
}

impl Drop for ContextCache {
    fn drop(&mut self) {
        debug_assert!(self.idle.is_empty(), "contexts go back to their pool");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(context: &Context) -> usize {
        context.stack().guard().start
    }

    fn pool(size: usize) -> ContextPool {
        ContextPool::new(size, MIN_GUARD, || {})
    }

    #[test]
    fn contexts_are_reused_last_in_first_out() {
        let (pool, mut cache) = (pool(64 * 1024), ContextCache::default());
        let (a, b) = (cache.take(&pool, 0).unwrap(), cache.take(&pool, 0).unwrap());
        let (a_at, b_at) = (at(&a), at(&b));
        cache.put(&pool, a);
        cache.put(&pool, b);
        let b = cache.take(&pool, 0).unwrap();
        let a = cache.take(&pool, 64 * 1024).unwrap();
        assert_eq!((at(&a), at(&b)), (a_at, b_at));
        cache.put(&pool, a);
        cache.put(&pool, b);
        cache.empty(&pool);
        pool.clear();
        assert_eq!(pool.mapped(), 0);
    }

    #[test]
    fn more_contexts_than_a_list_holds_go_to_the_others_then_to_the_kernel() {
        let pool = pool(1 << 20);
        let (mut one, mut two) = (ContextCache::default(), ContextCache::default());
        let most = WARM_BYTES >> 20;
        let contexts: Vec<_> =
            (0..most + 3 * CACHE_MAX).map(|_| one.take(&pool, 0).unwrap()).collect();
        let full = pool.mapped();
        let known: std::collections::HashSet<_> = contexts.iter().map(at).collect();
        assert_eq!(known.len(), contexts.len());
        contexts.into_iter().for_each(|context| one.put(&pool, context));
        assert!(one.idle.len() <= CACHE_MAX);
        assert!(pool.mapped() < full, "nothing went back");
        let other = two.take(&pool, 0).unwrap();
        assert!(known.contains(&at(&other)));
        two.put(&pool, other);
        one.empty(&pool);
        two.empty(&pool);
        pool.clear();
        assert_eq!(pool.mapped(), 0);
    }

    #[test]
    fn a_stack_has_whole_pages_on_every_machine() {
        for (page, least) in [(4096, MIN_SIZE), (16 << 10, MIN_SIZE), (64 << 10, 64 << 10)] {
            assert_eq!(own_class(1, page), Some(least));
            assert_eq!(own_class(100_000, page), Some(128 << 10));
        }
        let pool = ContextPool::new(100_000, MIN_GUARD + 1, || {});
        assert_eq!((pool.size % page(), pool.guard % page()), (0, 0));
    }

    #[test]
    fn a_size_of_its_own_is_respected_and_its_context_reused() {
        let (pool, mut cache) = (pool(128 * 1024), ContextCache::default());
        let least = MIN_SIZE.max(page());
        for (asked, got) in [(1 << 20, 1 << 20), (1, least), (200_000, 256 * 1024)] {
            let context = cache.take(&pool, asked).unwrap();
            assert_eq!(context.stack().size(), got);
            let first = at(&context);
            cache.put(&pool, context);
            let context = cache.take(&pool, asked).unwrap();
            assert_eq!(at(&context), first);
            cache.put(&pool, context);
        }
        for size in [usize::MAX, usize::MAX / 2 + 2, 1 << 62] {
            assert!(cache.take(&pool, size).is_err());
        }
        cache.empty(&pool);
        pool.clear();
        assert_eq!(pool.mapped(), 0);
    }
}
