//! How urgent a call is.

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
