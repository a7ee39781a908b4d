//! Pointers and views, as the program sets them and asks for them.

use std::sync::Arc;

use super::File;
use super::exchange::{agree, check_same, from_first, same};
use super::hints::{Hints, WORDS};
use super::representation::Representation;
use super::view::View;
use crate::abi::*;
use crate::datatype;
use crate::error::Fault;
use crate::handle::Ref;

/// A view, as the program sees it.
pub(crate) struct Shown {
    pub(crate) disp: MPI_Offset,
    pub(crate) etype: Ref<datatype::Datatype>,
    pub(crate) filetype: Ref<datatype::Datatype>,
    pub(crate) representation: Vec<u8>,
}

/// Where a seek leads to.
fn target(base: i64, offset: MPI_Offset) -> Result<i64, Fault> {
    base.checked_add(offset).filter(|&target| target >= 0).ok_or_else(|| {
        let why = "it leads to before the view's beginning";
        Fault::argument(MPI_ERR_ARG, "offset", offset, why)
    })
}

impl File {
    /// Moves the own pointer on, if `position` takes where it was; what that gives.
    ///
    /// # Errors
    /// Those of `position`.
    pub(super) fn advance<T>(
        &self,
        etypes: i64,
        position: impl FnOnce(MPI_Offset) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut pointer = self.pointer.lock();
        let position = position(*pointer)?;
        *pointer = pointer.saturating_add(etypes);
        Ok(position)
    }

    /// # Errors
    /// Only the shared pointer may be used.
    fn check_own(&self) -> Result<(), Fault> {
        if self.amode & MPI_MODE_SEQUENTIAL == 0 {
            return Ok(());
        }
        let why = "the file was opened with MPI_MODE_SEQUENTIAL";
        Err(Fault::new(MPI_ERR_UNSUPPORTED_OPERATION, why))
    }

    /// Where the offset of a seek counts from. `None`: from the pointer.
    fn base(&self, whence: i32) -> Result<Option<i64>, Fault> {
        match whence {
            MPI_SEEK_SET => Ok(Some(0)),
            MPI_SEEK_CUR => Ok(None),
            MPI_SEEK_END => Ok(Some(self.view().end(self.size()?))),
            _ => {
                let why = "it is MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END";
                Err(Fault::argument(MPI_ERR_ARG, "whence", whence, why))
            }
        }
    }

    /// Moves the own pointer.
    ///
    /// # Errors
    /// There is no such place.
    pub(crate) fn seek(&self, offset: MPI_Offset, whence: i32) -> Result<(), Fault> {
        self.check_own()?;
        let base = self.base(whence)?;
        let mut pointer = self.pointer.lock();
        *pointer = target(base.unwrap_or(*pointer), offset)?;
        Ok(())
    }

    /// The own pointer.
    ///
    /// # Errors
    /// Only the shared pointer may be used.
    pub(crate) fn tell(&self) -> Result<MPI_Offset, Fault> {
        self.check_own()?;
        Ok(*self.pointer.lock())
    }

    /// Moves the shared pointer, at all ranks.
    ///
    /// # Errors
    /// There is no such place, or ranks differ; a rank has died.
    pub(crate) fn seek_shared(&self, offset: MPI_Offset, whence: i32) -> Result<(), Fault> {
        same(&self.comm, "whence", Ok(whence as u64))?;
        same(&self.comm, "offset", Ok(offset as u64))?;
        from_first(&self.comm, || {
            let base = self.base(whence)?.map_or_else(|| self.shared.add(0), Ok)?;
            self.shared.set(target(base, offset)?).map(|()| 0)
        })?;
        Ok(())
    }

    /// The shared pointer.
    ///
    /// # Errors
    /// A rank has died.
    pub(crate) fn tell_shared(&self) -> Result<MPI_Offset, Fault> {
        self.shared.add(0)
    }

    /// The byte of the file where an etype of the view begins.
    ///
    /// # Errors
    /// There is no such byte.
    pub(crate) fn byte_offset(&self, offset: MPI_Offset) -> Result<MPI_Offset, Fault> {
        self.check_own()?;
        if offset < 0 {
            return Err(Fault::argument(MPI_ERR_ARG, "offset", offset, "it must not be negative"));
        }
        self.view().place(offset)
    }

    /// The extent of a datatype in the file.
    ///
    /// # Errors
    /// The representation knows none.
    pub(crate) fn type_extent(&self, datatype: MPI_Datatype) -> Result<i64, Fault> {
        self.view().representation.extent(&*datatype::get(datatype)?)
    }

    /// The view.
    pub(crate) fn shown(&self) -> Shown {
        let view = self.view();
        Shown {
            disp: view.disp as MPI_Offset,
            etype: view.etype.clone(),
            filetype: view.filetype.clone(),
            representation: view.representation.name().to_vec(),
        }
    }

    fn new_view(
        disp: MPI_Offset,
        etype: MPI_Datatype,
        filetype: MPI_Datatype,
        representation: &[u8],
    ) -> Result<View, Fault> {
        let disp = u64::try_from(disp).map_err(|_| {
            let why =
                "it is not negative, nor MPI_DISPLACEMENT_CURRENT without MPI_MODE_SEQUENTIAL";
            Fault::argument(MPI_ERR_ARG, "disp", disp, why)
        })?;
        let representation = Representation::named(representation)?;
        View::new(disp, datatype::get(etype)?, datatype::get(filetype)?, representation)
    }

    /// Sets the view, at all ranks; pointers are at its beginning then.
    ///
    /// # Errors
    /// An argument of a rank is not acceptable; ranks have etypes of different extents, or different representations; a
    /// rank has died.
    pub(crate) fn set_view(
        &self,
        (disp, etype, filetype): (MPI_Offset, MPI_Datatype, MPI_Datatype),
        representation: &[u8],
        info: MPI_Info,
    ) -> Result<(), Fault> {
        let from_pointer =
            disp == MPI_DISPLACEMENT_CURRENT && self.amode & MPI_MODE_SEQUENTIAL != 0;
        // Where the pointer is cannot be known before all have come.
        let begin = if from_pointer { 0 } else { disp };
        let view = File::new_view(begin, etype, filetype, representation);
        let mut hints = self.hints();
        let view = hints.take(info).and(view);
        let name = representation
            .iter()
            .fold(5381u64, |sum, &byte| sum.wrapping_mul(33).wrapping_add(byte.into()));
        let said = view.as_ref().map(|view| {
            let mut words = [0; WORDS + 4];
            words[..WORDS].copy_from_slice(&hints.words());
            words[WORDS..].copy_from_slice(&[
                view.unit,
                name,
                from_pointer.into(),
                view.long.into(),
            ]);
            words
        });
        let all = agree(&self.comm, said.map_err(Fault::clone))?;
        check_same("etype's extent", all.iter().map(|&[.., unit, _, _, _]| unit))?;
        check_same("datarep", all.iter().map(|&[.., name, _, _]| name))?;
        check_same("disp", all.iter().map(|&[.., from_pointer, _]| from_pointer))?;
        let long = all.iter().all(|&[.., long]| long != 0);
        let mut view = View { long, ..view? };
        if from_pointer {
            // All are here, so nobody moves it any more.
            let here = || self.view().place(self.shared.add(0)?);
            view.disp = from_first(&self.comm, here)? as u64;
        }
        self.settings().hints = Hints::of(std::array::from_fn(|index| all[0][index]));
        *self.pointer.lock() = 0;
        *self.view.lock() = Arc::new(view);
        from_first(&self.comm, || self.shared.set(0).map(|()| 0))?;
        Ok(())
    }
}
