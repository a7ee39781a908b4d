//! Partitioned messages: several threads make parts of one message ready, and parts are looked at as they arrive.
//!
//! A sender has a *channel*, a number of its own, and tells the receiver of it once, when the request is made: so requests of
//! one tag are matched in the order in which they were made, whatever the order in which they are started. Parts travel in
//! *units* of one or more of the sender's partitions, each a message on a tag that is made of channel and unit. The receiver
//! posts a receive for each unit, in place where it can, when it is started and knows the channel; whichever comes last
//! starts it, on whatever thread that is.
//!
//! ```text
//!   sender      Psend_init ── channel, tag, partitions, bytes ──▶  matched with the first Precv_init of that tag
//!               Pready: the last partition of a unit ── unit ────▶  Parrived: all units of the partition
//! ```

mod matching;
mod receiving;
mod sending;

use core::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::checked;
use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::datatype::{self, Data, Datatype};
use crate::error::{Fault, array, out};
use crate::handle::Held;
use crate::info;
use crate::request;

/// Most units of a message.
const UNITS: usize = 1 << UNIT_BITS;
const UNIT_BITS: u32 = 12;
const CHANNEL_BITS: u32 = 17;
/// The internal tags of units: this, the channel, the unit.
const UNIT_TAGS: u32 = 1 << (UNIT_BITS + CHANNEL_BITS);

/// A message in parts that is under way.
pub(crate) trait Partitioned {
    /// A part of a message to be sent is ready.
    ///
    /// # Errors
    /// It is none, or was ready before.
    fn ready(&self, partition: c_int) -> Result<(), Fault>;

    /// Whether a part of a message to be received is there.
    ///
    /// # Errors
    /// There is no such part.
    fn arrived(&self, partition: c_int) -> Result<bool, Fault>;
}

/// Elements in partitions of equal numbers, as the program gives them.
struct Elements {
    comm: Held<Comm>,
    buf: usize,
    partitions: usize,
    /// In each partition.
    count: usize,
    datatype: Held<Datatype>,
}

impl Elements {
    fn new(
        comm: &Held<Comm>,
        buf: *const c_void,
        partitions: c_int,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<Elements, Fault> {
        let wrong = |name, value, why| Fault::argument(MPI_ERR_COUNT, name, value, why);
        let datatype = datatype::get(datatype)?;
        let number = usize::try_from(partitions).ok().filter(|&number| number > 0);
        let partitions = number
            .ok_or_else(|| wrong("partitions", partitions.into(), "there is at least one"))?;
        let all = count.checked_mul(partitions as i64);
        let all = all.ok_or_else(|| wrong("count", count, "so much memory does not exist"))?;
        Data::of(buf, all, &datatype)?;
        let (comm, buf) = (comm.clone(), buf.expose_provenance());
        Ok(Elements { comm, buf, partitions, count: count as usize, datatype })
    }

    /// Where an element is.
    fn at(&self, element: usize) -> *mut c_void {
        let begin = self.datatype.extent.wrapping_mul(element as isize);
        std::ptr::with_exposed_provenance_mut(self.buf.wrapping_add_signed(begin))
    }

    /// Bytes of a partition.
    fn bytes(&self) -> usize {
        self.count * self.datatype.size
    }

    fn check(&self, partition: c_int) -> Result<usize, Fault> {
        let index = usize::try_from(partition).ok().filter(|&index| index < self.partitions);
        index.ok_or_else(|| {
            let why = format!("the message has partitions 0 to {}", self.partitions - 1);
            Fault::argument(MPI_ERR_ARG, "partition", partition, &why).on_comm(&self.comm)
        })
    }
}

/// Units of a message of so many partitions.
fn units(partitions: usize) -> usize {
    partitions.min(UNITS)
}

/// The first partition of a unit (or the end, if it is one too many).
fn first(unit: usize, partitions: usize) -> usize {
    (unit * partitions).div_ceil(units(partitions))
}

/// The unit that a partition is in.
fn unit_of(partition: usize, partitions: usize) -> usize {
    partition * units(partitions) / partitions
}

fn unit_tag(comm: &Comm, channel: u32, unit: usize) -> u64 {
    comm.internal_tag(UNIT_TAGS | channel << UNIT_BITS | unit as u32)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says to a partitioned request that partitions are ready.
fn ready(request: MPI_Request, all: impl Iterator<Item = c_int>) -> Result<(), Fault> {
    let wrong = |why| {
        Err(Fault::argument(MPI_ERR_REQUEST, "request", format_args!("{:#x}", request.0), why))
    };
    let Some(operation) = request::operation(request)? else {
        return wrong("it is not a partitioned send that was started");
    };
    let Some(partitioned) = operation.as_partitioned() else {
        return wrong("it is not a partitioned send");
    };
    for partition in all {
        partitioned.ready(partition)?;
    }
    Ok(())
}

mpi! {
    fn MPI_Psend_init(
        buf: *const c_void, partitions: c_int, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, info: MPI_Info, request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        info::check(info)?;
        let elements = Elements::new(&comm, buf, partitions, count, datatype)?;
        out(request, "request", sending::init(elements, dest, tag)?)
    }

    fn MPI_Precv_init(
        buf: *mut c_void, partitions: c_int, count: MPI_Count, datatype: MPI_Datatype, source: c_int, tag: c_int,
        comm: MPI_Comm, info: MPI_Info, request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        info::check(info)?;
        let elements = Elements::new(&comm, buf, partitions, count, datatype)?;
        out(request, "request", receiving::init(elements, source, tag)?)
    }

    fn MPI_Pready(partition: c_int, request: MPI_Request) {
        ready(request, std::iter::once(partition))
    }

    fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) {
        ready(request, partition_low..=partition_high)
    }

    fn MPI_Pready_list(length: c_int, array_of_partitions: *const c_int, request: MPI_Request) {
        let all = array(array_of_partitions, length.into(), "array_of_partitions")?;
        ready(request, all.iter().copied())
    }

    /// Of a request that is not under way everything has arrived.
    fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: *mut c_int) {
        let Some(operation) = request::operation(request)? else { return out(flag, "flag", 1) };
        let Some(partitioned) = operation.as_partitioned() else {
            let why = "it is not a partitioned receive";
            return Err(Fault::argument(MPI_ERR_REQUEST, "request", format_args!("{:#x}", request.0), why));
        };
        let mut arrived = partitioned.arrived(partition)?;
        if !arrived {
            request::look()?;
            arrived = partitioned.arrived(partition)?;
        }
        out(flag, "flag", c_int::from(arrived))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_partition_is_in_one_unit(partitions in 1usize..20_000) {
            let units = units(partitions);
            prop_assert_eq!((first(0, partitions), first(units, partitions)), (0, partitions));
            for unit in 0..units {
                let range = first(unit, partitions)..first(unit + 1, partitions);
                prop_assert!(!range.is_empty());
                for partition in range {
                    prop_assert_eq!(unit_of(partition, partitions), unit);
                }
            }
        }
    }
}
