//! The launcher's thread: what it waits for, and what it does about it.

use std::io::{Error, ErrorKind};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use crate::cleanup::Cleanup;
use crate::part::{Part, Phase};
use crate::pmi::spawn::Spawn;
use crate::pmi::{Request, Server};
use crate::rank::{Closed, Connection, End, Output, Rank, Stream};
use crate::ready::{Ready, poll};
use crate::signals::{self, Interruption, Interruptions, Signals};
use crate::start::Starter;
use crate::streams::Streams;
use crate::{DRAIN, DUMP_END, Failure, Job, Words, state};

/// Time between SIGTERM and SIGKILL.
const TERM_TO_KILL: Duration = Duration::from_secs(1);
/// How long processes may take to write what their threads do, where that cannot be seen.
const DUMP: Duration = Duration::from_secs(5);
/// The same, where their last line is waited for. Naming the functions of a backtrace takes seconds of CPU time in a
/// debug build, and a process that hangs may do so on a busy machine.
const DUMP_SEEN: Duration = Duration::from_secs(30);

/// See the module.
pub(crate) struct Launcher<'a> {
    name: &'static str,
    starter: Starter,
    grace: Duration,
    keep_going: bool,
    dump_on_timeout: bool,
    /// Ranks that were asked for what their threads do, and have not said all of it.
    asked: Option<Vec<usize>>,
    /// Those of all parts, one part after the other.
    ranks: Vec<Rank>,
    parts: Vec<Part>,
    failure: Option<(u8, String)>,
    interrupted: bool,
    interruptions: Interruptions,
    /// When the time is over.
    deadline: Option<Instant>,
    timeout_option: Option<&'static str>,
    stop: Stop,
    /// Why the ranks' output is not passed on any more.
    unwritable: Option<ErrorKind>,
    words: Words<'a>,
    streams: Streams,
}

/// How urgently the job is to end: by the user's signals, or because its time is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Asked,
    AskedAgain,
}

impl<'a> Launcher<'a> {
    /// The launcher of a job whose processes run.
    pub(crate) fn new(
        job: &Job,
        name: String,
        starter: Starter,
        ranks: Vec<Rank>,
        words: Words<'a>,
    ) -> Launcher<'a> {
        let server = Server::new(name.clone(), job.ranks);
        let part = Part::new(server, name, 0..ranks.len());
        Launcher {
            name: job.name,
            starter,
            grace: job.grace,
            keep_going: job.keep_going,
            dump_on_timeout: job.dump_on_timeout,
            asked: None,
            ranks,
            parts: vec![part],
            failure: None,
            interrupted: false,
            interruptions: Interruptions::default(),
            deadline: job.timeout.map(|timeout| Instant::now() + timeout),
            timeout_option: job.timeout_option,
            stop: Stop::No,
            unwritable: None,
            words,
            streams: Streams::new(),
        }
    }

    /// What became of it all.
    pub(crate) fn result(self) -> Result<(), Failure> {
        if self.unwritable == Some(ErrorKind::BrokenPipe) {
            return Err(Failure::BrokenPipe);
        }
        match self.failure {
            None => Ok(()),
            Some((code, why)) => Err(Failure::Run { code, why, interrupted: self.interrupted }),
        }
    }

    /// The part that a rank is of.
    fn part_of(&self, index: usize) -> usize {
        let found = self.parts.iter().position(|part| part.ranks.contains(&index));
        found.unwrap_or_default()
    }

    /// A rank, as messages call it.
    fn called(&self, index: usize) -> String {
        let (unit, at) = (self.starter.unit, self.part_of(index));
        match at {
            0 => format!("{unit} {index}"),
            at => format!("rank {} of spawned job {at}", index - self.parts[at].ranks.start),
        }
    }

    fn say(&mut self, text: &str) {
        let text = format!("{}: {text}", self.name);
        match &mut self.words {
            Words::Given { message, .. } => message(&text),
            Words::Inherited | Words::Tagged => {
                self.streams.push(Stream::Err, format!("{text}\n").into());
                self.write();
            }
        }
    }

    /// Sends a signal to the ranks that have not got it from the terminal.
    fn hand_on(&self, signal: signals::Signal) {
        for rank in self.ranks.iter().filter(|rank| !signal.has_reached(rank.pid())) {
            rank.signal(signal.number);
        }
    }

    fn signal_part(&self, part: usize, signal: i32) {
        for rank in &self.ranks[self.parts[part].ranks.clone()] {
            rank.signal(signal);
        }
    }

    /// Until all ranks have ended.
    pub(crate) fn serve(&mut self, signals: &Signals, cleanup: &Cleanup) {
        // A rank may have ended before its SIGCHLD could be read.
        self.reap();
        while self.ranks.iter().any(|rank| rank.ended.is_none()) {
            let now = Instant::now();
            if self.is_out_of_time(now) {
                match self.dump_on_timeout && self.are_all(Phase::Running) {
                    true => self.dump(),
                    false => self.terminate(),
                }
            }
            let said_all = self.have_said_all();
            for part in 0..self.parts.len() {
                if said_all || self.parts[part].turn.is_some_and(|at| at <= now) {
                    match self.parts[part].phase {
                        Phase::Running | Phase::Grace => self.terminate_part(part),
                        Phase::Term | Phase::Kill => self.kill_part(part),
                    }
                }
            }
            // A rank that has ended since has not just closed its connection. (The launcher may have had no core for a while.)
            self.reap();
            for index in 0..self.ranks.len() {
                let rank = &mut self.ranks[index];
                let pid = rank.pid();
                if let Some(closed) = &mut rank.closed
                    && closed.says_all(now, || state::is_ending(pid))
                {
                    rank.closed = None;
                    let called = self.called(index);
                    self.left(index, format!("{called} closed its PMI connection"));
                }
            }
            let closed =
                self.ranks.iter().filter_map(|rank| Some(rank.closed.as_ref()?.look)).min();
            let turn = self.parts.iter().filter_map(|part| part.turn).min();
            self.turn(signals, [self.deadline, turn, closed]);
            self.reap();
            cleanup.collect_orphans(&self.ranks);
        }
    }

    /// Waits for what the ranks have left. If the job has succeeded, a little: a filter of their output has its last lines to
    /// write. Otherwise they are told to end, and have as long as ranks have. (A shell script ends at SIGTERM, and the
    /// program that it runs has not got that signal.)
    pub(crate) fn wait_for_orphans(&mut self, signals: &Signals, cleanup: &Cleanup) {
        // Those that were told to end.
        let mut told = None;
        let mut until = [Some(Instant::now() + DRAIN), self.deadline];
        while cleanup.has_orphans() && self.unwritable.is_none() {
            if self.failure.is_some() && told.is_none() {
                told = Some(Vec::new());
                until = [Some(Instant::now() + TERM_TO_KILL), None];
            }
            let over = until.into_iter().flatten().any(|at| at <= Instant::now());
            if over || self.stop == Stop::AskedAgain {
                return;
            }
            if let Some(told) = &mut told {
                cleanup.terminate_orphans(told);
            }
            self.turn(signals, [until[0], until[1], None]);
            cleanup.collect_orphans(&self.ranks);
        }
    }

    /// Waits for something, until the first of these moments, and treats it.
    fn turn(&mut self, signals: &Signals, moments: [Option<Instant>; 3]) {
        let next = moments.into_iter().flatten().min();
        let left = next.map(|at| at.saturating_duration_since(Instant::now()));
        let heeded = |stream| !self.streams.is_full(stream);
        for ready in poll(signals, &self.streams.waiting(), &self.ranks, heeded, left) {
            match ready {
                Ready::Signals => {
                    while let Some(signal) = signals.next() {
                        if signals::STOP.contains(&signal.number) {
                            self.stopped(signal);
                        } else if signal.number != libc::SIGCHLD {
                            self.hand_on(signal);
                        }
                    }
                }
                Ready::Output(rank, fd) => self.output(rank, fd),
                Ready::Connection(rank) => {
                    self.talk(rank);
                }
                Ready::Own => {}
            }
        }
        self.write();
    }

    /// Whether the job's time is over, which is said once.
    fn is_out_of_time(&mut self, now: Instant) -> bool {
        let is_over = self.deadline.take_if(|at| *at <= now).is_some();
        if is_over {
            let what = match self.ranks.iter().any(|rank| rank.ended.is_none()) {
                true => "the job did not end",
                false => "the job's output was not read to its end",
            };
            let option = self.timeout_option.map_or(String::new(), |option| format!(" ({option})"));
            self.fail(1, format!("{what} within its time limit{option}"));
            if self.stop == Stop::No {
                self.stop = Stop::Asked;
            }
        }
        is_over
    }

    fn stopped(&mut self, signal: signals::Signal) {
        match self.interruptions.judge(signal.number, Instant::now()) {
            Interruption::First => {
                self.interrupted = true;
                self.stop = Stop::Asked;
                self.fail(1, format!("interrupted by {}", signals::name(signal.number)));
                self.hand_on(signal);
                self.all_have_until(Instant::now() + self.grace);
            }
            // What it is an echo of was handed on.
            Interruption::Echo => {}
            Interruption::Again => {
                self.stop = Stop::AskedAgain;
                self.say("interrupted again: killing the job");
                self.kill();
            }
        }
    }

    /// Has every process write what its threads do, and ends the job when they have had the time. Of those that the
    /// signal would end, the kernel's word is passed on.
    fn dump(&mut self) {
        let running = self.ranks.iter().enumerate().filter(|(_, rank)| rank.ended.is_none());
        let (mut asked, mut words) = (Vec::new(), Vec::new());
        for (number, rank) in running {
            match state::catches(rank.pid(), libc::SIGQUIT) {
                true => {
                    rank.signal(libc::SIGQUIT);
                    asked.push(number);
                }
                false => words.push(format!("{}: {}", self.called(number), state::of(rank.pid()))),
            }
        }
        for text in &words {
            self.say(text);
        }
        self.asked = Some(asked);
        let time = if self.starter.capture { DUMP_SEEN } else { DUMP };
        self.all_have_until(Instant::now() + time);
    }

    /// Whether they were asked for what their threads do, and all that live have said it.
    fn have_said_all(&mut self) -> bool {
        let said = |asked: &Vec<usize>| asked.iter().all(|&at| self.ranks[at].ended.is_some());
        match self.asked.as_ref().is_some_and(said) {
            true => {
                self.asked = None;
                self.are_all(Phase::Grace)
            }
            false => false,
        }
    }

    /// Notes the first failure and says it.
    fn fail(&mut self, code: u8, why: String) {
        // Noted first: to say it may be the next failure.
        self.failure.get_or_insert_with(|| (code, why.clone()));
        self.say(&why);
    }

    fn are_all(&self, phase: Phase) -> bool {
        self.parts.iter().all(|part| part.phase == phase)
    }

    /// All parts are terminated then, or earlier if that was said before. Those that are being ended keep their time.
    fn all_have_until(&mut self, until: Instant) {
        for part in self.parts.iter_mut().filter(|part| part.phase < Phase::Term) {
            part.phase = part.phase.max(Phase::Grace);
            part.turn = Some(part.turn.map_or(until, |at| at.min(until)));
        }
    }

    fn terminate(&mut self) {
        (0..self.parts.len()).for_each(|part| self.terminate_part(part));
    }

    fn terminate_part(&mut self, at: usize) {
        let part = &mut self.parts[at];
        if part.phase < Phase::Term {
            part.phase = Phase::Term;
            part.turn = Some(Instant::now() + TERM_TO_KILL);
            self.signal_part(at, libc::SIGTERM);
        }
    }

    fn kill(&mut self) {
        (0..self.parts.len()).for_each(|part| self.kill_part(part));
    }

    fn kill_part(&mut self, at: usize) {
        let part = &mut self.parts[at];
        part.phase = Phase::Kill;
        part.turn = None;
        self.signal_part(at, libc::SIGKILL);
    }

    /// The other ranks of that part notice by themselves, or are terminated.
    fn give_grace(&mut self, at: usize) {
        let part = &mut self.parts[at];
        if self.ranks[part.ranks.clone()].iter().any(|rank| rank.ended.is_none()) {
            part.gives_grace(Instant::now() + self.grace);
        }
    }

    /// Collects the ranks that have ended. Of those that have ended meanwhile, one that was killed comes first:
    /// it is the cause, and an exit status often what a peer made of it. For the same reason an exit with
    /// `PEER_GONE` comes last: on a busy machine the launcher collects it together with the exit that caused it,
    /// and that may be a higher rank's.
    fn reap(&mut self) {
        let ranks = &mut self.ranks;
        let mut ended: Vec<usize> = (0..ranks.len()).filter(|&i| ranks[i].reap()).collect();
        ended.sort_by_key(|&i| self.ranks[i].ended.map(End::likely_cause));
        for index in ended {
            let Some(end) = self.ranks[index].ended else { continue };
            // What it still said on its connection counts (abort, finalize). A process that it has left may go on speaking
            // there: no more is read than is there now.
            let mut left = self.ranks[index].connection.as_ref().map_or(0, Connection::unread);
            while left > 0 {
                let read = self.talk(index);
                left = if read == 0 { 0 } else { left.saturating_sub(read) };
            }
            self.ranks[index].connection = None;
            self.ranks[index].closed = None;
            let (words, called, at) = (end.words(), self.called(index), self.part_of(index));
            let (pid, phase) = (self.ranks[index].pid(), self.parts[at].phase);
            match end {
                End::Code(0) => {}
                // What the launcher itself did to it is no news.
                End::Signal(libc::SIGTERM) if phase >= Phase::Term => {}
                End::Signal(libc::SIGKILL) if phase == Phase::Kill => {}
                _ if self.keep_going && phase == Phase::Running => self.lost(index, end),
                _ if self.failure.is_some() => {
                    self.say(&format!("then {called} {words}"));
                    self.give_grace(at);
                }
                _ => {
                    let code = match end {
                        End::Code(code) => u8::try_from(code).unwrap_or(1),
                        End::Signal(_) => 1,
                    };
                    self.fail(code, format!("{called} (process {pid}) {words}"));
                    self.give_grace(at);
                }
            }
            self.left(index, format!("{called} {words}"));
        }
    }

    /// A rank has failed, and the others go on. One that was killed is what they are to survive; one that says by its exit
    /// status that it has failed has the job fail in the end.
    fn lost(&mut self, index: usize, end: End) {
        let (called, pid) = (self.called(index), self.ranks[index].pid());
        let what = format!("{called} (process {pid}) {}", end.words());
        match end {
            End::Code(code) => self.fail(u8::try_from(code).unwrap_or(1), what),
            End::Signal(_) => self.say(&format!("{what}; the others go on (--keep-going)")),
        }
    }

    /// A job that keeps going has failed if no rank has ended well.
    pub(crate) fn judge_survivors(&mut self) {
        let ended_well = |rank: &Rank| matches!(rank.ended, Some(End::Code(0)));
        if self.keep_going && self.failure.is_none() && !self.ranks.iter().any(ended_well) {
            self.fail(1, "no rank is left that has ended well".into());
        }
    }

    /// Reads what a rank says on its PMI connection and answers. How many bytes were there.
    fn talk(&mut self, index: usize) -> usize {
        let Some(connection) = &mut self.ranks[index].connection else { return 0 };
        let _ = connection.send(b"");
        let Some(bytes) = connection.read() else {
            self.ranks[index].connection = None;
            self.ranks[index].closed = Some(Closed::new(Instant::now()));
            return 0;
        };
        let mut replies = Vec::new();
        let mut requests = Vec::new();
        let Some(at) = self.parts.iter().position(|part| part.ranks.contains(&index)) else {
            return 0;
        };
        let part = &mut self.parts[at];
        let (server, rank) = (&mut part.server, (index - part.ranks.start) as u32);
        let treated = connection.frames.feed(&bytes, |message| {
            requests.push(server.message(rank, message, &mut |to, text| replies.push((to, text)))?);
            Ok(server.version(rank))
        });
        self.reply(at, replies);
        if let Err(refused) = treated {
            self.give_up(index, &refused.to_string());
        }
        for request in requests {
            self.treat(index, request);
        }
        bytes.len()
    }

    /// Does what a rank asks for beyond the replies.
    fn treat(&mut self, index: usize, request: Request) {
        let (at, called) = (self.part_of(index), self.called(index));
        let answer = match request {
            Request::Nothing => return,
            Request::Abort { code, message } => {
                let colon = if message.is_empty() { "" } else { ": " };
                self.fail(code, format!("{called} aborted the job{colon}{message}"));
                return self.terminate_part(at);
            }
            Request::Spawn(spawn) => match self.spawn(at, spawn) {
                Ok(name) => format!("cmd=spawn_result rc=0 jobid={name} nerrs=0\n"),
                Err(why) => {
                    let why = why.replace(char::is_whitespace, "_");
                    format!("cmd=spawn_result rc=-1 msg={why}\n")
                }
            },
            Request::Spawned { name, end } => {
                let found = self.parts.iter().position(|part| part.name == name);
                let found = found.filter(|&found| found > 0);
                if let Some(found) = found.filter(|_| end) {
                    self.kill_part(found);
                }
                let runs = found.is_some_and(|found| {
                    let part = &self.parts[found];
                    let ended = |rank: &Rank| rank.ended.is_some();
                    part.phase == Phase::Running
                        && !self.ranks[part.ranks.clone()].iter().any(ended)
                });
                format!("cmd=mad_spawned_result rc=0 runs={}\n", u8::from(runs))
            }
        };
        let rank = (index - self.parts[at].ranks.start) as u32;
        self.reply(at, vec![(rank, answer)]);
    }

    /// Starts what a rank of the part `by` asks for; the name of the new part.
    fn spawn(&mut self, by: usize, spawn: Spawn) -> Result<String, String> {
        if self.parts[by].phase != Phase::Running {
            return Err("the job is ending".into());
        }
        let new = self.starter.spawn(&spawn.commands)?;
        let name = format!("{}.{}", self.parts[0].name, self.parts.len());
        let server = Server::spawned(name.clone(), &spawn, self.parts[0].ranks.len() as u32);
        let first = self.ranks.len();
        self.ranks.extend(new);
        self.parts.push(Part::new(server, name.clone(), first..self.ranks.len()));
        Ok(name)
    }

    fn reply(&mut self, part: usize, replies: Vec<(u32, String)>) {
        let first = self.parts[part].ranks.start;
        for (to, text) in replies {
            let to = first + to as usize;
            if let Some(connection) = &mut self.ranks[to].connection
                && !connection.send(text.as_bytes())
            {
                self.give_up(to, "it reads none of the answers on its PMI connection");
            }
        }
    }

    /// Ends a rank that broke the protocol.
    fn give_up(&mut self, index: usize, why: &str) {
        let (called, at) = (self.called(index), self.part_of(index));
        self.fail(1, format!("{called} is ended: {why}"));
        self.ranks[index].connection = None;
        self.ranks[index].signal(libc::SIGKILL);
        self.parts[at].gives_grace(Instant::now() + self.grace);
        self.left(index, format!("{called} was ended"));
    }

    fn left(&mut self, index: usize, why: String) {
        let at = self.part_of(index);
        let part = &mut self.parts[at];
        let (mut replies, rank) = (Vec::new(), (index - part.ranks.start) as u32);
        part.server.left(rank, why, &mut |to, text| replies.push((to, text)));
        self.reply(at, replies);
    }

    fn output(&mut self, index: usize, fd: RawFd) {
        let rank = &mut self.ranks[index];
        let Some(at) = rank.outputs.iter().position(|output| output.fd() == fd) else { return };
        let stream = rank.outputs[at].stream();
        if self.streams.is_full(stream) {
            return; // others have filled it in this turn
        }
        let (asked, words, streams) = (&mut self.asked, &mut self.words, &mut self.streams);
        let read = rank.outputs[at].read(|line| {
            if let Some(asked) = asked.as_mut().filter(|_| line == DUMP_END) {
                asked.retain(|&other| other != index);
            }
            match words {
                Words::Given { line: on_line, .. } => on_line(index as u32, stream, line)?,
                Words::Tagged => streams.push(stream, tagged(index, line)),
                Words::Inherited => {} // there is no pipe to read
            }
            Ok(())
        });
        match read {
            Ok(false) => {}
            Ok(true) => drop(rank.outputs.swap_remove(at)),
            Err(error) => self.cannot_write(&error),
        }
    }

    fn write(&mut self) {
        // Where the ranks write by themselves, only the launcher's own messages are lost.
        if let Err(error) = self.streams.write()
            && matches!(self.words, Words::Tagged)
        {
            self.cannot_write(&error);
        }
    }

    /// The first error counts: what follows while the ranks end is the same.
    fn cannot_write(&mut self, error: &Error) {
        if self.unwritable.is_none() {
            self.unwritable = Some(error.kind());
            // Without a reader the job ends quietly, as with SIGPIPE.
            if error.kind() != ErrorKind::BrokenPipe {
                self.fail(1, format!("the ranks' output cannot be written: {error}"));
            }
            self.terminate();
        }
    }

    /// Passes on what the ranks wrote before they ended. A process that they have left may hold their pipes open: then what is
    /// there after a while counts.
    pub(crate) fn drain(&mut self, signals: &Signals) {
        let (until, mut given_up) = (Instant::now() + DRAIN, None);
        loop {
            let now = Instant::now();
            let is_late = until <= now;
            if is_late {
                self.end_outputs();
            }
            if !self.has_output() && self.streams.is_empty() {
                return;
            }
            self.is_out_of_time(now);
            match self.stop {
                Stop::No => {}
                Stop::Asked => drop(given_up.get_or_insert(now + self.grace.max(DRAIN))),
                Stop::AskedAgain => {
                    given_up = Some(given_up.map_or(until, |at: Instant| at.min(until)));
                }
            }
            // What can be read and written at once is, in a last turn.
            self.turn(signals, [(!is_late).then_some(until), self.deadline, given_up]);
            if given_up.is_some_and(|at| at <= now) {
                return;
            }
        }
    }

    /// Whether output of the ranks is, or may come, that is passed on.
    fn has_output(&self) -> bool {
        self.unwritable.is_none() && self.ranks.iter().any(|rank| !rank.outputs.is_empty())
    }

    /// Reads no more of the ranks' pipes than was in them at the first call.
    fn end_outputs(&mut self) {
        for index in 0..self.ranks.len() {
            self.ranks[index].outputs.iter_mut().for_each(Output::end_here);
            let ended = |output: &&Output| output.is_at_end();
            let fds: Vec<RawFd> =
                self.ranks[index].outputs.iter().filter(ended).map(Output::fd).collect();
            fds.into_iter().for_each(|fd| self.output(index, fd));
        }
    }
}

/// A line as it is passed on.
fn tagged(index: usize, line: &[u8]) -> Vec<u8> {
    let mut tagged = format!("[{index}] ").into_bytes();
    tagged.extend_from_slice(line);
    tagged.push(b'\n');
    tagged
}
