//! Access to data: reads and writes, at which place of the file, alone or with the other ranks.

use std::sync::Arc;

use super::File;
use super::collective::{self, Part};
use super::errors::{beyond, fault};
use super::exchange::{self, Turn};
use super::hints::Hints;
use super::mapped::ByPages;
use super::representation::Bytes;
use super::transfer::{self, Buffer, Progress};
use super::view::View;
use crate::abi::*;
use crate::datatype::{Choice, Elements};
use crate::error::Fault;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// So many etypes from the view's beginning.
    At(MPI_Offset),
    /// The rank's own pointer.
    Own,
    /// The shared pointer.
    Shared,
    /// The shared pointer, one rank after the other.
    Ordered,
}

/// An access, as a call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) writes: bool,
    pub(crate) place: Place,
    pub(crate) collective: bool,
}

/// An access that can be carried out, by any thread.
pub(super) struct Prepared {
    access: Access,
    view: Arc<View>,
    /// The hints and the atomic mode of the call: a rank may change them before its access runs, and another one after that.
    hints: Hints,
    atomic: bool,
    /// If it is a collective one.
    turn: Option<Turn>,
    /// The data, and where they are in the view, in bytes. A rank that has failed takes part in collectives without.
    data: Result<(Elements, Bytes, u64), Fault>,
}

impl Prepared {
    /// Carries it out now, if that waits for nothing. `None`: it does.
    pub(super) fn at_once(&mut self, file: &File) -> Option<Result<MPI_Status, Fault>> {
        let Prepared { access, view, turn: None, data: Ok((elements, bytes, position)), .. } = self
        else {
            return None;
        };
        let done = bytes.len();
        if done > 0 && self.atomic {
            return None;
        }
        if done > 0 && !file.by_pages(view, *position).at_once(&mut buffer(bytes, access.writes)) {
            return None;
        }
        Some(finished(*access, view, elements, bytes, done))
    }

    /// Carries it out, up to what the program's functions do. It calls none of them.
    ///
    /// # Errors
    /// The file, or another rank, has failed; a rank has died.
    pub(super) fn run(self, file: &File) -> Result<CarriedOut, Fault> {
        let Prepared { access, view, hints, atomic, turn, mut data } = self;
        let writes = access.writes;
        let done = match (turn, &mut data) {
            // The places of ordered accesses are all that their ranks have to agree on.
            (Some(turn), data) if access.place != Place::Ordered => {
                let (position, len) =
                    data.as_ref().map_or((0, 0), |(_, bytes, at)| (*at, bytes.len()));
                let (view, len) = (&*view, len as u64);
                let part = Part { file, view, hints, atomic, turn, position, len, writes };
                let buffer = match data {
                    Ok((_, bytes, _)) => Ok(buffer(bytes, writes)),
                    Err(fault) => Err(fault.clone()),
                };
                collective::access(&part, buffer)?
            }
            (_, Ok((_, bytes, position))) => {
                file.transfer(&view, *position, buffer(bytes, writes), (hints.sieve, atomic))?
            }
            (_, Err(fault)) => return Err(fault.clone()),
        };
        let (elements, bytes, _) = data?;
        Ok(CarriedOut { access, view, elements, bytes, done: done as usize })
    }
}

/// An access that is carried out, except that the program does not have yet what a read has brought.
pub(super) struct CarriedOut {
    access: Access,
    view: Arc<View>,
    elements: Elements,
    bytes: Bytes,
    done: usize,
}

impl CarriedOut {
    /// Whether [`CarriedOut::finish`] calls a function of the program. That of a write has been called before.
    pub(super) fn calls_program(&self) -> bool {
        !self.access.writes && self.view.representation.calls_program()
    }

    /// Gives the program what a read has brought; the status.
    ///
    /// # Errors
    /// The program's function has failed.
    pub(super) fn finish(self) -> Result<MPI_Status, Fault> {
        let CarriedOut { access, view, elements, bytes, done } = self;
        finished(access, &view, &elements, &bytes, done)
    }
}

/// The status of an access of which so many bytes are done.
fn finished(
    access: Access,
    view: &View,
    elements: &Elements,
    bytes: &Bytes,
    done: usize,
) -> Result<MPI_Status, Fault> {
    let len = match access.writes {
        true => elements.len(),
        false => view.representation.incoming(elements, bytes, done)?,
    };
    Ok(MPI_Status::of(MPI_UNDEFINED, MPI_UNDEFINED, len))
}

/// The bytes of an access, as the file takes them.
fn buffer(bytes: &mut Bytes, writes: bool) -> Buffer<'_> {
    if writes { Buffer::From(bytes.get()) } else { Buffer::Into(bytes.get_mut()) }
}

impl File {
    /// # Errors
    /// The file was not opened for that.
    fn check(&self, access: Access) -> Result<(), Fault> {
        let mode = self.amode;
        if access.writes && mode & MPI_MODE_RDONLY != 0 {
            return Err(Fault::new(MPI_ERR_READ_ONLY, "the file was opened with MPI_MODE_RDONLY"));
        }
        if !access.writes && mode & MPI_MODE_WRONLY != 0 {
            return Err(Fault::new(MPI_ERR_ACCESS, "the file was opened with MPI_MODE_WRONLY"));
        }
        let sequential = mode & MPI_MODE_SEQUENTIAL != 0;
        if sequential && matches!(access.place, Place::At(_) | Place::Own) {
            let why = "the file was opened with MPI_MODE_SEQUENTIAL: only the shared pointer is to be used";
            return Err(Fault::new(MPI_ERR_UNSUPPORTED_OPERATION, why));
        }
        Ok(())
    }

    /// The elements, their bytes in the file, and how many etypes they are.
    fn described(
        &self,
        view: &View,
        access: Access,
        choice: Choice,
    ) -> Result<(Elements, i64), Fault> {
        self.check(access)?;
        let elements = choice.elements()?.checked()?;
        let len = view.representation.len(&elements)?;
        if !len.is_multiple_of(view.unit) {
            let why = format!("an etype of the view has {}", view.unit);
            let value = format_args!("elements of {len} bytes");
            return Err(Fault::argument(MPI_ERR_IO, "count", value, &why));
        }
        Ok((elements, (len / view.unit) as i64))
    }

    /// Prepares an access: its place is known, and its pointer moved, when this returns.
    ///
    /// # Errors
    /// An argument of an access that is not collective is not acceptable; a rank has died.
    pub(super) fn prepare(
        &self,
        access: Access,
        choice: Choice,
        beside: bool,
    ) -> Result<Prepared, Fault> {
        let (view, hints, atomic) = (self.view(), self.hints(), self.is_atomic());
        let turn = || match beside {
            true => Turn::Beside(self.comm.series_of_call().number()),
            false => Turn::Now,
        };
        let turn = access.collective.then(turn);
        let data = self.described(&view, access, choice).and_then(|(elements, etypes)| {
            let bytes = match access.writes {
                true => view.representation.outgoing(&elements)?,
                false => view.representation.room(&elements)?,
            };
            Ok((elements, bytes, etypes))
        });
        let (len, etypes) =
            data.as_ref().map_or((0, 0), |(_, bytes, etypes)| (bytes.len() as u64, *etypes));
        let position = |place: MPI_Offset| {
            let position = u64::try_from(place).ok().and_then(|place| place.checked_mul(view.unit));
            let position = position.ok_or_else(|| {
                Fault::argument(
                    MPI_ERR_ARG,
                    "offset",
                    place,
                    "it must not be negative, nor beyond all files",
                )
            })?;
            view.map.check(view.disp, position, len)?;
            Ok(position)
        };
        // A pointer moves only now: an access whose data are refused leaves it where it is. So does one whose place is
        // refused, if the pointer is the own one; the shared one is read and moved in one step.
        let position = match access.place {
            Place::Ordered => {
                let (before, all) = exchange::order(&self.comm, etypes)?;
                let first = exchange::from_first(&self.comm, || self.shared.add(all))?;
                first.checked_add(before).ok_or_else(beyond).and_then(position)
            }
            Place::At(at) => position(at),
            Place::Own => self.advance(etypes, position),
            Place::Shared if data.is_ok() => position(self.shared.add(etypes)?),
            Place::Shared => Ok(0),
        };
        let data = data.and_then(|(elements, bytes, _)| Ok((elements, bytes, position?)));
        if turn.is_none()
            && let Err(fault) = data
        {
            return Err(fault);
        }
        Ok(Prepared { access, view, hints, atomic, turn, data })
    }

    /// An access from a position of the view on, by the file's pages.
    fn by_pages<'a>(&'a self, view: &'a View, position: u64) -> ByPages<'a> {
        ByPages { file: &self.file, mapped: &self.mapped, view, position }
    }

    /// Reads or writes bytes of the view, by this rank alone; how many bytes. A read of scattered data reads up to `sieve`
    /// bytes at a time.
    ///
    /// # Errors
    /// The file has failed.
    pub(super) fn transfer(
        &self,
        view: &View,
        position: u64,
        mut bytes: Buffer<'_>,
        (sieve, atomic): (u64, bool),
    ) -> Result<u64, Fault> {
        let extents = view.extents(position, bytes.len());
        let writes = matches!(bytes, Buffer::From(_));
        let go = || {
            if self.by_pages(view, position).scattered(&mut bytes) {
                return Ok(bytes.len());
            }
            let (Progress { bytes, error }, what) = match bytes {
                Buffer::From(bytes) => (transfer::write(&self.file, extents, bytes), "writing"),
                Buffer::Into(bytes) => {
                    let mut between = self.scratch();
                    let read = transfer::read(&self.file, extents, bytes, (&mut between, sieve));
                    self.keep(between);
                    (read, "reading")
                }
            };
            error.map_or(Ok(bytes), |error| Err(fault(&self.says(what), &error)))
        };
        if atomic { self.shared.locked(writes, go) } else { go() }
    }
}

/// The blocking form.
///
/// # Errors
/// An argument is not acceptable; the file or another rank has failed; a rank has died.
pub(crate) fn run(file: &File, access: Access, choice: Choice) -> Result<MPI_Status, Fault> {
    file.prepare(access, choice, false)?.run(file)?.finish()
}
