//! The policies: [`crate::policy`] says what they are.
//!
//! `contract`, `hints`: the question and the answer. `history`: how long waits have taken. `fixed`, `load_aware`,
//! `adaptive`: the policies. `named`, `select`: which one a source gets.

pub(crate) mod adaptive;
pub(crate) mod contract;
pub(crate) mod fixed;
pub(crate) mod hints;
pub(crate) mod history;
pub(crate) mod load_aware;
pub(crate) mod named;
pub(crate) mod select;
