//! Collectives of words and bytes, by which the ranks that have opened a file agree, and exchange data.

use newmad::coll::Group;

use super::errors::elsewhere;
use crate::abi::*;
use crate::comm::Comm;
use crate::error::Fault;

/// How the collectives of a call are told from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The program waits for the call: its collectives come one after the other.
    Now,
    /// The call goes on beside others, in a series of its own.
    Beside(u16),
}

/// See the module.
pub(super) struct Exchange<'a> {
    group: &'a Group,
    turn: Turn,
}

/// Messages to all ranks, or from them, one after the other in memory, which may be longer.
pub(super) struct Letters {
    memory: Vec<u8>,
    lens: Vec<usize>,
}

impl Letters {
    /// No bytes to so many ranks.
    pub(super) fn new(mut memory: Vec<u8>, ranks: u64) -> Letters {
        memory.clear();
        Letters { memory, lens: vec![0; ranks as usize] }
    }

    /// Writes the message to a rank. Ranks come in ascending order.
    pub(super) fn write(&mut self, rank: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.memory.len();
        write(&mut self.memory);
        self.lens[rank] = self.memory.len() - before;
    }

    /// The messages, by rank.
    pub(super) fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.memory[..];
        self.lens.iter().map(move |&len| {
            let (message, others) = rest.split_at(len);
            rest = others;
            message
        })
    }

    pub(super) fn into_memory(self) -> Vec<u8> {
        self.memory
    }
}

impl Exchange<'_> {
    /// # Errors
    /// None that are known.
    pub(super) fn new(comm: &Comm, turn: Turn) -> Result<Exchange<'_>, Fault> {
        Ok(Exchange { group: comm.coll_group()?, turn })
    }

    pub(super) fn rank(&self) -> u64 {
        self.group.rank().into()
    }

    /// What each rank says.
    ///
    /// # Errors
    /// A rank has died.
    pub(super) fn gather<const N: usize>(&self, own: [u64; N]) -> Result<Vec<[u64; N]>, Fault> {
        let mut all = vec![[0; N]; self.group.size() as usize];
        match self.turn {
            Turn::Now => self.group.allgather(&[own], &mut all).wait().map(drop)?,
            Turn::Beside(series) => {
                all = self.group.allgather(vec![own], all).start_in(series)?.wait()?;
            }
        }
        Ok(all)
    }

    /// Sends messages, and receives those of the others into `memory`; both memories come back.
    ///
    /// # Errors
    /// A rank has died.
    pub(super) fn exchange(
        &self,
        out: Letters,
        mut memory: Vec<u8>,
    ) -> Result<(Letters, Vec<u8>), Fault> {
        let words: Vec<u64> = out.lens.iter().map(|&len| len as u64).collect();
        let mut lens = vec![0u64; words.len()];
        match self.turn {
            Turn::Now => self.group.alltoall(&words[..], &mut lens[..]).wait().map(drop)?,
            Turn::Beside(series) => {
                lens = self.group.alltoall(words, lens).start_in(series)?.wait()?;
            }
        }
        let lens: Vec<usize> = lens.into_iter().map(|len| len as usize).collect();
        let sum = lens.iter().sum();
        if memory.len() < sum {
            memory.resize(sum, 0);
        }
        let mut back = out.memory;
        match self.turn {
            Turn::Now => {
                let sent = self.group.alltoallv(&back[..], &out.lens, &mut memory[..sum], &lens);
                sent.wait().map(drop)?;
            }
            Turn::Beside(series) => {
                let sent = std::mem::take(&mut back);
                memory.truncate(sum);
                let sent = self.group.alltoallv(sent, &out.lens, memory, &lens);
                memory = sent.start_in(series)?.wait()?;
            }
        }
        Ok((Letters { memory, lens }, back))
    }
}

/// The places of the ranks' elements in an ordered access: how many etypes the ranks before this one have, and all together.
///
/// # Errors
/// A rank has died.
pub(super) fn order(comm: &Comm, etypes: i64) -> Result<(i64, i64), Fault> {
    let exchange = Exchange::new(comm, Turn::Now)?;
    let all = exchange.gather([etypes as u64])?;
    let sum = |parts: &[[u64; 1]]| parts.iter().map(|&[etypes]| etypes as i64).sum();
    Ok((sum(&all[..exchange.rank() as usize]), sum(&all)))
}

/// What the first rank says, or its class if it has failed.
///
/// # Errors
/// The first rank has failed; a rank has died.
pub(super) fn from_first(
    comm: &Comm,
    own: impl FnOnce() -> Result<i64, Fault>,
) -> Result<i64, Fault> {
    let exchange = Exchange::new(comm, Turn::Now)?;
    let own = if exchange.rank() == 0 { Some(own()) } else { None };
    let words = match &own {
        Some(Ok(value)) => [0, *value as u64],
        Some(Err(fault)) => [fault.class as u64, 0],
        None => [0, 0],
    };
    let all = exchange.gather(words)?;
    match (own, all[0]) {
        (Some(own), _) => own,
        (None, [0, value]) => Ok(value as i64),
        (None, [class, _]) => Err(elsewhere("the collective call", 0, class)),
    }
}

/// What each rank says, after a 0: fails at all if a rank has failed.
///
/// # Errors
/// A rank has failed or died.
pub(super) fn agree<const N: usize>(
    comm: &Comm,
    own: Result<[u64; N], Fault>,
) -> Result<Vec<[u64; N]>, Fault> {
    let words = own.as_ref().map_or_else(
        |fault| std::array::from_fn(|place| if place == 0 { fault.class as u64 } else { 0 }),
        |&words| words,
    );
    let all = Exchange::new(comm, Turn::Now)?.gather(words)?;
    own?;
    match all.iter().position(|words| words[0] != 0) {
        Some(rank) => Err(elsewhere("the collective call", rank, all[rank][0])),
        None => Ok(all),
    }
}

/// # Errors
/// The words differ.
pub(super) fn check_same(what: &str, mut words: impl Iterator<Item = u64>) -> Result<(), Fault> {
    let first = words.next();
    if words.all(|word| Some(word) == first) {
        return Ok(());
    }
    let why = "all ranks must give the same";
    Err(Fault::argument(MPI_ERR_NOT_SAME, what, "not the same at all ranks", why))
}

/// Whether all ranks have the same word; fails at all if a rank has failed.
///
/// # Errors
/// The words differ; a rank has failed or died.
pub(super) fn same(comm: &Comm, what: &str, own: Result<u64, Fault>) -> Result<(), Fault> {
    let all = agree(comm, own.map(|word| [0, word]))?;
    check_same(what, all.iter().map(|&[_, word]| word))
}
