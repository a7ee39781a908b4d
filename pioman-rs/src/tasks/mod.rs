//! Light tasks and tasklets as their users see them; the machinery is in `ltask`.

pub(crate) mod builder;
pub(crate) mod task;
pub(crate) mod tasklet;
