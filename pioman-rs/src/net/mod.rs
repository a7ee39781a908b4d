//! Sockets with `std`'s method names and meaning, that block one green thread only.
//!
//! Ordinary code over [`std::net`] and [`std::os::unix::net`] works when these names are put in their place. What waits
//! here is the calling green thread, or the calling kernel thread; how, the thread's manager decides
//! ([`crate::Manager::here`]).
//!
//! ```
//! use pioman::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! let runtime = pioman::Runtime::new()?;
//! let answer = runtime.run(|| -> std::io::Result<String> {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     let server = marcel::spawn(move || -> std::io::Result<()> {
//!         let (mut stream, _) = listener.accept()?;
//!         stream.write_all(b"hello")
//!     });
//!     let mut text = String::new();
//!     TcpStream::connect(address)?.read_to_string(&mut text)?;
//!     server.join().unwrap()?;
//!     Ok(text)
//! })?;
//! assert_eq!(answer, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What each call blocks
//! | call | green thread | its virtual processor | kernel thread outside a runtime |
//! |---|---|---|---|
//! | `connect`, `accept`, `read`, `write`, `send`, `recv`, `peek`, … | blocks | goes on | blocks |
//! | a host's name for an address ([`ToSocketAddrs`]) | blocks | goes on | blocks |
//! | the rest: `bind`, `shutdown`, `set_…` | goes on | goes on | goes on |
//!
//! A call is tried first; only when the kernel says "not now" does the thread wait ([`crate::fd`]). So the fast path is
//! the one system call, and what it costs beside.
//!
//! # Where it differs from `std`
//! * The descriptor is non-blocking, and so are those that share its open file: clones, and what a child process
//!   inherits. Converting into `std`'s type, or [`std::os::fd::OwnedFd`], makes it blocking again, for clones as well.
//! * Converting from `std`'s type makes a socket that blocks the green thread, whatever the descriptor was before.
//! * Addresses are given as [`ToSocketAddrs`] of this module, which is `std`'s for the same types.
//! * When a limit is reached (`RLIMIT_NOFILE`) the error says what to do.
//! * A thread of a runtime that stops, when it would wait in a destructor, gets an error instead.

mod address;
mod datagram;
mod socket;
mod tcp;
mod udp;
mod unix;

pub use address::ToSocketAddrs;
pub use datagram::UnixDatagram;
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixIncoming, UnixListener, UnixStream};
