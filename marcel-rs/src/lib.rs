//! M:N green threads.
pub mod knob;
