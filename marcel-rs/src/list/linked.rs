//! A list of nodes that stay in place, any of which can be taken out.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::{NonNull, null};

/// What a [`List`] links.
///
/// # Safety
/// [`Linked::links`] answers the same links at each call, and only a [`List`] has them.
pub unsafe trait Linked: Sized {
    /// The links of the list that holds the object.
    fn links(&self) -> &Links<Self>;
}

/// Where an object is in its [`List`].
pub struct Links<T> {
    listed: Cell<bool>,
    previous: Cell<*const T>,
    next: Cell<*const T>,
}

// SAFETY: only lists touch the links, and a list that holds the object is one thread's at a time.
unsafe impl<T> Sync for Links<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Links<T> {}

impl<T> Links<T> {
    /// Of an object that is in no list.
    #[inline]
    pub const fn new() -> Links<T> {
        Links { listed: Cell::new(false), previous: Cell::new(null()), next: Cell::new(null()) }
    }
}

impl<T> Default for Links<T> {
    fn default() -> Links<T> {
        Links::new()
    }
}

impl<T> std::fmt::Debug for Links<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Links")
    }
}

/// A list of objects that others own. Most lists are behind a lock; the holder of the lock has the list.
///
/// Invariant: every object in the list is alive and in place (the promise of [`List::push_back`]), and is in no other.
pub struct List<T: Linked> {
    head: *const T,
    tail: *const T,
    len: usize,
    _objects: PhantomData<*const T>,
}

// SAFETY: what the list hands out of its objects goes with it from thread to thread.
unsafe impl<T: Linked + Send> Send for List<T> {}

impl<T: Linked> List<T> {
    /// An empty list.
    #[inline]
    pub const fn new() -> List<T> {
        List { head: null(), tail: null(), len: 0, _objects: PhantomData }
    }

    /// Whether no object is in it.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Number of objects.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Appends an object.
    ///
    /// # Safety
    /// The object is in no list. It stays alive and in place until it is out of this one. Until then its owner touches
    /// only what several threads may touch at once, unless the owner has the list.
    #[inline]
    pub unsafe fn push_back(&mut self, object: NonNull<T>) {
        self.insert(self.tail, object.as_ptr(), null());
    }

    /// Puts an object before all others.
    ///
    /// # Safety
    /// As [`List::push_back`].
    #[inline]
    pub unsafe fn push_front(&mut self, object: NonNull<T>) {
        self.insert(null(), object.as_ptr(), self.head);
    }

    /// The first object.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        // SAFETY: the invariant.
        unsafe { self.head.as_ref() }
    }

    /// Takes the first object out. Its owner may still wait for it: it is alive until the owner learns that it is out.
    #[inline]
    pub fn pop_front(&mut self) -> Option<NonNull<T>> {
        let first = NonNull::new(self.head.cast_mut())?;
        // SAFETY: the invariant.
        self.unlink(unsafe { first.as_ref() });
        Some(first)
    }

    /// Takes an object out; false if it was not in the list.
    ///
    /// # Safety
    /// The object is in this list or in none.
    #[inline]
    pub unsafe fn remove(&mut self, object: &T) -> bool {
        let listed = object.links().listed.get();
        if listed {
            self.unlink(object);
        }
        listed
    }

    /// Takes out each object that `wanted` finds, oldest first, and gives it to `taken`, which may end its life.
    pub fn take_where(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
        mut taken: impl FnMut(NonNull<T>),
    ) {
        let mut at = self.head;
        while let Some(pointer) = NonNull::new(at.cast_mut()) {
            // SAFETY: the invariant.
            let object = unsafe { pointer.as_ref() };
            at = object.links().next.get();
            if wanted(object) {
                self.unlink(object);
                taken(pointer);
            }
        }
    }

    #[inline]
    fn insert(&mut self, previous: *const T, object: *const T, next: *const T) {
        self.connect(previous, object);
        self.connect(object, next);
        // SAFETY: the caller's object.
        unsafe { &*object }.links().listed.set(true);
        self.len += 1;
    }

    #[inline]
    fn unlink(&mut self, object: &T) {
        let links = object.links();
        links.listed.set(false);
        self.connect(links.previous.get(), links.next.get());
        self.len -= 1;
    }

    /// Makes two objects neighbours; null is an end of the list.
    #[inline]
    fn connect(&mut self, one: *const T, other: *const T) {
        // SAFETY: the invariant.
        match unsafe { one.as_ref() } {
            Some(one) => one.links().next.set(other),
            None => self.head = other,
        }
        // SAFETY: as above.
        match unsafe { other.as_ref() } {
            Some(other) => other.links().previous.set(one),
            None => self.tail = one,
        }
    }
}

impl<T: Linked> Default for List<T> {
    fn default() -> List<T> {
        List::new()
    }
}

impl<T: Linked> std::fmt::Debug for List<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "List({})", self.len)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    struct Object {
        number: usize,
        links: Links<Object>,
    }
    // SAFETY: a field that nothing else touches.
    unsafe impl Linked for Object {
        fn links(&self) -> &Links<Object> {
            &self.links
        }
    }

    fn objects(n: usize) -> &'static [Object] {
        Box::leak((0..n).map(|number| Object { number, links: Links::new() }).collect())
    }

    fn number(object: NonNull<Object>) -> usize {
        // SAFETY: leaked.
        unsafe { object.as_ref() }.number
    }

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Back(usize),
        Front(usize),
        Pop,
        Remove(usize),
        TakeMultiplesOf(usize),
    }

    fn act() -> impl proptest::strategy::Strategy<Value = Act> {
        use proptest::prelude::*;
        prop_oneof![
            3 => (0..10usize).prop_map(Act::Back),
            1 => (0..10usize).prop_map(Act::Front),
            1 => Just(Act::Pop),
            2 => (0..10usize).prop_map(Act::Remove),
            1 => (2..4usize).prop_map(Act::TakeMultiplesOf),
        ]
    }

    proptest::proptest! {
        #[test]
        fn a_list_does_what_a_deque_does(acts in proptest::collection::vec(act(), 0..60)) {
            let objects = objects(10);
            let mut list = List::new();
            let mut oracle = VecDeque::new();
            for act in acts {
                match act {
                    Act::Back(n) if !oracle.contains(&n) => {
                        // SAFETY: leaked, and in no list as the oracle says.
                        unsafe { list.push_back(NonNull::from(&objects[n])) };
                        oracle.push_back(n);
                    }
                    Act::Front(n) if !oracle.contains(&n) => {
                        // SAFETY: as above.
                        unsafe { list.push_front(NonNull::from(&objects[n])) };
                        oracle.push_front(n);
                    }
                    Act::Back(_) | Act::Front(_) => {}
                    Act::Pop => {
                        proptest::prop_assert_eq!(list.pop_front().map(number), oracle.pop_front());
                    }
                    Act::Remove(n) => {
                        let before = oracle.len();
                        oracle.retain(|other| *other != n);
                        // SAFETY: there is only this list.
                        let was_in = unsafe { list.remove(&objects[n]) };
                        proptest::prop_assert_eq!(was_in, oracle.len() < before);
                    }
                    Act::TakeMultiplesOf(k) => {
                        let mut taken = Vec::new();
                        list.take_where(|o| o.number % k == 0, |o| taken.push(number(o)));
                        let wanted: Vec<_> = oracle.iter().copied().filter(|n| n % k == 0).collect();
                        proptest::prop_assert_eq!(taken, wanted);
                        oracle.retain(|n| n % k != 0);
                    }
                }
                proptest::prop_assert_eq!(list.len(), oracle.len());
                proptest::prop_assert_eq!(list.is_empty(), oracle.is_empty());
                proptest::prop_assert_eq!(list.front().map(|o| o.number), oracle.front().copied());
            }
        }
    }
}
