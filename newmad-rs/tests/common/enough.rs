//! Scenarios that last until the test that started them has seen enough, on a quick machine as on a slow one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use newmad::{Error, Session};

/// Names a file; until it is there, a scenario goes on.
pub(crate) const ENOUGH: &str = "NEWMAD_TEST_ENOUGH";

/// The file of a test, which is removed with this.
pub(crate) struct Enough(PathBuf);

impl Enough {
    /// A file of its own: tests of one process run side by side.
    pub(crate) fn new() -> Enough {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("newmad-{}-enough-{number}", std::process::id());
        Enough(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Ends the scenario.
    pub(crate) fn say(&self) {
        std::fs::write(&self.0, b"").unwrap();
    }
}

impl Drop for Enough {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Whether another round follows, as rank 0 finds: there are `rounds` at least.
pub(crate) fn goes_on(session: &Session, round: u64, rounds: u64) -> Result<bool, Error> {
    let Ok(file) = std::env::var(ENOUGH) else { return Ok(round < rounds) };
    let mut more = [u8::from(round < rounds || !Path::new(&file).exists())];
    if session.rank() == 0 {
        (1..session.size()).try_for_each(|peer| session.send(peer, 9, &more))?;
    } else {
        session.recv(0, 9, &mut more)?;
    }
    Ok(more == [1])
}
