//! Files and everything else by `io_uring`: one ring per manager, made when it is first needed.
//!
//! *Submitting*, from any green or kernel thread: an entry is pushed under a spin lock that is held for some tens of
//! nanoseconds and that no handler takes; then, without the lock, one `io_uring_enter` hands over whatever is in the
//! ring. An operation that need not wait (a read of what is in the page cache) has ended when that returns.
//! *Completions* are read from the shared ring, without a system call, by pollers ([`Source::poll`]); the ring's
//! descriptor is readable while there are any, so a sleeper needs no eventfd. An entry's `user_data` is the address
//! of its [`Slot`], which stays in place until it is complete (`slot`).
//!
//! *Never more than fits.* There are half as many permits as the completion queue has places, so that each operation
//! in flight and its cancellation have one: the queue cannot overflow. One half of the permits is for calls whose
//! thread waits for their end ([`make`]), and waits for a permit if there is none. The other half is for transfers
//! ([`transfer`]); the blocking pool makes what gets none. The halves are apart because a transfer keeps its permit
//! until its owner drops it: a thread that held all permits by its transfers, and then made a call, would wait for
//! itself.
//!
//! *An open* may wait for another process (a FIFO's other end): a worker of the kernel makes it, and there may be as many
//! workers as operations. Whether a path names a FIFO is not asked first: it may name another file by the time of the open.
//!
//! *A fork* leaves the child without the ring: its pages are not inherited, and a counter that the fork handler
//! increments tells the child not to touch them. Files go on there by plain system calls.
//!
//! *A kernel thread that ends* takes with it what it has submitted (the kernel cancels it): the waiter submits again
//! what it has not cancelled itself.
//!
//! Where the kernel has no rings (`io_uring_disabled`, seccomp, too old), or none of some operation, or `PIOM_URING=0`,
//! the same calls are made by [`marcel::blocking()`] ([`make`]); [`Manager::file_engine`] says why.
//!
//! Rejected: `COOP_TASKRUN` and `DEFER_TASKRUN`, which save an interrupt per completion, but leave it unposted until
//! the submitting kernel thread enters the kernel: when it computes, that is the next tick (up to 4 ms). `SQPOLL` burns
//! a core. A ring per virtual processor saves a lock of 20 ns, and costs a descriptor in the watches for each.

#[cfg(not(loom))]
pub(crate) mod call;
#[cfg(not(loom))]
pub(crate) mod make;
#[cfg(not(loom))]
mod ring;
pub(crate) mod slot;
#[cfg(not(loom))]
pub(crate) mod transfer;

#[cfg(not(loom))]
pub use ring::FileEngine;
#[cfg(not(loom))]
pub(crate) use ring::Uring;
