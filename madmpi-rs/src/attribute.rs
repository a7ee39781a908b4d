//! Attributes: values that the program attaches to communicators, datatypes and windows, under keys of its own.
//!
//! A key (*keyval*) that was freed lives on in the attributes that have it: copying and deleting them still calls its
//! functions. No lock is held while a function of the program runs, for it may call MPI.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, MutexGuard};

use crate::abi::*;
use crate::error::Fault;
use crate::handle::Table;
use marcel::plumbing::KernelMutex;

static KEYVALS: Table<Keyval> = Table::new();

/// The kind of object that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Comm,
    Type,
    Win,
}

/// `copy(object, keyval, extra state, value, new value, flag)`. Handles of all kinds are pointers.
type Copy = unsafe extern "C" fn(
    usize,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;
/// `delete(object, keyval, value, extra state)`.
type Delete = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// A key.
pub(crate) struct Keyval {
    kind: Kind,
    copy: CopyRule,
    /// `None`: deleting calls no function.
    delete: Option<Delete>,
    extra: *mut c_void,
}

// SAFETY: the pointer is the program's, and is only handed back to it.
unsafe impl Send for Keyval {}
// SAFETY: as above.
unsafe impl Sync for Keyval {}

/// How the value for a duplicate of the object is made.
#[derive(Clone, Copy)]
enum CopyRule {
    Nothing,
    TheSame,
    Asking(Copy),
}

impl Keyval {
    /// Makes a key of the functions that C passes. 0 and 1 are the standard's: no value, and the same value.
    pub(crate) fn new(kind: Kind, copy: usize, delete: usize, extra: *mut c_void) -> Keyval {
        let copy = match copy {
            MPI_COMM_NULL_COPY_FN => CopyRule::Nothing,
            MPI_COMM_DUP_FN => CopyRule::TheSame,
            // SAFETY: the program's promise that anything else is such a function.
            _ => CopyRule::Asking(unsafe { std::mem::transmute::<usize, Copy>(copy) }),
        };
        let delete = match delete {
            MPI_COMM_NULL_DELETE_FN => None,
            // SAFETY: as above.
            _ => Some(unsafe { std::mem::transmute::<usize, Delete>(delete) }),
        };
        Keyval { kind, copy, delete, extra }
    }

    /// The value for a duplicate of the object; `None`: the duplicate gets none.
    fn copied(&self, object: usize, key: c_int, value: usize) -> Result<Option<usize>, Fault> {
        let copy = match self.copy {
            CopyRule::Nothing => return Ok(None),
            CopyRule::TheSame => return Ok(Some(value)),
            CopyRule::Asking(copy) => copy,
        };
        let (mut new, mut flag) = (std::ptr::null_mut(), 0);
        // SAFETY: the program gave it as such a function; the places are there.
        let code = unsafe {
            copy(object, key, self.extra, value as *mut c_void, &raw mut new, &raw mut flag)
        };
        if code != MPI_SUCCESS {
            return Err(refused("copy", code));
        }
        Ok((flag != 0).then_some(new as usize))
    }

    fn deleted(&self, object: usize, key: c_int, value: usize) -> Result<(), Fault> {
        let Some(delete) = self.delete else { return Ok(()) };
        // SAFETY: the program gave it as such a function.
        match unsafe { delete(object, key, value as *mut c_void, self.extra) } {
            MPI_SUCCESS => Ok(()),
            code => Err(refused("delete", code)),
        }
    }
}

#[cold]
fn refused(what: &str, code: c_int) -> Fault {
    Fault::new(
        code,
        format!("the function that the program gave to {what} an attribute returned {code}"),
    )
}

/// The key that a handle stands for.
pub(crate) fn keyval(key: c_int, kind: Kind) -> Result<Arc<Keyval>, Fault> {
    let found = usize::try_from(key).ok().and_then(|key| KEYVALS.get(key));
    match found {
        Some(keyval) if keyval.kind == kind => Ok(keyval),
        Some(keyval) => {
            let why = format!("it was made for a {:?}, not for a {kind:?}", keyval.kind);
            Err(Fault::argument(MPI_ERR_KEYVAL, "keyval", key, &why))
        }
        None => {
            let why = match key {
                MPI_KEYVAL_INVALID => "MPI_KEYVAL_INVALID is not a key",
                MPI_TAG_UB..=MPI_UNIVERSE_SIZE => "predefined attributes cannot be changed",
                _ => "it is not a key, or was freed",
            };
            Err(Fault::argument(MPI_ERR_KEYVAL, "keyval", key, why))
        }
    }
}

/// The attributes of an object, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Attributes(KernelMutex<Vec<Attribute>>);

#[derive(Clone)]
struct Attribute {
    key: c_int,
    keyval: Arc<Keyval>,
    value: usize,
}

impl Attributes {
    fn list(&self) -> MutexGuard<'_, Vec<Attribute>> {
        self.0.lock()
    }

    pub(crate) fn get(&self, key: c_int) -> Option<usize> {
        self.list().iter().find(|attribute| attribute.key == key).map(|attribute| attribute.value)
    }

    /// Removes an attribute unless another thread has replaced it.
    fn take(&self, attribute: &Attribute) -> bool {
        let mut list = self.list();
        let place = list.iter().position(|other| {
            other.key == attribute.key && Arc::ptr_eq(&other.keyval, &attribute.keyval)
        });
        place.map(|place| list.remove(place)).is_some()
    }

    fn find(&self, key: c_int) -> Option<Attribute> {
        self.list().iter().find(|attribute| attribute.key == key).cloned()
    }

    pub(crate) fn set(
        &self,
        object: usize,
        (key, keyval): (c_int, Arc<Keyval>),
        value: usize,
    ) -> Result<(), Fault> {
        if let Some(old) = self.find(key) {
            old.keyval.deleted(object, key, old.value)?;
            self.take(&old);
        }
        self.list().push(Attribute { key, keyval, value });
        Ok(())
    }

    pub(crate) fn delete(&self, object: usize, key: c_int) -> Result<(), Fault> {
        let Some(attribute) = self.find(key) else { return Ok(()) };
        attribute.keyval.deleted(object, key, attribute.value)?;
        self.take(&attribute);
        Ok(())
    }

    /// Copies the attributes to a duplicate of the object, as the keys' functions decide.
    ///
    /// # Errors
    /// A function has failed.
    pub(crate) fn copy_to(&self, object: usize, duplicate: &Attributes) -> Result<(), Fault> {
        let all = self.list().clone();
        for Attribute { key, keyval, value } in all {
            if let Some(value) = keyval.copied(object, key, value)? {
                duplicate.list().push(Attribute { key, keyval, value });
            }
        }
        Ok(())
    }

    /// Adds attributes that were copied before this object existed.
    pub(crate) fn adopt(&self, copied: Attributes) {
        let copied = copied.0.into_inner();
        self.list().extend(copied);
    }

    /// Deletes all attributes of an object that is freed, the last one set first.
    ///
    /// # Errors
    /// A function has failed. Its attribute and those set before it are still there.
    pub(crate) fn delete_all(&self, object: usize) -> Result<(), Fault> {
        loop {
            let Some(attribute) = self.list().last().cloned() else { return Ok(()) };
            attribute.keyval.deleted(object, attribute.key, attribute.value)?;
            self.take(&attribute);
        }
    }
}

/// A handle for a new key.
///
/// # Errors
/// No handle is left.
pub(crate) fn insert(keyval: Keyval) -> Result<c_int, Fault> {
    let handle = KEYVALS.insert(Arc::new(keyval));
    let handle = handle.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many keys exist"))?;
    Ok(handle as c_int)
}

/// Ends the handle of a key.
///
/// # Errors
/// The handle stands for no key of that kind.
pub(crate) fn free(key: c_int, kind: Kind) -> Result<(), Fault> {
    keyval(key, kind)?;
    KEYVALS.remove(key as usize);
    Ok(())
}
