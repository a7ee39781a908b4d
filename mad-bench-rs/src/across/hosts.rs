//! Rank 0's view of the hosts: which rank is where, and where the processes of a bench go.
//!
//! Rank k of a job is at rank k modulo N of the process manager. What is started here for one elsewhere is a
//! [proxy](super::proxy).

use std::ffi::OsString;
use std::io::Write;
use std::net::TcpStream;

use crate::across::agent::OVER;
use crate::across::card::{Agent, Card};
use crate::across::frame::Assignment;
use crate::across::greeting::Purpose;
use crate::across::link::call;
use crate::across::proxy::{Remote, VARIABLE};
use crate::config::Config;
use mad_launch::{Place, Proxy};

/// The ranks that a process manager has started.
pub(crate) struct Hosts {
    cards: Vec<Card>,
    /// Of the ranks from 1.
    controls: Vec<TcpStream>,
}

impl Hosts {
    /// The ranks that have published these cards; connects with each of them.
    ///
    /// # Errors
    /// In a sentence, which rank is not as it should be, and what to do about it.
    pub(super) fn assemble(texts: &[String]) -> Result<Hosts, String> {
        let own = super::card::version();
        let mut cards: Vec<Card> = Vec::with_capacity(texts.len());
        for (rank, text) in texts.iter().enumerate() {
            let version = Card::version_in(text).unwrap_or_else(|| "another version of mad".into());
            if version != own {
                return Err(format!(
                    "rank {rank} is {version}, and rank 0 is {own}: start the same program on all machines"
                ));
            }
            let card: Card = serde_json::from_str(text)
                .map_err(|e| format!("what rank {rank} has published is not understood: {e}"))?;
            cards.push(card);
        }
        let mut hosts = Hosts { cards, controls: Vec::new() };
        for rank in 1..hosts.cards.len() {
            let agent = hosts.agent(rank)?;
            let elsewhere = hosts.cards[rank].reach != hosts.cards[0].reach;
            let whose = hosts.whose(rank);
            if elsewhere && agent.address.ip().is_loopback() {
                return Err(format!(
                    "{whose} can be reached at {} only, which is its own machine: set NMAD_TCP_ADDRESS on each machine to \
                     that machine's own address on the network that they share (docs/experiments.md says how)",
                    agent.address
                ));
            }
            let control = call(agent, Purpose::Control).map_err(|e| {
                format!(
                    "{whose} cannot be reached at {}: {e}: is NMAD_TCP_ADDRESS its address on a network that all machines share, \
                     and may programs connect with each other there (firewall)?",
                    agent.address
                )
            })?;
            hosts.controls.push(control);
        }
        Ok(hosts)
    }

    /// How many there are.
    fn size(&self) -> u32 {
        self.cards.len() as u32
    }

    fn card(&self, rank: u32) -> &Card {
        &self.cards[(rank % self.size()) as usize]
    }

    fn whose(&self, rank: usize) -> String {
        format!("rank {rank} on {}", self.cards[rank].host)
    }

    fn agent(&self, rank: usize) -> Result<&Agent, String> {
        match &self.cards[rank].agent {
            Some(Ok(agent)) => Ok(agent),
            Some(Err(why)) => Err(format!("{}: {why}", self.whose(rank))),
            None => Err(format!("{} has not said how it is reached", self.whose(rank))),
        }
    }

    /// What each rank does in a bench of so many processes, in a sentence.
    pub(crate) fn words(&self, ranks: u32) -> String {
        let busy = self.size().min(ranks);
        let mut words: Vec<String> = (0..busy)
            .map(|at| {
                let here: Vec<String> = (at..ranks)
                    .step_by(self.size() as usize)
                    .map(|rank| rank.to_string())
                    .collect();
                let process = if here.len() == 1 { "process" } else { "processes" };
                format!("{}: {process} {}", self.whose(at as usize), here.join(", "))
            })
            .collect();
        match self.size() - busy {
            0 => {}
            1 => words.push(format!("rank {busy} has nothing to do")),
            _ => words.push(format!("ranks {busy} to {} have nothing to do", self.size() - 1)),
        }
        words.join("; ")
    }

    /// Says which processes count as others in the line on the use of the machine.
    pub(crate) fn noise_suffix(&self) -> &'static str {
        let here = |card: &Card| card.machine == self.cards[0].machine;
        let mut others = self.cards.iter().skip(1);
        match (others.clone().all(here), others.any(here)) {
            (true, _) => " (those of other ranks among them)",
            (false, true) => " on rank 0's machine (those of other ranks among them)",
            (false, false) => " on rank 0's machine",
        }
    }

    /// The machine of rank 0, by name.
    pub(crate) fn host(&self) -> &str {
        &self.cards[0].host
    }

    /// Why a point cannot be measured by so many processes where they are.
    pub(crate) fn refuses(&self, point: &Config, ranks: u32) -> Option<String> {
        let apart = (1..ranks).find(|&rank| self.card(rank).reach != self.card(0).reach)?;
        (point.text("driver") == "shm").then(|| {
            format!(
                "driver shm: it reaches one machine only, and process 0 is on {}, process {apart} on {}{}; driver tcp reaches both",
                self.card(0).host,
                self.card(apart).host,
                match self.card(apart).machine == self.card(0).machine {
                    true => ", in another namespace (container) of the same machine",
                    false => "",
                }
            )
        })
    }

    /// Where the processes of a job are, for which these variables are set.
    ///
    /// # Errors
    /// In a sentence.
    pub(crate) fn places(
        &self,
        ranks: u32,
        env: &[(OsString, OsString)],
    ) -> Result<Vec<Place>, String> {
        let text = |text: &OsString| {
            let owned = text.clone().into_string();
            owned.map_err(|text| format!("{} is not text", text.to_string_lossy()))
        };
        let mut variables = Vec::with_capacity(env.len());
        for (name, value) in env {
            variables.push((text(name)?, text(value)?));
        }
        let mut places = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks {
            let local = self.local(rank, ranks);
            let at = rank % self.size();
            let proxy = match at {
                0 => None,
                at => {
                    let remote = Remote {
                        whose: self.whose(at as usize),
                        agent: self.agent(at as usize)?.clone(),
                        assignment: Assignment {
                            args: Vec::new(),
                            env: variables.clone(),
                            rank,
                            size: ranks,
                            local,
                        },
                    };
                    let text = serde_json::to_string(&remote).map_err(|e| e.to_string())?;
                    Some(Proxy {
                        words: vec!["proxy".into()],
                        env: vec![(VARIABLE.into(), text.into())],
                    })
                }
            };
            places.push(Place { proxy, local });
        }
        Ok(places)
    }

    /// Which this one is of those that share its machine's cores, and how many do. A process manager that binds its
    /// processes has given each cores of its own.
    fn local(&self, rank: u32, ranks: u32) -> (u32, u32) {
        let cores = |rank: u32| (&self.card(rank).machine, &self.card(rank).cpus);
        let sharing: Vec<u32> = (0..ranks).filter(|&other| cores(other) == cores(rank)).collect();
        let index = sharing.iter().position(|&other| other == rank).unwrap_or(0);
        (index as u32, sharing.len() as u32)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for control in &mut self.controls {
            let _ = control.write_all(&[OVER]); // or it is gone, and has been missed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(cards: &[(&str, &str, &[usize])]) -> Hosts {
        let card = |&(host, reach, cpus): &(&str, &str, &[usize])| Card {
            version: super::super::card::version(),
            host: host.into(),
            machine: host.into(),
            reach: format!("{host} {reach}"),
            cpus: cpus.to_vec(),
            agent: Some(Ok(Agent { address: "192.0.2.1:7".parse().unwrap(), key: [0; 32] })),
        };
        Hosts { cards: cards.iter().map(card).collect(), controls: Vec::new() }
    }

    #[test]
    fn processes_share_the_cores_of_their_machine_unless_they_are_bound() {
        let two = hosts(&[("a", "", &[0, 1]), ("b", "", &[0, 1])]);
        assert_eq!([0, 1].map(|rank| two.local(rank, 2)), [(0, 1), (0, 1)]);
        assert_eq!([0, 1, 2, 3].map(|rank| two.local(rank, 4)), [(0, 2), (0, 2), (1, 2), (1, 2)]);
        let one = hosts(&[("a", "", &[0, 1]), ("a", "", &[0, 1])]);
        assert_eq!([0, 1].map(|rank| one.local(rank, 2)), [(0, 2), (1, 2)]);
        let bound = hosts(&[("a", "", &[0]), ("a", "", &[1])]);
        assert_eq!([0, 1].map(|rank| bound.local(rank, 2)), [(0, 1), (0, 1)]);
    }

    #[test]
    fn shared_memory_is_for_one_machine() {
        let shm = Config::default().with("driver", "shm");
        let tcp = Config::default().with("driver", "tcp");
        let apart = hosts(&[("a", "1", &[0]), ("b", "1", &[0])]);
        let why = apart.refuses(&shm, 2).unwrap();
        assert!(why.contains("process 0 is on a, process 1 on b"), "{why}");
        assert!(apart.refuses(&tcp, 2).is_none());
        let containers = hosts(&[("a", "1", &[0]), ("a", "2", &[0])]);
        assert!(containers.refuses(&shm, 2).unwrap().contains("namespace"));
        let together = hosts(&[("a", "1", &[0]), ("a", "1", &[0]), ("b", "1", &[0])]);
        assert!(together.refuses(&shm, 2).is_none());
        assert!(together.refuses(&shm, 3).is_some());
    }

    #[test]
    fn who_stands_in_for_whom() {
        let two = hosts(&[("a", "", &[0, 1]), ("b", "", &[0, 1])]);
        let places = two.places(4, &[("NMAD_DRIVER".into(), "tcp".into())]).unwrap();
        let stands: Vec<bool> = places.iter().map(|place| place.proxy.is_some()).collect();
        assert_eq!(stands, [false, true, false, true]);
        assert_eq!(two.words(3), "rank 0 on a: processes 0, 2; rank 1 on b: process 1");
        let more = hosts(&[("a", "", &[0]), ("b", "", &[0]), ("c", "", &[0])]);
        assert!(more.words(2).ends_with("rank 1 on b: process 1; rank 2 has nothing to do"));
        assert!(more.words(1).ends_with("process 0; ranks 1 to 2 have nothing to do"));
    }

    #[test]
    fn another_version_is_named() {
        let card = Card::own(None);
        let own = serde_json::to_string(&card).unwrap();
        let other = serde_json::to_string(&Card { version: "mad 9.9".into(), ..card }).unwrap();
        for text in [other.as_str(), r#"{"version":"mad 9.9"}"#] {
            let why = Hosts::assemble(&[own.clone(), text.into()]).err().unwrap();
            assert!(why.contains("rank 1 is mad 9.9") && why.contains("same program"), "{why}");
        }
        for text in ["", "newmad1", "{}", "[]"] {
            let why = Hosts::assemble(&[own.clone(), text.into()]).err().unwrap();
            assert!(why.contains("rank 1 is another version"), "{why}");
        }
    }
}
