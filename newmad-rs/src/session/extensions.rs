//! What the layers above a session keep for it, or for its process: collectives, remote calls, and what looks
//! after failures. The session does not know them.

use std::any::Any;
use std::sync::OnceLock;

/// How many types there may be.
const LAYERS: usize = 5;

/// One value of each of a few types, made at its first use.
#[derive(Default)]
pub(crate) struct Extensions([OnceLock<Box<dyn Any + Send + Sync>>; LAYERS]);

impl Extensions {
    /// The session's value of this type.
    ///
    /// # Panics
    /// More types are used than there are [`LAYERS`].
    pub(crate) fn get<T: Any + Default + Send + Sync>(&self) -> &T {
        let values = self.0.iter().map(|place| place.get_or_init(|| Box::new(T::default())));
        let mut found = values.filter_map(|value| value.downcast_ref());
        found.next().expect("a session has a place for each of the layers above it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

    #[test]
    fn each_type_has_one_value() {
        let extensions = Extensions::default();
        extensions.get::<AtomicU8>().store(1, Ordering::Relaxed);
        extensions.get::<AtomicU16>().store(2, Ordering::Relaxed);
        assert_eq!(extensions.get::<AtomicU8>().load(Ordering::Relaxed), 1);
        assert_eq!(extensions.get::<AtomicU16>().load(Ordering::Relaxed), 2);
    }
}
