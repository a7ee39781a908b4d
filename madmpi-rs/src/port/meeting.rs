//! Two sides, whose roots have a channel, become one circle with an intercommunicator.
//!
//! ```text
//!  each member          root                              other root
//!                       who we are             ◀────▶     who we are
//!  ◀─ plan ─────────────┤  (who the others are, the secret of both)
//!  own card ─▶ all      │
//!                       our cards              ◀────▶     our cards
//!  ◀─ their cards ──────┤
//!  opens the session    │
//!  did it open? ─▶ all  │
//!                       it opened              ◀────▶     it opened
//!  ◀─ both opened ──────┤
//! ```
//! Each step is a collective of the side, in which all members learn whether it failed: so they fail together, and none
//! waits for another. The first side (that of the port) has the first ranks of the session. Every rank is a process of it,
//! also where the ranks of a job share processes: which of these take part is up to the program.
//!
//! Rejected: new peers in the session of the job. Its tables (gates, bitmaps, doorbells, the control ring) have the length
//! that the job had when it started, and the progress path reads them without locks. And what a session of its own gives,
//! a grown one would have to learn: an end that is not the process's end, after which nobody's death matters.

use std::sync::Arc;

use newmad::coll::Group as Members;
use newmad::port::Channel;

use super::wire::{MOST, decode_side, decode_texts, encode_side, encode_texts};
use super::{deadline, fault};
use crate::abi::*;
use crate::comm::{Agreement, CONNECTED, Circle, Comm, Parts};
use crate::errhandler::Errhandler;
use crate::error::Fault;
use crate::group::names::{Identity, Names};
use crate::job;

/// The root's connection with the other root.
pub(crate) struct Met {
    pub(crate) channel: Channel,
    /// Whether this side is the first.
    pub(crate) first: bool,
}

/// What the members of a side have to know.
struct Plan {
    first: bool,
    secret: [u8; 32],
    others: Vec<Identity>,
}

const STRANGE: &str =
    "the other side speaks another language: it is of another version of the library";

/// Makes an intercommunicator of `comm`'s processes and those that the root has met. `meet` is called at the root only,
/// and may block the kernel thread.
///
/// # Errors
/// The root has met no other side; a process of either side has failed, or has other settings.
pub(crate) fn meet(
    comm: &Comm,
    root: u32,
    meet: impl FnOnce() -> Result<Met, Fault> + Send,
    errhandler: Errhandler,
) -> Result<Arc<Comm>, Fault> {
    comm.check_intra()?;
    let own = job::number().map(|_| comm.group.identities());
    let members = comm.coll_group()?;
    let side = Agreement { leader: root, ..Agreement::of_group(members, &comm.circle.contexts) };
    let mut channel = None;
    let plan = match comm.rank() == root {
        true => own.clone().and_then(|own| {
            let (met, others) = job::aside(|| {
                let mut met = meet()?;
                let theirs = met.channel.exchange(&encode_side(&own), deadline()).map_err(fault)?;
                Ok::<_, Fault>((met, theirs))
            })?;
            let others = judge(&own, &others)?;
            let plan = Plan { first: met.first, secret: met.channel.secret(), others };
            channel = Some(met.channel);
            Ok(plan.encode())
        }),
        false => Ok(Vec::new()),
    };
    let plan =
        Plan::decode(side.share(plan)?).ok_or_else(|| Fault::new(MPI_ERR_INTERN, STRANGE))?;
    // The others have asked the same process manager.
    let own = own?;
    let circle = open(comm, &side, &mut channel, &own, &plan)?;
    let (here, there) = (own.len() as u32, plan.others.len() as u32);
    let (here, there) =
        if plan.first { (0..here, here..here + there) } else { (there..here + there, 0..there) };
    let group =
        |ranks: std::ops::Range<u32>| comm.group.with_named(circle.naming.clone(), ranks.collect());
    let (group, remote) = (group(here), Some(group(there)));
    Comm::new(Parts { circle, context: CONNECTED, group, remote, errhandler })
}

/// Who the others are.
fn judge(own: &[Identity], theirs: &[u8]) -> Result<Vec<Identity>, Fault> {
    let others = decode_side(theirs).ok_or_else(|| Fault::new(MPI_ERR_OTHER, STRANGE))?;
    if own.len() + others.len() > MOST {
        let why = format!("madmpi connects at most {MOST} processes");
        return Err(Fault::new(MPI_ERR_OTHER, why));
    }
    match own.iter().any(|one| others.contains(one)) {
        true => Err(Fault::new(MPI_ERR_COMM, "a process is on both sides of the connection")),
        false => Ok(others),
    }
}

/// Opens the session of both sides.
fn open(
    comm: &Comm,
    side: &Agreement<'_>,
    channel: &mut Option<Channel>,
    own: &[Identity],
    plan: &Plan,
) -> Result<Arc<Circle>, Fault> {
    let size = (own.len() + plan.others.len()) as u32;
    let rank = if plan.first { comm.rank() } else { plan.others.len() as u32 + comm.rank() };
    let builder = newmad::Session::builder().ordered().beside(job::session()?);
    let introduction = builder.introduce(rank, size, plan.secret);
    let card = introduction.as_ref().map_or("", |introduction| introduction.card());
    let here = all_texts(side.local, card)?;
    // The other side learns by a text of no cards that there is no session.
    let failed = here.iter().any(String::is_empty);
    let cards = if failed { Vec::new() } else { encode_texts(&here) };
    let there = side.share(swap(channel, &cards)?.map(|bytes| words_of(&bytes)))?;
    let there = bytes_of(&there).and_then(|bytes| decode_texts(&bytes, plan.others.len()));
    let introduction = introduction?;
    let there = there.filter(|_| !failed);
    let there = there.ok_or_else(|| {
        Fault::new(MPI_ERR_OTHER, "a process could not open a session for the connection")
    })?;
    let cards = if plan.first { [here, there].concat() } else { [there, here].concat() };
    let session = job::aside(|| introduction.open(cards));
    // Whether all of both sides have opened it.
    let failed = side.any(session.is_err())?;
    let verdict =
        side.share(swap(channel, &[u8::from(failed)])?.map(|said| vec![u64::from(said == [0])]))?;
    let (first, second) =
        if plan.first { (own, &plan.others[..]) } else { (&plan.others[..], own) };
    let naming = Some(Names::new([first, second].concat()));
    let number = newmad::authentication::derive(&plan.secret, b"number of the circle");
    let number = number.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    // 0 is the number of the job's.
    let circle = Circle::connect(session?, naming, number | 1);
    if failed || verdict != [1] {
        circle.close();
        let why = "a process of the connection could not open the session, or is gone";
        return Err(Fault::new(MPI_ERR_PROC_ABORTED, why));
    }
    Ok(circle)
}

/// At the root: sends the other root a frame, and gives that root's.
fn swap(channel: &mut Option<Channel>, frame: &[u8]) -> Result<Result<Vec<u8>, Fault>, Fault> {
    let Some(channel) = channel else { return Ok(Ok(Vec::new())) };
    Ok(job::aside(|| channel.exchange(frame, deadline())).map_err(fault))
}

/// The texts of all members of a side.
fn all_texts(members: &Members, own: &str) -> Result<Vec<String>, Fault> {
    let mut counts = vec![0u64; members.size() as usize];
    members.allgather(&[own.len() as u64], &mut counts).wait()?;
    let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
    let mut all = vec![0u8; counts.iter().sum()];
    members.allgatherv(own.as_bytes(), &mut all, &counts).wait()?;
    let mut rest = &all[..];
    let text = |&count: &usize| {
        let (text, after) = rest.split_at(count);
        rest = after;
        String::from_utf8_lossy(text).into_owned()
    };
    Ok(counts.iter().map(text).collect())
}

/// Bytes as words, with their number first.
fn words_of(bytes: &[u8]) -> Vec<u64> {
    let word = |piece: &[u8]| {
        let mut word = [0; 8];
        word[..piece.len()].copy_from_slice(piece);
        u64::from_le_bytes(word)
    };
    std::iter::once(bytes.len() as u64).chain(bytes.chunks(8).map(word)).collect()
}

fn bytes_of(words: &[u64]) -> Option<Vec<u8>> {
    let (&len, words) = words.split_first()?;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    (bytes.len() as u64 >= len).then(|| bytes.truncate(len as usize))?;
    Some(bytes)
}

impl Plan {
    fn encode(&self) -> Vec<u64> {
        let secret = self.secret.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let others = self.others.iter().flat_map(|one| [one.job, one.rank.into()]);
        std::iter::once(u64::from(self.first)).chain(secret).chain(others).collect()
    }

    fn decode(words: Vec<u64>) -> Option<Plan> {
        let (&[first, a, b, c, d], others) = words.split_first_chunk()?;
        let secret = [a, b, c, d].map(u64::to_le_bytes).concat().try_into().ok()?;
        let (others, []) = others.as_chunks::<2>() else { return None };
        let others =
            others.iter().map(|&[job, rank]| Identity { job, rank: rank as u32 }).collect();
        Some(Plan { first: first != 0, secret, others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn plans_and_bytes_come_back(first: bool, secret: [u8; 32], others in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..9), bytes: Vec<u8>) {
            let others: Vec<Identity> = others.into_iter().map(|(job, rank)| Identity { job, rank }).collect();
            let again = Plan::decode(Plan { first, secret, others: others.clone() }.encode()).unwrap();
            prop_assert_eq!((again.first, again.secret, again.others), (first, secret, others));
            prop_assert_eq!(bytes_of(&words_of(&bytes)), Some(bytes));
        }
    }
}
