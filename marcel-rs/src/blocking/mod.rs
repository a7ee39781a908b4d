//! Calls that block in the kernel, and the spare kernel threads that make them.
//!
//! ```
//! # let runtime = marcel::Runtime::builder().build()?;
//! # runtime.run(|| {
//! let hosts = marcel::blocking(|| std::fs::read_to_string("/etc/hosts"));
//! # assert!(hosts.is_ok());
//! # });
//! # Ok::<(), marcel::Error>(())
//! ```

#[cfg(not(loom))]
mod choice;
#[cfg(not(loom))]
mod export;
pub mod lwp;
pub(crate) mod pool;
#[cfg(not(loom))]
pub(crate) mod spare;

#[cfg(not(loom))]
pub(crate) use self::choice::Blocking;
#[cfg(not(loom))]
pub use self::{choice::blocking, export::export};
