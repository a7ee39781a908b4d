//! Scenarios of two processes whose network a test treats badly in the middle of messages; and how they and the test tell
//! each other how far they are.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use newmad::{Error, Session};

use crate::common::{byte, message};

/// No process takes longer to say a word.
const LIMIT: Duration = Duration::from_secs(300);
/// Rounds before the test treats the network, and after it.
const BEFORE: u64 = 20;
const AFTER: u64 = 30;

/// Where the processes find the directory of the words.
pub(crate) const WORDS: &str = "NEWMAD_TEST_WORDS";

/// A directory in which processes and the test leave word for each other, by empty files. Gone with the test's value.
pub(crate) struct Words(PathBuf, bool);

impl Words {
    pub(crate) fn new(test: &str) -> Words {
        let path = std::env::temp_dir().join(format!("newmad-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Words(path, true)
    }

    /// Those of the test that has started this process.
    pub(crate) fn there() -> Words {
        Words(std::env::var_os(WORDS).unwrap().into(), false)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn say(&self, word: &str) {
        std::fs::write(self.0.join(word), "").unwrap();
    }

    fn is_said(&self, word: &str) -> bool {
        self.0.join(word).exists()
    }

    pub(crate) fn wait(&self, word: &str) {
        let start = Instant::now();
        while !self.is_said(word) {
            assert!(start.elapsed() < LIMIT, "no process said {word}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if self.1 {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// What `from` sends as number `index` of a round: mostly short, some announced, two of at least `large` bytes.
fn content(from: u32, round: u64, index: u64, large: usize) -> Vec<u8> {
    let number = u64::from(from) << 48 | round << 8 | index;
    let len = match index {
        0 => 0,
        6 | 7 => large + round as usize % 50 * 1000,
        8 => 40_000,
        _ => byte(number, 1) as usize * 10,
    };
    message(number, len)
}

/// Both ways at once, until the test has treated the network (`treated`) and some rounds more. Says `running0` and
/// `running1`.
pub(crate) fn load(session: &Session, large: usize) -> Result<(), Error> {
    let (rank, peer, words) = (session.rank(), 1 - session.rank(), Words::there());
    let (mut round, mut last) = (0, u64::MAX);
    while round < last {
        let mut sends = Vec::new();
        let mut receives = Vec::new();
        for index in 0..10 {
            sends.push(session.isend(peer, index % 3, content(rank, round, index, large))?);
        }
        for tag in 0..3 {
            for index in (0..10).filter(|index| index % 3 == tag) {
                receives.push((index, session.irecv(peer, tag, vec![0; large + 100_000])?));
            }
        }
        for (index, receive) in receives {
            let (data, status) = receive.wait()?;
            assert!(
                data[..status.len] == content(peer, round, index, large),
                "message {index} of round {round}: {} bytes",
                status.len
            );
        }
        for send in sends {
            send.wait()?;
        }
        round += 1;
        // Rank 0 says which round is the last, when it knows.
        let mut known = [0; 8];
        if rank == 0 {
            if last == u64::MAX && words.is_said("treated") {
                last = round + AFTER;
            }
            known = last.to_le_bytes();
            session.send(peer, 9, &known)?;
        } else {
            session.recv(peer, 9, &mut known)?;
            last = u64::from_le_bytes(known);
        }
        if round == BEFORE {
            words.say(&format!("running{rank}"));
        }
    }
    session.barrier()
}

/// Sends and receives messages of `len` bytes until that is an error, which has to come: of the peer's death. Says
/// `running0`, `running1`, `error0`, `error1`.
pub(crate) fn alone(session: &Session, len: usize) -> Result<(), Error> {
    let (rank, peer, words) = (session.rank(), 1 - session.rank(), Words::there());
    let mut buffer = vec![0; len];
    let mut round = 0;
    let error = loop {
        let done = match rank {
            0 => session.send(peer, 1, &buffer),
            _ => session.recv(peer, 1, &mut buffer).map(|_| ()),
        };
        if let Err(error) = done {
            break error;
        }
        round += 1;
        if round == BEFORE {
            words.say(&format!("running{rank}"));
        }
    };
    words.say(&format!("error{rank}"));
    assert!(matches!(error, Error::PeerDied { rank, .. } if rank == peer), "{error}");
    Ok(())
}
