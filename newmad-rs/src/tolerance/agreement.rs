//! Uniform agreement: all members that live come to the same decision, although others fail meanwhile. The protocol alone,
//! without messages, threads or time.
//!
//! The *coordinator* is the first member that is not known to have failed. Each process finds that out for itself.
//!
//! ```text
//!   member       Join ──▶                Ack ──▶
//!   coordinator         ── Propose ──▶          ── Decide ──▶
//!                  from all that live      from all that live
//! ```
//! A member that sees its coordinator fail sends `Join` to the next one, with the proposal that it has accepted last, or the
//! decision. The new coordinator proposes what the latest coordinator among those proposed; where none was accepted, it
//! proposes what the contributions come to.
//!
//! # Invariants
//! 1. A member accepts a proposal only from the coordinator that it has joined last, so coordinators follow each other in the
//!    order of members at each member.
//! 2. A coordinator decides only after each member has accepted its proposal, or has failed. So a later coordinator, which
//!    hears of all members that live, hears of this proposal from each of them, and of no later one that differs: it
//!    proposes the same. Two members never decide differently, whether they live on or fail (*uniformity*).
//! 3. Each wait is for members that have not failed, and ends when they answer or fail (*termination*).
//! 4. Each member that lives has joined before anything is decided, so its contribution counts, and the failed members of a
//!    decision are failed ones.
//!
//! Messages may be reordered and come late. They are not lost between processes that live.
//!
//! The rules hold if a process that is known to have failed has failed. A process that cannot be reached any more counts as
//! one; see [`super`].
//!
//! The star costs 4 messages for each member. Rejected: a tree ([Herault15]: `log n` steps, and a second protocol that
//! repairs it); a decision that each member passes on to all others (`n * n` messages, and connections).

use std::collections::{BTreeMap, BTreeSet};

/// What a member contributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contribution {
    /// Combined by `&`.
    pub(crate) flags: u64,
    /// That of the coordinator whose proposal is agreed on is the result's.
    pub(crate) offer: u64,
    /// Agreements of the same key with lower numbers that this member has come to the end of: all below this.
    pub(crate) settled: u64,
    /// Members that it knows to have failed, in ascending order.
    pub(crate) failed: Vec<u32>,
    /// Of these, those whose failures its program has acknowledged.
    pub(crate) acknowledged: Vec<u32>,
}

/// What is agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) flags: u64,
    pub(crate) offer: u64,
    pub(crate) settled: u64,
    /// Members that have failed, in ascending order.
    pub(crate) failed: Vec<u32>,
    /// Whether all members had acknowledged all of them.
    pub(crate) acknowledged: bool,
}

/// How far a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has accepted nothing.
    Nothing,
    /// The coordinator whose proposal it has accepted last.
    Accepted(u32, Proposal),
    Decided(Proposal),
}

/// What members tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Join(Contribution, Progress),
    Propose(Proposal),
    Ack,
    Decide(Proposal),
}

/// Messages to be sent.
pub(crate) type Outbox = Vec<(u32, Message)>;

/// One agreement, as one member sees it.
#[derive(Debug, Default)]
pub(crate) struct Instance {
    /// What this member has begun with.
    own: Option<Own>,
    /// What members have told this one as the coordinator, some of them before it began.
    joined: BTreeMap<u32, (Contribution, Progress)>,
    accepted: Option<(u32, Proposal)>,
    /// As the coordinator: the own proposal, and the members that have accepted it.
    proposing: Option<(Proposal, BTreeSet<u32>)>,
    decided: Option<Proposal>,
    /// The coordinator that this member has joined last.
    coordinator: Option<u32>,
}

#[derive(Debug)]
struct Own {
    rank: u32,
    /// In ascending order; this one among them.
    members: Vec<u32>,
    contribution: Contribution,
}

impl Own {
    fn others<'a>(&'a self, failed: &'a BTreeSet<u32>) -> impl Iterator<Item = u32> + 'a {
        let lives = |&member: &u32| member != self.rank && !failed.contains(&member);
        self.members.iter().copied().filter(lives)
    }

    fn tell(&self, failed: &BTreeSet<u32>, message: &Message, out: &mut Outbox) {
        out.extend(self.others(failed).map(|to| (to, message.clone())));
    }
}

impl Instance {
    /// This member begins. `failed`: ranks that it knows to have failed, as in all calls below.
    pub(crate) fn begin(
        &mut self,
        rank: u32,
        members: Vec<u32>,
        contribution: Contribution,
        failed: &BTreeSet<u32>,
        out: &mut Outbox,
    ) {
        self.own = Some(Own { rank, members, contribution });
        self.step(failed, out);
    }

    /// The decision, once it is known.
    pub(crate) fn decision(&self) -> Option<&Proposal> {
        self.decided.as_ref()
    }

    /// More ranks are known to have failed.
    pub(crate) fn failed(&mut self, failed: &BTreeSet<u32>, out: &mut Outbox) {
        self.step(failed, out);
    }

    /// A message has come.
    pub(crate) fn receive(
        &mut self,
        from: u32,
        message: Message,
        failed: &BTreeSet<u32>,
        out: &mut Outbox,
    ) {
        match message {
            Message::Join(contribution, progress) => {
                if let Some(decided) = &self.decided {
                    // Its sender may have been left without the decision.
                    out.push((from, Message::Decide(decided.clone())));
                }
                self.joined.insert(from, (contribution, progress));
            }
            Message::Propose(proposal) => match &self.decided {
                // An earlier coordinator's decision came late, and says the same (invariant 2).
                Some(decided) => out.push((from, Message::Decide(decided.clone()))),
                None if self.coordinator == Some(from) => {
                    self.accepted = Some((from, proposal));
                    out.push((from, Message::Ack));
                }
                None => {}
            },
            Message::Ack => {
                if let Some((_, accepted)) = &mut self.proposing {
                    accepted.insert(from);
                }
            }
            Message::Decide(proposal) => self.hear_decision(proposal, failed, out),
        }
        self.step(failed, out);
    }

    /// An earlier coordinator may have sent the decision to this member alone.
    fn hear_decision(&mut self, proposal: Proposal, failed: &BTreeSet<u32>, out: &mut Outbox) {
        match &self.own {
            Some(own) if self.decided.is_none() && self.coordinator == Some(own.rank) => {
                self.decide(proposal, failed, out);
            }
            Some(_) => drop(self.decided.get_or_insert(proposal)),
            // A member that has not begun is in no decision.
            None => {}
        }
    }

    /// Does what can be done now.
    fn step(&mut self, failed: &BTreeSet<u32>, out: &mut Outbox) {
        let Some(own) = &self.own else { return };
        let lives = |member: &&u32| **member == own.rank || !failed.contains(member);
        let coordinator = own.members.iter().find(lives).copied().unwrap_or(own.rank);
        if self.coordinator != Some(coordinator) {
            self.coordinator = Some(coordinator);
            match &self.decided {
                // Others may have been left without it.
                Some(decided) if coordinator == own.rank => {
                    own.tell(failed, &Message::Decide(decided.clone()), out);
                }
                _ if coordinator == own.rank => {}
                _ => {
                    let join = Message::Join(own.contribution.clone(), self.progress());
                    out.push((coordinator, join));
                }
            }
        }
        if coordinator != own.rank || self.decided.is_some() {
            return;
        }
        let known = self.joined.values().find_map(|(_, progress)| match progress {
            Progress::Decided(decided) => Some(decided),
            _ => None,
        });
        if let Some(decided) = known.cloned() {
            return self.decide(decided, failed, out);
        }
        if self.proposing.is_none() {
            if own.others(failed).any(|member| !self.joined.contains_key(&member)) {
                return;
            }
            let proposal = self.proposal(own, failed);
            own.tell(failed, &Message::Propose(proposal.clone()), out);
            self.accepted = Some((own.rank, proposal.clone()));
            self.proposing = Some((proposal, BTreeSet::new()));
        }
        let Some((proposal, accepted)) = &self.proposing else { return };
        if own.others(failed).all(|member| accepted.contains(&member)) {
            self.decide(proposal.clone(), failed, out);
        }
    }

    fn progress(&self) -> Progress {
        match (&self.decided, &self.accepted) {
            (Some(decided), _) => Progress::Decided(decided.clone()),
            (None, Some((coordinator, proposal))) => {
                Progress::Accepted(*coordinator, proposal.clone())
            }
            (None, None) => Progress::Nothing,
        }
    }

    /// As the coordinator: decides, and tells the others.
    fn decide(&mut self, decided: Proposal, failed: &BTreeSet<u32>, out: &mut Outbox) {
        if let Some(own) = &self.own {
            own.tell(failed, &Message::Decide(decided.clone()), out);
        }
        self.decided = Some(decided);
    }

    /// What this member proposes as the coordinator. All that live have joined.
    fn proposal(&self, own: &Own, failed: &BTreeSet<u32>) -> Proposal {
        let of_others = self.joined.values().filter_map(|(_, progress)| match progress {
            Progress::Accepted(coordinator, proposal) => Some((*coordinator, proposal)),
            _ => None,
        });
        let of_own = self.accepted.as_ref().map(|(coordinator, proposal)| (*coordinator, proposal));
        // Invariant 2: the latest one may have been decided.
        if let Some((_, latest)) =
            of_others.chain(of_own).max_by_key(|(coordinator, _)| *coordinator)
        {
            return latest.clone();
        }
        let is_member = |rank: &u32| own.members.binary_search(rank).is_ok();
        let joined = self.joined.iter().filter(|(rank, _)| is_member(rank));
        let all = || joined.clone().map(|(_, (said, _))| said).chain([&own.contribution]);
        let mut gone: BTreeSet<u32> = failed.iter().copied().filter(is_member).collect();
        gone.extend(all().flat_map(|said| &said.failed).copied().filter(is_member));
        gone.remove(&own.rank);
        let knows = |said: &Contribution| gone.iter().all(|rank| said.acknowledged.contains(rank));
        // A member that has failed since counts, but nothing waits for what it has acknowledged.
        let living = joined.clone().filter(|(rank, _)| !gone.contains(rank));
        let living = living.map(|(_, (said, _))| said).chain([&own.contribution]);
        Proposal {
            flags: all().fold(!0, |flags, said| flags & said.flags),
            offer: own.contribution.offer,
            settled: living.clone().map(|said| said.settled).min().unwrap_or(0),
            acknowledged: living.clone().all(knows),
            failed: gone.into_iter().collect(),
        }
    }
}
