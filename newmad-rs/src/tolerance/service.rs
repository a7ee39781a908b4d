//! The service of a session: agreements that go on, keys that are revoked, and the ends of ranks that it has told of.
//!
//! The lock is held for the protocol's steps only. Messages are sent, and the layer above is called, without it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use marcel::plumbing::KernelMutex;
use pioman::Completion;

use crate::api::detached;
use crate::error::Cause;
use crate::request::tag::CONTROL;
use crate::session::Inner;
use crate::tolerance::agreement::{self, Instance, Message, Outbox, Proposal};
use crate::tolerance::contract::{Contribution, Decision, Hook};
use crate::tolerance::wire::{self, Word};

/// The key of the agreement by which ranks leave.
const LEAVING: u64 = u64::MAX;

/// Where a decision goes.
#[derive(Default)]
pub(super) struct Decided {
    pub(super) done: Completion,
    /// `None` in it: the session was closed.
    pub(super) decision: OnceLock<Option<Decision>>,
}

impl Decided {
    fn tell(&self, decision: Option<Decision>) {
        if self.decision.set(decision).is_ok() {
            self.done.complete();
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Service {
    state: KernelMutex<State>,
    hook: OnceLock<Box<dyn Hook>>,
    listens: AtomicBool,
}

/// Names an agreement: a key, and the number among those of the key.
type Name = (u64, u64);

#[derive(Default)]
struct State {
    /// Ranks that have failed or left.
    ended: BTreeSet<u32>,
    /// Those of them that have left.
    left: BTreeSet<u32>,
    /// How many agreements of each key have begun here.
    begun: HashMap<u64, u64>,
    /// Those that a member may still ask for.
    instances: BTreeMap<Name, Instance>,
    waiting: HashMap<Name, Arc<Decided>>,
    /// Keys that are revoked. True: the other members and the layer above have been told.
    revoked: HashMap<u64, bool>,
    closed: bool,
}

/// The ranks that have failed or left, in the order in which this process has learnt it.
pub(super) fn ended(inner: &Inner) -> Vec<(u32, Cause)> {
    inner.engine.with(|core| core.gates.ended.clone())
}

impl State {
    /// Messages of an agreement that are to be sent; and its decision goes where it is waited for.
    fn after(&mut self, name: Name, out: Outbox, mail: &mut Vec<(u32, Vec<u8>)>) -> Option<Told> {
        mail.extend(out.iter().map(|(to, message)| (*to, wire::agreement(name, message))));
        let proposal = self.instances.get(&name)?.decision()?.clone();
        let decided = self.waiting.remove(&name)?;
        // All members that live have come to the ends of these: none will ask for them.
        let settled = (name.0, 0)..(name.0, proposal.settled.min(name.1));
        let old: Vec<Name> = self.instances.range(settled).map(|(&name, _)| name).collect();
        for name in old {
            self.instances.remove(&name);
        }
        // One that has left in order takes none of the other ranks of its process with it.
        let failed = proposal.failed.iter().copied().filter(|rank| !self.left.contains(rank));
        Some(Told { decided, failed: failed.collect(), proposal })
    }

    /// The first agreement of the key that this rank has begun and not come to the end of.
    fn settled(&self, key: u64, number: u64) -> u64 {
        let begun = self.instances.range((key, 0)..(key, number));
        let open = |(_, instance): &(&Name, &Instance)| instance.decision().is_none();
        begun.into_iter().find(open).map_or(number, |(&(_, number), _)| number)
    }
}

/// A decision that is to be told.
struct Told {
    decided: Arc<Decided>,
    /// The ranks in it that are not known to have left.
    failed: Vec<u32>,
    proposal: Proposal,
}

impl Told {
    /// Ranks that the others take for failed are failed for this process from now on.
    fn tell(self, inner: &Inner) {
        let ranks = inner.engine.ranks();
        let own = ranks.home(inner.rank());
        let failed = self.failed.iter().map(|&rank| ranks.home(rank)).filter(|&other| other != own);
        let failed: BTreeSet<u32> = failed.collect();
        for process in failed {
            inner.engine.with(|core| core.fail_peer(process, Cause::Vanished));
        }
        let Proposal { flags, offer, failed, acknowledged, .. } = self.proposal;
        self.decided.tell(Some(Decision { flags, offer, failed, acknowledged }));
    }
}

impl Service {
    pub(super) fn of(inner: &Inner) -> &Service {
        inner.extensions.get()
    }

    /// Whether there was none before.
    pub(super) fn set_hook(&self, hook: Box<dyn Hook>) -> bool {
        self.hook.set(hook).is_ok()
    }

    /// Whether it has not begun before.
    pub(super) fn begin_to_listen(&self) -> bool {
        !self.listens.swap(true, Ordering::AcqRel)
    }

    /// Begins an agreement.
    pub(super) fn begin(
        &self,
        inner: &Arc<Inner>,
        key: u64,
        members: &[u32],
        Contribution { flags, offer, mut acknowledged }: Contribution,
    ) -> Arc<Decided> {
        acknowledged.sort_unstable();
        let mut members = members.to_vec();
        members.sort_unstable();
        members.dedup();
        let decided = Arc::new(Decided::default());
        let mut mail = Vec::new();
        let told = {
            let mut state = self.state.lock();
            if state.closed {
                decided.tell(None);
                return decided;
            }
            let count = state.begun.entry(key).or_default();
            let name = (key, *count);
            *count += 1;
            let settled = state.settled(key, name.1);
            let failed =
                state.ended.iter().copied().filter(|rank| members.contains(rank)).collect();
            let said = agreement::Contribution { flags, offer, settled, failed, acknowledged };
            state.waiting.insert(name, decided.clone());
            let State { instances, ended, .. } = &mut *state;
            let mut out = Vec::new();
            instances.entry(name).or_default().begin(inner.rank(), members, said, ended, &mut out);
            state.after(name, out, &mut mail)
        };
        post(inner, mail);
        told.into_iter().for_each(|told| told.tell(inner));
        decided
    }

    /// A control message has come.
    pub(super) fn receive(&self, inner: &Arc<Inner>, from: u32, bytes: &[u8]) {
        match wire::decode(bytes) {
            // From a process of another version, if at all.
            None => {}
            Some(Word::Revoke { key, members }) => self.revoke(inner, key, &members, false),
            Some(Word::Agreement { key, number, message }) => {
                self.hear(inner, from, (key, number), message);
            }
        }
    }

    fn hear(&self, inner: &Arc<Inner>, from: u32, name: Name, message: Message) {
        let (mut mail, mut out) = (Vec::new(), Vec::new());
        let told = {
            let mut state = self.state.lock();
            let begun = state.begun.get(&name.0).copied().unwrap_or(0);
            let State { instances, ended, .. } = &mut *state;
            if name.1 < begun && !instances.contains_key(&name) {
                // Late: its sender has come to the end of this, too.
                return;
            }
            instances.entry(name).or_default().receive(from, message, ended, &mut out);
            state.after(name, out, &mut mail)
        };
        post(inner, mail);
        told.into_iter().for_each(|told| told.tell(inner));
    }

    /// Looks whether more ranks have failed or left, and tells all that have to know.
    pub(super) fn look_at_ends(&self, inner: &Arc<Inner>) {
        let all = ended(inner);
        let (mut mail, mut told, mut failed) = (Vec::new(), Vec::new(), false);
        {
            let mut state = self.state.lock();
            let before = state.ended.len();
            for (rank, cause) in all {
                if state.ended.insert(rank) {
                    failed |= cause != Cause::Left;
                    if cause == Cause::Left {
                        state.left.insert(rank);
                    }
                }
            }
            if state.ended.len() == before {
                return;
            }
            let names: Vec<Name> = state.instances.keys().copied().collect();
            for name in names {
                let State { instances, ended, .. } = &mut *state;
                let mut out = Vec::new();
                if let Some(instance) = instances.get_mut(&name) {
                    instance.failed(ended, &mut out);
                }
                told.extend(state.after(name, out, &mut mail));
            }
        }
        post(inner, mail);
        told.into_iter().for_each(|told| told.tell(inner));
        self.let_leave();
        if failed && let Some(hook) = self.hook.get() {
            hook.failed();
        }
    }

    /// Revokes the messages of a key, unless that was done before. `ours`: the program calls this, and relies at its return
    /// on what is done here. So it does not leave that to a thread that has begun. All of it may be done twice.
    pub(super) fn revoke(&self, inner: &Arc<Inner>, key: u64, members: &[u32], ours: bool) {
        let to = {
            let mut state = self.state.lock();
            let known = state.revoked.get(&key).copied();
            if state.closed || known == Some(true) || (known.is_some() && !ours) {
                return;
            }
            state.revoked.insert(key, false);
            let own = inner.rank();
            let lives =
                |rank: &u32| *rank != own && *rank < inner.size() && !state.ended.contains(rank);
            members.iter().copied().filter(lives).collect::<Vec<u32>>()
        };
        // Before this process acts on it: its program may end it next.
        let word = wire::revoke(key, members);
        post(inner, to.into_iter().map(|rank| (rank, word.clone())).collect());
        if let Some(hook) = self.hook.get() {
            hook.revoked(key);
        }
        self.state.lock().revoked.insert(key, true);
    }

    pub(super) fn is_revoked(&self, key: u64) -> bool {
        self.state.lock().revoked.contains_key(&key)
    }

    /// Begins to leave; `None`: no rank has to do with this one's agreements.
    pub(super) fn leave(&self, inner: &Arc<Inner>) -> Option<Arc<Decided>> {
        if !self.listens.load(Ordering::Acquire) {
            return None;
        }
        let all: Vec<u32> = (0..inner.size()).collect();
        let contribution = Contribution { flags: 0, offer: 0, acknowledged: Vec::new() };
        let decided = self.begin(inner, LEAVING, &all, contribution);
        self.let_leave();
        Some(decided)
    }

    /// A rank that has left has agreed that all may leave, or never had to do with an agreement.
    fn let_leave(&self) {
        let leaving = {
            let mut state = self.state.lock();
            if !state.left.is_empty() { state.waiting.remove(&(LEAVING, 0)) } else { None }
        };
        leaving.iter().for_each(|decided| decided.tell(None));
    }

    /// The session is closed.
    pub(super) fn close(&self) {
        let waiting = {
            let mut state = self.state.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.values().for_each(|decided| decided.tell(None));
    }
}

/// Sends control messages. One to a rank that is gone ends at once, and is not missed.
fn post(inner: &Arc<Inner>, mail: Vec<(u32, Vec<u8>)>) {
    for (to, bytes) in mail {
        detached::send(inner, to, CONTROL, bytes, ());
    }
}
