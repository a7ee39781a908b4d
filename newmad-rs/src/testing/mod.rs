//! Code for tests alone that no part of the crate owns: the engine's simulation, and the fuzz targets.

#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod simulation;
