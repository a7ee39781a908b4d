//! The calls and handles that a program uses: requests that own or borrow their buffers, and waits for them.
//!
//! From top to bottom: `calls` and `message` (what a session can do), `scope` and `detached` (what keeps a request
//! beside its handle), `request` (the handle), `several` (waits), `owned` (the engine's part, in a box), `callback`
//! (what happens at its end), `buffer` and `options`.

pub(crate) mod buffer;
mod calls;
pub(crate) mod detached;
pub(crate) mod message;
pub(crate) mod options;
pub(crate) mod owned;
pub(crate) mod request;
pub(crate) mod scope;
pub(crate) mod several;
