//! Memory of the program's that an adapter may read or write, while its owner lends it.

use std::io;
use std::sync::Arc;

use super::Adapter;
use super::library::Registration;
use super::library::constant::{ACCESS_LOCAL_WRITE, ACCESS_REMOTE_READ};
use super::owned::Owned;
use crate::net::rdma::Access;

/// See the module. Dropping it makes its keys worthless.
pub(in crate::net::verbs) struct Region {
    // In this order.
    registration: Owned<Registration>,
    _adapter: Arc<Adapter>,
}

impl Region {
    /// Registers `len` bytes. The kernel reads the page tables, not the memory; no key is known to a peer or an adapter
    /// yet, so nothing happens to the memory before the caller gives one away. May allocate, and takes its time.
    ///
    /// # Errors
    /// The memory is not there, not writable for a target, or may not be locked.
    pub(in crate::net::verbs) fn new(
        adapter: &Arc<Adapter>,
        at: *mut u8,
        len: usize,
        access: Access,
    ) -> io::Result<Region> {
        let access = match access {
            Access::Source => ACCESS_REMOTE_READ,
            Access::Target => ACCESS_LOCAL_WRITE,
        };
        let lib = adapter.lib();
        // SAFETY: the domain lives. The kernel refuses addresses that are none.
        let made = unsafe { (lib.reg_mr)(adapter.domain().as_ptr(), at.cast(), len, access) };
        // SAFETY: just made; the adapter, which has the domain, is kept.
        let registration = unsafe { Owned::new(made, lib.dereg_mr)? };
        Ok(Region { registration, _adapter: adapter.clone() })
    }

    /// The key by which this side's requests name it.
    pub(in crate::net::verbs) fn local_key(&self) -> u32 {
        // SAFETY: the registration lives as long as this.
        unsafe { (*self.registration.as_ptr()).lkey }
    }

    /// The key by which peers' requests do.
    pub(in crate::net::verbs) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.registration.as_ptr()).rkey }
    }
}
