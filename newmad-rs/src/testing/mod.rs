//! Code for tests alone that no part of the crate owns: the engine's simulation, and the fuzz targets.

#[cfg_attr(not(test), allow(dead_code))]
pub(crate) mod asked;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod simulation;
