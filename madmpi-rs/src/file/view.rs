//! Views: which bytes of the file a process sees, as elements of which type.

use super::map::{Extents, Map};
use super::representation::Representation;
use crate::abi::*;
use crate::datatype::{self, Datatype};
use crate::error::Fault;
use crate::handle::Ref;

/// A view. It never changes; a file gets another one.
pub(super) struct View {
    pub(super) disp: u64,
    pub(super) etype: Ref<Datatype>,
    pub(super) filetype: Ref<Datatype>,
    pub(super) representation: Representation,
    pub(super) map: Map,
    /// Bytes of an etype in the file.
    pub(super) unit: u64,
    /// The pieces of its data in the file are long; of a file's view: those of all ranks' views are.
    pub(super) long: bool,
}

impl View {
    /// Bytes from the beginning on.
    ///
    /// # Errors
    /// None that are known.
    pub(super) fn bytes() -> Result<View, Fault> {
        let byte = datatype::get(MPI_BYTE)?;
        Ok(View {
            disp: 0,
            etype: byte.clone(),
            filetype: byte,
            representation: Representation::Native,
            map: Map::row(),
            unit: 1,
            long: true,
        })
    }

    /// # Errors
    /// The types do not go together, or are no file types.
    pub(super) fn new(
        disp: u64,
        etype: Ref<Datatype>,
        filetype: Ref<Datatype>,
        representation: Representation,
    ) -> Result<View, Fault> {
        for (name, datatype) in [("etype", &etype), ("filetype", &filetype)] {
            if !datatype.is_committed() {
                let why = "call MPI_Type_commit before using it in a view";
                return Err(Fault::argument(MPI_ERR_TYPE, name, "not committed", why));
            }
        }
        let unit = representation.size(&etype)?;
        if unit == 0 {
            return Err(Fault::argument(MPI_ERR_TYPE, "etype", "without data", "it has some"));
        }
        let scale = representation.scale(&filetype)?;
        let map = Map::of(&filetype, scale)?;
        if !map.size().is_multiple_of(unit) {
            let value = format_args!("of {} bytes of data", map.size());
            let why = format!("it consists of etypes, which have {unit}");
            return Err(Fault::argument(MPI_ERR_ARG, "filetype", value, &why));
        }
        let long = map.is_long();
        Ok(View { disp, etype, filetype, representation, map, unit, long })
    }

    /// The bytes of the file that hold `len` bytes of data from a position on.
    pub(super) fn extents(&self, position: u64, len: u64) -> Extents<'_> {
        self.map.extents(self.disp, position, len)
    }

    /// Bytes of data before a byte of the file.
    pub(super) fn position(&self, place: u64) -> u64 {
        place.checked_sub(self.disp).map_or(0, |place| self.map.position(place))
    }

    /// The byte of the file where an etype begins.
    ///
    /// # Errors
    /// A file has no such byte.
    pub(super) fn place(&self, etypes: i64) -> Result<i64, Fault> {
        let position = u64::try_from(etypes).ok().and_then(|etypes| etypes.checked_mul(self.unit));
        let place = position.and_then(|position| self.map.place(position)?.checked_add(self.disp));
        place.and_then(|place| i64::try_from(place).ok()).ok_or_else(super::errors::beyond)
    }

    /// The number of etypes up to the end of a file of so many bytes.
    pub(super) fn end(&self, size: u64) -> i64 {
        self.position(size).div_ceil(self.unit) as i64
    }
}
