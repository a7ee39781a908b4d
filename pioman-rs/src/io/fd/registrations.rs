//! With which managers a descriptor is registered: with each whose threads have waited for it.
//!
//! Nearly always that is one, the first, which is found without a lock. But a listener may be made by a kernel thread,
//! accepted on by the green threads of one runtime, and by another one's after that; no manager polls for another one's
//! threads, so each has its own entry in its own set.
//!
//! A descriptor keeps the first set alive, which is looked at without a lock, and no other one: it may outlive thousands of
//! runtimes, and each set is a descriptor of the kernel's.

use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock, Weak};

use crate::io::fd::readiness::Readiness;
use crate::io::fd::set::{FdSource, Interest, Key, READ, WRITE};
use crate::kernel_limits::explain;
use crate::manager::Manager;
use crate::manager::own_sources::OwnSource;
use crate::progress::source::SourceId;
use marcel::plumbing::KernelMutex;

pub(crate) struct Registrations {
    fd: RawFd,
    first: OnceLock<Registration>,
    /// The others; those of managers that are gone until a thread registers. A thread that registers, or asks the
    /// kernel for more events, holds the lock.
    others: KernelMutex<Vec<Other>>,
}

struct Registration {
    source: Arc<FdSource>,
    id: SourceId,
    key: Key,
}

/// A registration that ends with its manager.
struct Other {
    source: Weak<FdSource>,
    id: SourceId,
    key: Key,
}

/// Where a thread waits.
pub(crate) struct Place {
    pub(crate) source: Arc<FdSource>,
    pub(crate) id: SourceId,
    key: Key,
    /// It is the one that [`Registrations::seen`] looks at.
    pub(crate) is_first: bool,
}

impl Place {
    pub(crate) fn readiness(&self, interest: Interest) -> &Readiness {
        self.source.readiness(self.key, interest)
    }
}

fn events(interest: Option<Interest>) -> u32 {
    match interest {
        None => 0,
        Some(Interest::Readable) => READ,
        Some(Interest::Writable) => WRITE,
    }
}

impl Registrations {
    pub(crate) fn new(fd: RawFd) -> Registrations {
        Registrations { fd, first: OnceLock::new(), others: KernelMutex::default() }
    }

    /// The count of the first registration, if there is one.
    #[inline]
    pub(crate) fn seen(&self, interest: Interest) -> Option<u64> {
        self.first.get().map(|first| first.source.readiness(first.key, interest).seen())
    }

    /// The place where the manager's threads wait; the kernel has been asked for the events.
    pub(crate) fn with(&self, manager: &Manager, interest: Option<Interest>) -> io::Result<Place> {
        let made = manager.own_source(FdSource::new).map_err(explain)?;
        let events = events(interest);
        if let Some(first) = self.first.get()
            && Arc::ptr_eq(&first.source, &made.source)
            && made.source.is_wide(first.key, events)
        {
            return Ok(first.place(true));
        }
        self.with_slow(made, events)
    }

    #[cold]
    fn with_slow(&self, made: &OwnSource<FdSource>, events: u32) -> io::Result<Place> {
        let source = &made.source;
        let mut others = self.others.lock();
        let first = self.first.get().filter(|first| Arc::ptr_eq(&first.source, source));
        if let Some(first) = first {
            source.widen(first.key, self.fd, events).map_err(refusal)?;
            return Ok(first.place(true));
        }
        others.retain(|other| other.source.strong_count() > 0);
        let known = others.iter().find(|other| std::ptr::eq(other.source.as_ptr(), &**source));
        if let Some(known) = known {
            source.widen(known.key, self.fd, events).map_err(refusal)?;
            return Ok(Place {
                source: source.clone(),
                id: known.id,
                key: known.key,
                is_first: false,
            });
        }
        let key = source.add(self.fd, events).map_err(refusal)?;
        let new = Registration { source: source.clone(), id: made.id, key };
        let place = new.place(self.first.get().is_none());
        if let Err(Registration { source, id, key }) = self.first.set(new) {
            others.push(Other { source: Arc::downgrade(&source), id, key });
        }
        Ok(place)
    }
}

impl Registration {
    fn place(&self, is_first: bool) -> Place {
        Place { source: self.source.clone(), id: self.id, key: self.key, is_first }
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            first.source.remove(first.key, self.fd);
        }
        for other in self.others.get_mut().drain(..) {
            if let Some(source) = other.source.upgrade() {
                source.remove(other.key, self.fd);
            }
        }
    }
}

fn refusal(error: io::Error) -> io::Error {
    let (kind, why) = match error.raw_os_error() {
        Some(libc::EPERM) => (
            io::ErrorKind::Unsupported,
            "no thread can wait for this kind of descriptor: a regular file or a directory is always ready for the kernel",
        ),
        Some(libc::EEXIST) => (
            io::ErrorKind::AlreadyExists,
            "this descriptor is registered with the manager already: share that registration",
        ),
        _ => return explain(error),
    };
    io::Error::new(kind, why)
}
