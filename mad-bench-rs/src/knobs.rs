//! The knobs of all crates in one table.

use clap::builder::PossibleValuesParser;
use marcel::plumbing::knob::{Kind, Knob};

pub use newmad::plumbing::choices;
pub use newmad::plumbing::knobs::{unknown, warn_of_unknown};

/// The knobs of every crate, with the crate's name.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Knob)> {
    let tables: [(&'static str, &'static [Knob]); 3] =
        [("marcel", marcel::KNOBS), ("pioman", pioman::KNOBS), ("newmad", newmad::KNOBS)];
    tables.into_iter().flat_map(|(krate, knobs)| knobs.iter().map(move |knob| (krate, knob)))
}

/// The knob of this name.
pub fn find(name: &str) -> Option<&'static Knob> {
    all().map(|(_, knob)| knob).find(|knob| knob.name == name)
}

/// A command-line parser that accepts the words which the knob accepts.
pub fn values_of(name: &'static str) -> PossibleValuesParser {
    match find(name).map(|knob| knob.kind) {
        Some(Kind::Word(words)) => PossibleValuesParser::new(words),
        _ => PossibleValuesParser::new(std::iter::empty::<&str>()),
    }
}
