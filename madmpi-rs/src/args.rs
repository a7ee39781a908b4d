//! Arguments as C passes them: places for results, values, arrays and strings.
//!
//! Each type here is a pointer for C. Its invariant is what the standard says of such an argument, which the program
//! promises by passing it: a value of the type is made by no code of this library, only by a call from C. So the
//! accesses below are the only ones, and they check for null. The length of an array is not part of its type: an entry
//! point names it beside the array, with [`array!`], [`array_mut!`] or [`statuses!`].

use core::ffi::{c_char, c_int};
use std::ffi::CStr;
use std::marker::PhantomData;

use crate::abi::*;
use crate::error::Fault;

/// A place for a result.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// A place that has a value and takes another one.
#[repr(transparent)]
pub(crate) struct InOut<T>(*mut T);

/// A place that has a value.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

/// A place for a status, or `MPI_STATUS_IGNORE`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct StatusOut(*mut MPI_Status);

/// An array that stays as it is during the call.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Array<'a, T>(*const T, PhantomData<&'a [T]>);

/// An array that the call changes, and that nothing else touches during the call.
#[repr(transparent)]
pub(crate) struct ArrayMut<'a, T>(*mut T, PhantomData<&'a mut [T]>);

/// An array of statuses, or `MPI_STATUSES_IGNORE`.
#[repr(transparent)]
pub(crate) struct StatusArray(*mut MPI_Status);

/// The statuses of an array, whose length is known.
pub(crate) struct Statuses {
    place: *mut MPI_Status,
    len: usize,
}

/// A string that stays as it is during the call.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

/// Strings, with a null pointer after the last one, that stay as they are during the call; null: none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Texts<'a>(*const Text<'a>, PhantomData<&'a CStr>);

/// A place for a string of less than `ROOM` characters and its terminating zero.
#[repr(transparent)]
pub(crate) struct TextOut<const ROOM: c_int>(*mut c_char);

macro_rules! places {
    ($($place:ident)*) => {$(
        impl<T> Clone for $place<T> {
            #[inline]
            fn clone(&self) -> $place<T> {
                *self
            }
        }

        impl<T> Copy for $place<T> {}
    )*};
}
places! { Out InOut In }

impl<T> From<InOut<T>> for Out<T> {
    #[inline]
    fn from(place: InOut<T>) -> Out<T> {
        Out(place.0)
    }
}

impl<T> From<InOut<T>> for In<T> {
    #[inline]
    fn from(place: InOut<T>) -> In<T> {
        In(place.0)
    }
}

impl<T> Out<T> {
    /// Checks the place of a result that comes later.
    ///
    /// # Errors
    /// It is null.
    #[inline]
    pub(crate) fn check(self, name: &str) -> Result<(), Fault> {
        if self.0.is_null() { Err(nowhere(name)) } else { Ok(()) }
    }

    /// Writes a result that the program may not want; whether it does.
    #[inline]
    pub(crate) fn put(self, value: T) -> bool {
        if self.0.is_null() {
            return false;
        }
        // SAFETY: it is a place for such a value, by the invariant.
        unsafe { self.0.write(value) };
        true
    }
}

impl<T> Out<T> {
    /// Writes the handle that `make` makes, or `null` if it fails.
    ///
    /// # Errors
    /// The place is null: then nothing is made. Those of `make`.
    pub(crate) fn made(
        self,
        name: &str,
        null: T,
        make: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<(), Fault> {
        out(self, name, null)?;
        out(self, name, make()?)
    }
}

impl Out<MPI_Request> {
    /// Writes the request that `make` makes, or `MPI_REQUEST_NULL` if it fails.
    ///
    /// # Errors
    /// The place is null: then nothing is made. Those of `make`.
    #[inline]
    pub(crate) fn make(
        self,
        make: impl FnOnce() -> Result<MPI_Request, Fault>,
    ) -> Result<(), Fault> {
        self.check("request")?;
        let made = make();
        self.put(*made.as_ref().unwrap_or(&MPI_REQUEST_NULL));
        made.map(drop)
    }
}

/// Writes a result.
///
/// # Errors
/// The place is null.
#[inline]
pub(crate) fn out<T>(place: impl Into<Out<T>>, name: &str, value: T) -> Result<(), Fault> {
    if place.into().put(value) { Ok(()) } else { Err(nowhere(name)) }
}

/// Gives the program a size, or `MPI_UNDEFINED` if the result's type has no room for it.
///
/// # Errors
/// The place is null.
pub(crate) fn size_or_undefined<N: TryFrom<usize> + From<c_int>>(
    place: Out<N>,
    size: usize,
) -> Result<(), Fault> {
    out(place, "size", N::try_from(size).unwrap_or(N::from(MPI_UNDEFINED)))
}

/// Reads a value.
///
/// # Errors
/// The place is null.
#[inline]
pub(crate) fn read<T: Copy>(place: impl Into<In<T>>, name: &str) -> Result<T, Fault> {
    let place = place.into().0;
    if place.is_null() {
        return Err(missing(name, "a value is needed"));
    }
    // SAFETY: it has a value, by the invariant.
    Ok(unsafe { place.read() })
}

#[cold]
fn nowhere(name: &str) -> Fault {
    missing(name, "the result has nowhere to go")
}

#[cold]
fn missing(name: &str, why: &str) -> Fault {
    Fault::argument(MPI_ERR_ARG, name, "null", why)
}

/// The elements of an [`Array`] argument, of which the standard says that it has `$len`.
macro_rules! array {
    ($array:ident[$len:expr]) => {
        $crate::args::array!($array[$len], stringify!($array))
    };
    ($array:ident[$len:expr], $name:expr) => {{
        let (len, name) = (i64::from($len), $name);
        // SAFETY: the entry point names the length that the standard gives the array.
        unsafe { $crate::args::Array::elements($array, len, name) }
    }};
}
pub(crate) use array;

/// The elements of an [`ArrayMut`] argument, of which the standard says that it has `$len`.
macro_rules! array_mut {
    ($array:ident[$len:expr]) => {
        $crate::args::array_mut!($array[$len], stringify!($array))
    };
    ($array:ident[$len:expr], $name:expr) => {{
        let (len, name) = (i64::from($len), $name);
        // SAFETY: the entry point names the length that the standard gives the array.
        unsafe { $crate::args::ArrayMut::elements($array, len, name) }
    }};
}
pub(crate) use array_mut;

/// The statuses of a [`StatusArray`] argument, of which the standard says that it has `$len`.
macro_rules! statuses {
    ($array:ident[$len:expr]) => {{
        let len: usize = $len;
        // SAFETY: the entry point names the length that the standard gives the array.
        unsafe { $crate::args::StatusArray::statuses($array, len) }
    }};
}
pub(crate) use statuses;

impl<'a, T> Array<'a, T> {
    /// See [`array!`].
    ///
    /// # Safety
    /// The array has so many elements.
    ///
    /// # Errors
    /// It is null although it has elements, or their number is negative.
    #[inline]
    pub(crate) unsafe fn elements(self, count: i64, name: &str) -> Result<&'a [T], Fault> {
        match number_of(count, self.0, name)? {
            0 => Ok(&[]),
            // SAFETY: the caller's promise, and the invariant.
            len => Ok(unsafe { std::slice::from_raw_parts(self.0, len) }),
        }
    }

    /// The address, for constants of the ABI that stand for no array.
    pub(crate) fn address(&self) -> usize {
        self.0.addr()
    }
}

impl<'a, T> ArrayMut<'a, T> {
    /// See [`array_mut!`].
    ///
    /// # Safety
    /// The array has so many elements.
    ///
    /// # Errors
    /// It is null although it has elements, or their number is negative.
    #[inline]
    pub(crate) unsafe fn elements(self, count: i64, name: &str) -> Result<&'a mut [T], Fault> {
        match number_of(count, self.0, name)? {
            0 => Ok(&mut []),
            // SAFETY: the caller's promise, and the invariant.
            len => Ok(unsafe { std::slice::from_raw_parts_mut(self.0, len) }),
        }
    }

    /// The address, for constants of the ABI that stand for no array.
    pub(crate) fn address(&self) -> usize {
        self.0.addr()
    }
}

/// # Errors
/// The value is negative: of that class.
pub(crate) fn not_negative(class: c_int, name: &str, value: c_int) -> Result<(), Fault> {
    match value {
        0.. => Ok(()),
        _ => Err(Fault::argument(class, name, value, "it must not be negative")),
    }
}

#[inline]
fn number_of<T>(count: i64, array: *const T, name: &str) -> Result<usize, Fault> {
    let Ok(len) = usize::try_from(count) else {
        let why = "a number of elements must not be negative";
        return Err(Fault::argument(MPI_ERR_COUNT, name, count, why));
    };
    if len > 0 && array.is_null() {
        return Err(missing(name, "an array is needed"));
    }
    Ok(len)
}

impl StatusOut {
    /// Writes a status. `MPI_ERROR` stays as it is, as the standard says, unless the status is an empty one.
    #[inline]
    pub(crate) fn put(self, status: MPI_Status) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: it is a place for a status, by the invariant.
        unsafe {
            (&raw mut (*self.0).MPI_SOURCE).write(status.MPI_SOURCE);
            (&raw mut (*self.0).MPI_TAG).write(status.MPI_TAG);
            (&raw mut (*self.0).MPI_internal).write(status.MPI_internal);
        }
        if status.MPI_SOURCE == MPI_ANY_SOURCE {
            self.put_error(MPI_SUCCESS);
        }
    }

    /// Writes the error of a status.
    #[inline]
    pub(crate) fn put_error(self, class: c_int) {
        if !self.0.is_null() {
            // SAFETY: as above.
            unsafe { (&raw mut (*self.0).MPI_ERROR).write(class) };
        }
    }
}

impl StatusArray {
    /// See [`statuses!`].
    ///
    /// # Safety
    /// The array has so many statuses.
    pub(crate) unsafe fn statuses(self, len: usize) -> Statuses {
        Statuses { place: self.0, len }
    }
}

impl Statuses {
    /// The place for the status with that index; none is past the end.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> StatusOut {
        match self.place.is_null() || index >= self.len {
            true => StatusOut(std::ptr::null_mut()),
            // SAFETY: the array has a status with that index.
            false => StatusOut(unsafe { self.place.add(index) }),
        }
    }
}

impl<'a> Text<'a> {
    /// # Errors
    /// It is null: of that class.
    pub(crate) fn bytes_or(self, class: c_int, name: &str) -> Result<&'a [u8], Fault> {
        self.bytes().ok_or_else(|| Fault::argument(class, name, "null", "a string is needed"))
    }

    /// The name of an object: as much of it as names may have.
    ///
    /// # Errors
    /// It is null.
    pub(crate) fn object_name(self, name: &str) -> Result<&'a [u8], Fault> {
        let text = self.bytes_or(MPI_ERR_ARG, name)?;
        Ok(&text[..text.len().min(MPI_MAX_OBJECT_NAME as usize - 1)])
    }

    /// `None`: it is null.
    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: it is a string, by the invariant.
        Some(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }

    /// A string that has less than `most` characters.
    ///
    /// # Errors
    /// It is null or too long: of that class.
    pub(crate) fn bytes_below(
        self,
        most: c_int,
        class: c_int,
        name: &str,
    ) -> Result<&'a [u8], Fault> {
        let text = self.bytes_or(class, name)?;
        if text.len() >= most as usize {
            let why = format!("it has at most {} characters", most - 1);
            let value = format_args!("of {} characters", text.len());
            return Err(Fault::argument(class, name, value, &why));
        }
        Ok(text)
    }

    /// The text, with replacements for what is no UTF-8.
    ///
    /// # Errors
    /// It is null.
    pub(crate) fn string(self, name: &str) -> Result<String, Fault> {
        let text = self.bytes().ok_or_else(|| missing(name, "a value is needed"))?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

impl<'a> Texts<'a> {
    /// No strings.
    pub(crate) const NONE: Texts<'static> = Texts(std::ptr::null(), PhantomData);

    /// All of them.
    pub(crate) fn all(self) -> impl Iterator<Item = &'a [u8]> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            // SAFETY: a list of strings goes to its null pointer, by the invariant, which has not been reached.
            let text = unsafe { *next }.bytes()?;
            // SAFETY: as above.
            next = unsafe { next.add(1) };
            Some(text)
        })
    }
}

impl<const ROOM: c_int> TextOut<ROOM> {
    /// Writes a text, as much of it as there is room for, and its terminating zero; the length of what it wrote.
    ///
    /// # Errors
    /// The place is null.
    pub(crate) fn put(self, text: &[u8], name: &str) -> Result<c_int, Fault> {
        if self.0.is_null() {
            return Err(nowhere(name));
        }
        // SAFETY: it is a place for so many characters, by the invariant.
        let place = unsafe { std::slice::from_raw_parts_mut(self.0, ROOM as usize) };
        Ok(write(text, place))
    }
}

/// Writes a text, as much of it as there is room for, and its terminating zero; the length of what it wrote.
pub(crate) fn write(text: &[u8], place: &mut [c_char]) -> c_int {
    let Some(most) = place.len().checked_sub(1) else { return 0 };
    let text = &text[..text.len().min(most)];
    for (place, &byte) in place.iter_mut().zip(text.iter().chain(&[0])) {
        *place = byte as c_char;
    }
    text.len() as c_int
}
