//! Attributes: values that the program attaches to communicators, datatypes and windows, under keys of its own.
//!
//! A key (*keyval*) counts its uses: the attributes that have it, and calls under way. One that was freed stays a key,
//! with the same handle, until the last use is gone. No lock is held while a function of the program runs, for it may
//! call MPI.

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
    uses: KernelMutex<Uses>,
}

#[derive(Default)]
struct Uses {
    count: usize,
    freed: bool,
}

impl Uses {
    /// Whether it is a key no more.
    fn is_gone(&self) -> bool {
        self.freed && self.count == 0
    }
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
        Keyval { kind, copy, delete, extra, uses: KernelMutex::default() }
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

/// A use of a key, by an attribute or a call: as long as there is one, its handle stands for the key.
pub(crate) struct KeyvalUse {
    key: c_int,
    keyval: Arc<Keyval>,
}

impl KeyvalUse {
    /// `None`: the key is gone.
    fn new(key: c_int, keyval: Arc<Keyval>) -> Option<KeyvalUse> {
        let mut uses = keyval.uses.lock();
        if uses.is_gone() {
            return None;
        }
        uses.count += 1;
        drop(uses);
        Some(KeyvalUse { key, keyval })
    }

    /// Frees the key, whose handle ends with the last use.
    fn free(&self) {
        self.keyval.uses.lock().freed = true;
    }

    fn copied(&self, object: usize, value: usize) -> Result<Option<usize>, Fault> {
        self.keyval.copied(object, self.key, value)
    }

    fn deleted(&self, object: usize, value: usize) -> Result<(), Fault> {
        self.keyval.deleted(object, self.key, value)
    }
}

impl Clone for KeyvalUse {
    fn clone(&self) -> KeyvalUse {
        self.keyval.uses.lock().count += 1;
        KeyvalUse { key: self.key, keyval: self.keyval.clone() }
    }
}

impl Drop for KeyvalUse {
    fn drop(&mut self) {
        let mut uses = self.keyval.uses.lock();
        uses.count -= 1;
        let gone = uses.is_gone();
        drop(uses);
        if gone {
            KEYVALS.remove(self.key as usize);
        }
    }
}

/// The key that a handle stands for.
pub(crate) fn keyval(key: c_int, kind: Kind) -> Result<KeyvalUse, Fault> {
    let found = usize::try_from(key).ok().and_then(|key| KEYVALS.get(key));
    match found.and_then(|keyval| KeyvalUse::new(key, keyval)) {
        Some(used) if used.keyval.kind == kind => Ok(used),
        Some(used) => {
            let why = format!("it was made for a {:?}, not for a {kind:?}", used.keyval.kind);
            Err(Fault::argument(MPI_ERR_KEYVAL, "keyval", key, &why))
        }
        None => Err(not_a_key(key)),
    }
}

#[cold]
fn not_a_key(key: c_int) -> Fault {
    let why = match key {
        MPI_KEYVAL_INVALID => "MPI_KEYVAL_INVALID is not a key",
        MPI_TAG_UB..=MPI_UNIVERSE_SIZE => "predefined attributes cannot be changed",
        _ => "it is not a key, or was freed",
    };
    Fault::argument(MPI_ERR_KEYVAL, "keyval", key, why)
}

/// The attributes of an object, in the order in which they were set.
#[derive(Default)]
pub(crate) struct Attributes(KernelMutex<Vec<Attribute>>);

#[derive(Clone)]
struct Attribute {
    keyval: KeyvalUse,
    value: usize,
}

impl Attributes {
    fn list(&self) -> MutexGuard<'_, Vec<Attribute>> {
        self.0.lock()
    }

    pub(crate) fn get(&self, key: &KeyvalUse) -> Option<usize> {
        self.find(key).map(|attribute| attribute.value)
    }

    fn find(&self, key: &KeyvalUse) -> Option<Attribute> {
        self.list().iter().find(|attribute| attribute.keyval.key == key.key).cloned()
    }

    /// Calls the function that deletes an attribute, which was at a place in the list and is not there any more: so no other
    /// thread deletes it, too.
    ///
    /// # Errors
    /// The function has failed. The attribute is there again, unless another thread has set one with its key.
    fn deleted(&self, object: usize, place: usize, attribute: Attribute) -> Result<(), Fault> {
        let deleted = attribute.keyval.deleted(object, attribute.value);
        if deleted.is_err() {
            let mut list = self.list();
            if list.iter().all(|other| other.keyval.key != attribute.keyval.key) {
                let place = place.min(list.len());
                list.insert(place, attribute);
            }
        }
        deleted
    }

    /// Sets an attribute, in the place of the one that has the key.
    ///
    /// # Errors
    /// The function that deletes the old one has failed.
    pub(crate) fn set(&self, object: usize, key: KeyvalUse, value: usize) -> Result<(), Fault> {
        // Again where another thread has set one meanwhile, which is the old one then.
        loop {
            self.delete(object, &key)?;
            let mut list = self.list();
            if list.iter().all(|other| other.keyval.key != key.key) {
                list.push(Attribute { keyval: key, value });
                return Ok(());
            }
        }
    }

    pub(crate) fn delete(&self, object: usize, key: &KeyvalUse) -> Result<(), Fault> {
        let (place, attribute) = {
            let mut list = self.list();
            let place = list.iter().position(|other| other.keyval.key == key.key);
            let Some(place) = place else { return Ok(()) };
            (place, list.remove(place))
        };
        self.deleted(object, place, attribute)
    }

    /// The attributes of a duplicate of the object that is still to be made: see [`Attributes::adopt`].
    ///
    /// # Errors
    /// A function has failed. What was copied is deleted; the program learns of its first failure.
    pub(crate) fn copies(&self, object: usize) -> Result<Attributes, Fault> {
        let copies = Attributes::default();
        match self.copy_to(object, &copies) {
            Ok(()) => Ok(copies),
            Err(fault) => {
                let _ = copies.delete_all(object);
                Err(fault)
            }
        }
    }

    /// Copies the attributes to a duplicate of the object, as the keys' functions decide.
    ///
    /// # Errors
    /// A function has failed.
    pub(crate) fn copy_to(&self, object: usize, duplicate: &Attributes) -> Result<(), Fault> {
        let all = self.list().clone();
        for Attribute { keyval, value } in all {
            if let Some(value) = keyval.copied(object, value)? {
                duplicate.list().push(Attribute { keyval, value });
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
            let (place, attribute) = {
                let mut list = self.list();
                let Some(attribute) = list.pop() else { return Ok(()) };
                (list.len(), attribute)
            };
            self.deleted(object, place, attribute)?;
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

/// Frees a key: its handle ends with the last attribute that has it. Until then it may be freed again, as by a delete
/// function that frees its own key: each of the attributes calls that.
///
/// # Errors
/// The handle stands for no key of that kind.
pub(crate) fn free(key: c_int, kind: Kind) -> Result<(), Fault> {
    keyval(key, kind)?.free();
    Ok(())
}
