//! Partitioned messages: several threads make parts of one message ready, and the receiver sees parts arrive.
//!
//! A sender has a *channel*, a number of its own. It tells the receiver that number once, when its request is made: so
//! requests with one tag match in the order in which they were made, whatever the order in which they are started.
//! Parts travel in *units* of one or more of the sender's partitions; each unit is a message whose tag consists of
//! channel and unit. The receiver posts a receive for each unit, in place where it can. It posts them when the request
//! is started or when it learns of the channel, whichever comes last, on whatever thread that is.
//!
//! ```text
//!   sender      Psend_init ── channel, tag, partitions, bytes ──▶  matched with the first Precv_init of that tag
//!               Pready: the last partition of a unit ── unit ────▶  Parrived: all units of the partition
//! ```

mod matching;
mod receiving;
mod sending;

use core::ffi::c_int;

use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{Choice, Elements};
use crate::error::Fault;
use crate::handle::Ref;

pub(crate) use receiving::recv_init;
pub(crate) use sending::send_init;

/// The largest number of units of a message.
const UNITS: usize = 1 << UNIT_BITS;
const UNIT_BITS: u32 = 12;
const CHANNEL_BITS: u32 = 17;
/// The internal tags of units: this bit, the channel, the unit.
const UNIT_TAGS: u32 = 1 << (UNIT_BITS + CHANNEL_BITS);

/// Elements in partitions of equal numbers, as the program gives them. There may be no partitions: then there are no units,
/// and a request is over when it is started.
pub(crate) struct Partitions {
    comm: Ref<Comm>,
    /// The elements of all partitions.
    elements: Elements,
    number: usize,
    /// Elements of each partition.
    count: usize,
}

impl Partitions {
    /// `choice` has the elements of one partition.
    ///
    /// # Errors
    /// The number of partitions is negative; the elements are not acceptable.
    pub(crate) fn new(
        comm: &Ref<Comm>,
        choice: Choice,
        partitions: c_int,
    ) -> Result<Partitions, Fault> {
        let wrong = |name, value, why| Fault::argument(MPI_ERR_COUNT, name, value, why);
        let count = choice.count;
        let mut elements = choice.elements()?;
        let number = usize::try_from(partitions)
            .map_err(|_| wrong("partitions", partitions.into(), "it must not be negative"))?;
        let all = count.checked_mul(number as i64);
        elements.count = all.ok_or_else(|| wrong("count", count, "no memory is so large"))?;
        elements.data()?;
        Ok(Partitions { comm: comm.clone(), elements, number, count: count as usize })
    }

    /// Bytes of a partition.
    fn bytes(&self) -> usize {
        self.count * self.elements.datatype.size
    }

    fn check(&self, partition: c_int) -> Result<usize, Fault> {
        let index = usize::try_from(partition).ok().filter(|&index| index < self.number);
        index.ok_or_else(|| {
            let why = match self.number {
                0 => "the message has no partitions".to_owned(),
                number => format!("the message has partitions 0 to {}", number - 1),
            };
            Fault::argument(MPI_ERR_ARG, "partition", partition, &why).on(self.comm.share())
        })
    }
}

/// The number of units of a message with so many partitions.
fn units(partitions: usize) -> usize {
    partitions.min(UNITS)
}

/// The first partition of a unit; of the unit after the last one, the number of partitions. `partitions` is not 0.
fn first(unit: usize, partitions: usize) -> usize {
    (unit * partitions).div_ceil(units(partitions))
}

/// The unit that a partition is in. `partitions` is not 0.
fn unit_of(partition: usize, partitions: usize) -> usize {
    partition * units(partitions) / partitions
}

fn unit_tag(comm: &Comm, channel: u32, unit: usize) -> u64 {
    comm.internal_tag(UNIT_TAGS | channel << UNIT_BITS | unit as u32)
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
