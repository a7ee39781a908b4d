//! The elements that an access names at its target, checked.

use super::layout::{self, Runs};
use super::{Reach, Win};
use crate::abi::*;
use crate::datatype::{self, Choice, Datatype, Elements, Row};
use crate::error::Fault;
use crate::handle::Ref;
use core::ffi::c_int;

/// Where an access goes, as a call says it.
#[derive(Clone, Copy)]
pub(crate) struct Where {
    pub(crate) rank: c_int,
    pub(crate) disp: MPI_Aint,
    pub(crate) count: i64,
    pub(crate) datatype: MPI_Datatype,
}

/// An accumulation, as a call says it.
pub(crate) struct Accumulation {
    /// `None` where the operator needs no operand.
    pub(crate) from: Choice,
    /// Where what was there before goes.
    pub(crate) result: Option<Choice>,
    pub(crate) op: MPI_Op,
    /// The target's elements are to be replaced if they are these.
    pub(crate) compare: Option<Choice>,
    /// Of one element, for all buffers: `MPI_Fetch_and_op`, `MPI_Compare_and_swap`.
    pub(crate) single: bool,
}

/// Elements of a target.
pub(super) struct Target {
    pub(super) rank: usize,
    /// The way to its memory, with the address of the first element.
    pub(super) reach: Reach,
    pub(super) count: usize,
    pub(super) datatype: Ref<Datatype>,
    /// Bytes of data.
    pub(super) len: usize,
}

impl Target {
    /// Checks what a call says. `None`: the target is `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// An argument is not acceptable, or no epoch allows the access.
    #[inline]
    pub(super) fn new(win: &Win, at: &Where) -> Result<Option<Target>, Fault> {
        let Some(rank) = win.member(at.rank)? else { return Ok(None) };
        win.epochs.check_access(rank)?;
        let datatype = datatype::get(at.datatype).map_err(|fault| named(fault, "target"))?;
        let Ok(count) = usize::try_from(at.count) else {
            let why = "it must not be negative";
            return Err(Fault::argument(MPI_ERR_COUNT, "target_count", at.count, why));
        };
        if !datatype.is_committed() {
            let why = "call MPI_Type_commit before using it in an access";
            return Err(Fault::argument(MPI_ERR_TYPE, "target_datatype", "not committed", why));
        }
        // Elements without extent may be more than bytes can be counted, at one place.
        let Some(len) = datatype.size.checked_mul(count) else {
            let why = "the elements have more bytes than there can be";
            return Err(Fault::argument(MPI_ERR_COUNT, "target_count", at.count, why));
        };
        let reach = win.reach(rank, at.disp, count, &datatype)?;
        Ok(Some(Target { rank, reach, count, datatype, len }))
    }
}

impl Target {
    /// Leaves the first `len` bytes of data; the last element may not be whole.
    #[inline]
    pub(super) fn shorten(&mut self, len: usize) {
        if len < self.len {
            self.count = len.div_ceil(self.datatype.size);
            self.len = len;
        }
    }

    /// Whether all of its elements are whole.
    pub(super) fn is_whole(&self) -> bool {
        self.len == self.count * self.datatype.size
    }

    /// Where its data lie, from its first element on, which is at that address.
    pub(super) fn runs(&self, at: usize) -> Runs {
        let runs = layout::runs(&self.datatype, self.count, at);
        if self.is_whole() { runs } else { layout::first(runs, self.len) }
    }
}

impl Win {
    /// The way to elements, with the address of the first of them.
    #[inline]
    fn reach(
        &self,
        rank: usize,
        disp: MPI_Aint,
        count: usize,
        datatype: &Datatype,
    ) -> Result<Reach, Fault> {
        let member = &self.members[rank];
        let dynamic = self.own.flavor == MPI_WIN_FLAVOR_DYNAMIC;
        if disp < 0 && !dynamic {
            let why = "it must not be negative";
            return Err(Fault::argument(MPI_ERR_DISP, "target_disp", disp, why));
        }
        let offset = match dynamic {
            true => Some(disp),
            false => disp.checked_mul(member.unit as isize),
        };
        let inside = |offset: isize| {
            let (low, len) = datatype.span(count);
            let low = offset.checked_add(low);
            let end = low.and_then(|low| low.checked_add_unsigned(len));
            len == 0 || low >= Some(0) && end.is_some_and(|end| end as usize <= member.size)
        };
        let offset = offset.filter(|&offset| dynamic || inside(offset));
        let Some(offset) = offset else {
            let (bytes, unit) = (member.size, member.unit);
            let why = format!(
                "the elements are not all inside of the target's {bytes} bytes (its unit is {unit})"
            );
            return Err(Fault::argument(MPI_ERR_RMA_RANGE, "target_disp", disp, &why));
        };
        Ok(match member.reach {
            Reach::Here(base) => Reach::Here(base.wrapping_add_signed(offset)),
            Reach::Foreign(base, pid) => Reach::Foreign(base.wrapping_add_signed(offset), pid),
            Reach::Messages(base) => Reach::Messages(base.wrapping_add_signed(offset)),
        })
    }
}

/// The elements at the origin, checked. `role` is the first word of the arguments' names.
///
/// # Errors
/// An argument is not acceptable.
#[inline]
pub(super) fn origin(choice: Choice, role: &str) -> Result<Elements, Fault> {
    let check = || {
        let elements = choice.elements()?;
        if elements.datatype.contiguous || !elements.datatype.is_committed() {
            return elements.checked();
        }
        if choice.count()? > 0 {
            elements.check_address()?;
        }
        Ok(elements)
    };
    check().map_err(|fault| named(fault, role))
}

/// Names the arguments in a fault as the one-sided calls do, which have several of a kind.
#[cold]
fn named(mut fault: Fault, role: &str) -> Fault {
    let names = [("buf", "addr"), ("count", "count"), ("datatype", "datatype")];
    let is = |(name, _): &(&str, &str)| fault.text.starts_with(&format!("argument {name} "));
    if let Some((name, kind)) = names.into_iter().find(is) {
        let rest = &fault.text["argument ".len() + name.len()..];
        fault.text = format!("argument {role}_{kind}{rest}").into();
    }
    fault
}

/// # Errors
/// The data of one side do not fit the room at the other.
#[inline]
pub(super) fn fit(fits: bool, target: &Target, origin: &Elements) -> Result<(), Fault> {
    if fits {
        return Ok(());
    }
    let (here, there) = (origin.len(), target.len);
    let text = format!("the elements have {here} bytes at the origin and {there} at the target");
    Err(Fault::new(MPI_ERR_TRUNCATE, text))
}

/// The predefined type that all elements of a datatype are of, with the number of its row.
///
/// # Errors
/// They have several.
pub(super) fn basic(datatype: &Datatype) -> Result<(u8, &'static Row), Fault> {
    datatype.shape().element().ok_or_else(|| {
        let why = "accumulations take elements of one predefined type";
        Fault::argument(MPI_ERR_TYPE, "target_datatype", "made of several types", why)
    })
}
