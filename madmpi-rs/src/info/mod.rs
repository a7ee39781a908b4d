//! Info objects: lists of keys and values.

mod env;

use core::ffi::{c_char, c_int};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, out, read};
use crate::handle::{Held, Table};

static INFOS: Table<Info> = Table::new();

/// Keys and values, in the order in which the keys came.
#[derive(Clone, Default)]
pub(crate) struct Entries(Vec<Entry>);

type Entry = (Box<[u8]>, Box<[u8]>);

/// An info object.
#[derive(Default)]
pub(crate) struct Info(Mutex<Entries>);

impl Entries {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|entry| *entry.0 == *key).map(|entry| &*entry.1)
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.0.iter_mut().find(|entry| *entry.0 == *key) {
            Some(entry) => entry.1 = value.into(),
            None => self.0.push((key.into(), value.into())),
        }
    }

    /// Whether there was such a key.
    fn delete(&mut self, key: &[u8]) -> bool {
        let place = self.0.iter().position(|entry| *entry.0 == *key);
        place.map(|place| self.0.remove(place)).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|entry| (&*entry.0, &*entry.1))
    }
}

impl Info {
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The object that a handle stands for.
///
/// # Errors
/// None.
pub(crate) fn get(info: MPI_Info) -> Result<Held<Info>, Fault> {
    if info == MPI_INFO_ENV {
        let entries = env::entries(&env::arguments());
        return Ok(Held::Shared(Arc::new(Info(Mutex::new(entries)))));
    }
    INFOS.get(info.0).map(Held::Shared).ok_or_else(|| bad(info))
}

#[cold]
fn bad(info: MPI_Info) -> Fault {
    let why = match info {
        MPI_INFO_NULL => "MPI_INFO_NULL is no info object",
        MPI_INFO_ENV => "MPI_INFO_ENV stays as it is",
        _ => "it is not an info object, or was freed",
    };
    Fault::argument(MPI_ERR_INFO, "info", format_args!("{:#x}", info.0), why)
}

/// An object that may be changed.
fn own(info: MPI_Info) -> Result<Held<Info>, Fault> {
    if info == MPI_INFO_ENV { Err(bad(info)) } else { get(info) }
}

/// An argument that may be `MPI_INFO_NULL`, of a call for which no hint makes a difference.
///
/// # Errors
/// It is no info object.
pub(crate) fn check(info: MPI_Info) -> Result<(), Fault> {
    if info == MPI_INFO_NULL { Ok(()) } else { get(info).map(drop) }
}

/// What objects say of the memory that their calls take.
pub(crate) fn memory_kinds() -> Entries {
    let mut entries = Entries::default();
    entries.set(b"mpi_memory_alloc_kinds", b"system,mpi");
    entries
}

/// A handle for the program.
///
/// # Errors
/// There are too many.
pub(crate) fn handle(entries: Entries) -> Result<MPI_Info, Fault> {
    let handle = INFOS.insert(Arc::new(Info(Mutex::new(entries))));
    handle.map(MPI_Info).ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many info objects exist"))
}

/// A string argument, shorter than so many characters.
///
/// # Errors
/// It is null or too long: of that class.
pub(crate) fn string<'a>(
    place: *const c_char,
    name: &str,
    (class, most): (c_int, c_int),
) -> Result<&'a [u8], Fault> {
    if place.is_null() {
        return Err(Fault::argument(class, name, "null", "a string is needed"));
    }
    // SAFETY: the program's promise that it is a string, which nobody changes during the call.
    let text = unsafe { CStr::from_ptr(place) }.to_bytes();
    if text.len() >= most as usize {
        let why = format!("it has at most {} characters", most - 1);
        return Err(Fault::argument(
            class,
            name,
            format_args!("of {} characters", text.len()),
            &why,
        ));
    }
    Ok(text)
}

fn key<'a>(place: *const c_char) -> Result<&'a [u8], Fault> {
    let key = string(place, "key", (MPI_ERR_INFO_KEY, MPI_MAX_INFO_KEY))?;
    if key.is_empty() {
        return Err(Fault::argument(MPI_ERR_INFO_KEY, "key", "empty", "it has characters"));
    }
    Ok(key)
}

/// Writes a text and its terminating zero to where the program has room for both.
///
/// # Errors
/// The place is null.
pub(crate) fn write(text: &[u8], place: *mut c_char, name: &str) -> Result<(), Fault> {
    out(place, name, 0)?;
    // SAFETY: the program's promise that it has room for the text, or for as much as it said, and a zero.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

mpi! {
    anytime fn MPI_Info_create(info: *mut MPI_Info) {
        out(info, "info", MPI_INFO_NULL)?;
        out(info, "info", handle(Entries::default())?)
    }

    anytime fn MPI_Info_dup(info: MPI_Info, newinfo: *mut MPI_Info) {
        let entries = get(info)?.entries().clone();
        out(newinfo, "newinfo", MPI_INFO_NULL)?;
        out(newinfo, "newinfo", handle(entries)?)
    }

    anytime fn MPI_Info_free(info: *mut MPI_Info) {
        let freed = read(info, "info")?;
        own(freed)?;
        INFOS.remove(freed.0);
        out(info, "info", MPI_INFO_NULL)
    }

    anytime fn MPI_Info_set(info: MPI_Info, key_: *const c_char, value: *const c_char) {
        let (info, key) = (own(info)?, key(key_)?);
        let value = string(value, "value", (MPI_ERR_INFO_VALUE, MPI_MAX_INFO_VAL))?;
        info.entries().set(key, value);
        Ok(())
    }

    anytime fn MPI_Info_delete(info: MPI_Info, key_: *const c_char) {
        let (info, key) = (own(info)?, key(key_)?);
        if info.entries().delete(key) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(key);
        Err(Fault::argument(MPI_ERR_INFO_NOKEY, "key", name, "the info object has no such key"))
    }

    anytime fn MPI_Info_get(
        info: MPI_Info, key_: *const c_char, valuelen: c_int, value: *mut c_char, flag: *mut c_int,
    ) {
        let (info, key) = (get(info)?, key(key_)?);
        if valuelen < 0 {
            return Err(Fault::argument(MPI_ERR_ARG, "valuelen", valuelen, "it is not negative"));
        }
        let entries = info.entries();
        let found = entries.get(key);
        out(flag, "flag", c_int::from(found.is_some()))?;
        found.map_or(Ok(()), |text| write(&text[..text.len().min(valuelen as usize)], value, "value"))
    }

    anytime fn MPI_Info_get_valuelen(
        info: MPI_Info, key_: *const c_char, valuelen: *mut c_int, flag: *mut c_int,
    ) {
        let (info, key) = (get(info)?, key(key_)?);
        let entries = info.entries();
        let found = entries.get(key);
        out(flag, "flag", c_int::from(found.is_some()))?;
        found.map_or(Ok(()), |text| out(valuelen, "valuelen", text.len() as c_int))
    }

    /// `buflen` is the room that there is, zero included, and then the room that would be needed.
    anytime fn MPI_Info_get_string(
        info: MPI_Info, key_: *const c_char, buflen: *mut c_int, value: *mut c_char, flag: *mut c_int,
    ) {
        let (info, key) = (get(info)?, key(key_)?);
        let room = read(buflen, "buflen")?;
        if room < 0 {
            return Err(Fault::argument(MPI_ERR_ARG, "buflen", room, "it is not negative"));
        }
        let entries = info.entries();
        let found = entries.get(key);
        out(flag, "flag", c_int::from(found.is_some()))?;
        let Some(text) = found else { return Ok(()) };
        if room > 0 {
            write(&text[..text.len().min(room as usize - 1)], value, "value")?;
        }
        out(buflen, "buflen", text.len() as c_int + 1)
    }

    anytime fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) {
        out(nkeys, "nkeys", get(info)?.entries().0.len() as c_int)
    }

    anytime fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) {
        let info = get(info)?;
        let entries = info.entries();
        let entry = usize::try_from(n).ok().and_then(|n| entries.0.get(n));
        let entry = entry.ok_or_else(|| {
            let why = format!("the info object has {} keys, and the first is number 0", entries.0.len());
            Fault::argument(MPI_ERR_ARG, "n", n, &why)
        })?;
        write(&entry.0, key, "key")
    }

    /// What the process was started with, as the arguments of the call say it.
    anytime fn MPI_Info_create_env(argc: c_int, argv: *const *const c_char, info: *mut MPI_Info) {
        out(info, "info", MPI_INFO_NULL)?;
        let arguments = env::given(argc, argv);
        out(info, "info", handle(env::entries(&arguments))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_a_map_that_keeps_its_order(
            steps in proptest::collection::vec((any::<bool>(), 0..6u8, any::<u8>()), 0..60),
        ) {
            let (mut entries, mut oracle) = (Entries::default(), Vec::<(u8, u8)>::new());
            for (set, key, value) in steps {
                let place = oracle.iter().position(|entry| entry.0 == key);
                if set {
                    entries.set(&[key], &[value]);
                    match place {
                        Some(place) => oracle[place].1 = value,
                        None => oracle.push((key, value)),
                    }
                } else {
                    prop_assert_eq!(entries.delete(&[key]), place.is_some());
                    place.map(|place| oracle.remove(place));
                }
                let listed: Vec<(u8, u8)> = entries.iter().map(|(key, value)| (key[0], value[0])).collect();
                prop_assert_eq!(&listed, &oracle);
                let found = oracle.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
                prop_assert_eq!(entries.get(&[key]).map(|value| value[0]), found);
            }
        }
    }
}
