//! `MPI_Comm_idup`: duplicates in the background.
//!
//! One collective distributes the context. Members cannot be asked whether they still know it, so it is one that was
//! never used. Attributes are copied, and hints are read, by the call; the program gets the handle when the request is
//! over.

use newmad::coll::Task;

use crate::abi::*;
use crate::args::{Out, out};
use crate::attribute::Attributes;
use crate::comm::{Comm, Hints, Parts};
use crate::error::Fault;
use crate::handle::Ref;
use crate::request::collective::{Finish, operation};
use crate::request::new_operation;

/// Attributes of a duplicate that is not there yet, copied from the object with this handle. They are deleted if it never
/// is.
struct Copies(MPI_Comm, Attributes);

impl Copies {
    fn take(mut self) -> Attributes {
        std::mem::take(&mut self.1)
    }
}

impl Drop for Copies {
    /// In a call of the program's: calls its functions.
    fn drop(&mut self) {
        // The program learns why there is no duplicate.
        let _ = self.1.delete_all(self.0.0);
    }
}

/// The program's place for the handle.
struct HandlePlace(Out<MPI_Comm>);
// SAFETY: the program leaves the place to the request until it is over, whatever thread completes it.
unsafe impl Send for HandlePlace {}

pub(crate) fn start(
    comm: &Ref<Comm>,
    hints: Hints,
    newcomm: Out<MPI_Comm>,
) -> Result<MPI_Request, Fault> {
    out(newcomm, "newcomm", MPI_COMM_NULL)?;
    let attributes = Copies(comm.handle(), comm.attributes.copies(comm.handle().0)?);
    let (errhandler, topology) = (comm.errhandler(), comm.share_topology());
    let group = comm.union_group()?;
    let offer = if group.rank() == 0 { comm.circle.contexts.offer_fresh() } else { Ok(0) };
    let mut words = match &offer {
        Ok(context) => vec![u64::from(*context), 1],
        Err(_) => vec![0, 0],
    };
    let len = size_of_val(&words[..]);
    let result = std::ptr::slice_from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), len);
    let task = Task::Bcast { root: 0, len };
    // SAFETY: the memory is on the heap, `finish` keeps it until the collective is over, and nothing reads it before.
    let pending = unsafe { group.bytes(&task, None, &[], result, false).start()? };
    let (from, place) = (comm.share(), HandlePlace(newcomm));
    let finish: Finish = Box::new(move || {
        let place = place;
        offer?;
        let &[context, 1] = &words[..] else {
            let why = "the process that gives out contexts has no fresh one left: use MPI_Comm_dup";
            return Err(Fault::new(MPI_ERR_OTHER, why));
        };
        let new = Comm::new(Parts { errhandler, ..from.parts_of_twin(context as u32) })?;
        new.attributes.adopt(attributes.take());
        new.hints.adopt(hints);
        if let Some(topology) = topology {
            new.set_topology(topology);
        }
        place.0.put(new.handle());
        Ok(())
    });
    new_operation(operation(comm, pending, finish))
}
