//! Inner pieces, for the benches of the root package (feature `bench-internals`): nothing here is promised to any
//! other user.
//!
//! Each piece is wrapped so that safe code cannot misuse it, and does what the engine does with it.

mod matching;
mod ring;

pub use matching::Tables;
pub use ring::{Receiver, Sender, ring};
