//! The server's side of PMI-1: what ranks ask while they start, and what they are answered.
//!
//! A pure state machine, no descriptors: [`Server::line`] takes one line of one rank and pushes the replies
//! (possibly to other ranks: a barrier's end), so that tests and hostile input need no process.
//!
//! One line per message, `cmd=NAME key=value …`, in the order of the "simple" wire protocol of PMI-1:
//!
//! ```text
//!   init → response_to_init        get_maxes → maxes          get_my_kvsname → my_kvsname
//!   put → put_result               get → get_result           barrier_in → … barrier_out (to all)
//!   get_appnum → appnum            get_universe_size → universe_size
//!   finalize → finalize_ack        abort: the job ends
//! ```
//!
//! A barrier is complete when every rank is in. When one has left (died, closed its connection, finalized)
//! it can never be: the waiting ranks get `barrier_out rc=-1 msg=…` at once instead of waiting for ever.
//!
//! Tolerant in what it reads (unknown keys, any order, spaces, `\r`), strict in what a rank may cost: a line
//! has at most [`LINE_MAX`] bytes, all values together [`KVS_MAX`]. Who breaks that gets a [`Refused`]: its
//! rank is ended, the launcher and the other ranks go on.

use std::collections::HashMap;
use std::fmt;

/// Longest line that is accepted, its newline included.
pub(crate) const LINE_MAX: usize = 8192;
/// Longest key and value that `get_maxes` promises.
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 4096;
const NAME_MAX: usize = 256;
/// Bytes of keys and values that one job may store.
const KVS_MAX: usize = 64 << 20;

/// Why a rank's connection is given up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a line asks of the launcher beyond the replies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing.
    Nothing,
    /// The whole job is to end with this exit code.
    Abort {
        /// The exit code that the rank gave, 1 when it gave none or an unusable one.
        code: u8,
        /// What the rank said about it.
        message: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// Connected, or not yet.
    Running,
    /// Waits in the barrier.
    Waiting,
    /// Will take part in no barrier any more.
    Left,
}

/// The key-value space and the barrier of one job.
pub(crate) struct Server {
    kvsname: String,
    store: HashMap<String, String>,
    stored: usize,
    ranks: Vec<Rank>,
    /// Inside a multi-line command of this rank (`mcmd=spawn … endcmd`).
    in_mcmd: Vec<bool>,
    left: Option<String>,
}

impl Server {
    /// The server of a job of `size` ranks; `kvsname` is the job's name.
    pub(crate) fn new(kvsname: String, size: u32) -> Server {
        let size = size as usize;
        Server {
            kvsname,
            store: HashMap::new(),
            stored: 0,
            ranks: vec![Rank::Running; size],
            in_mcmd: vec![false; size],
            left: None,
        }
    }

    /// Treats one line (without its newline) of `rank`; replies go to `reply(rank, text)`.
    ///
    /// # Errors
    /// When the rank breaks the protocol in a way that no reply can mend.
    pub(crate) fn line(
        &mut self,
        rank: u32,
        line: &[u8],
        reply: &mut dyn FnMut(u32, String),
    ) -> Result<Asked, Refused> {
        let text = std::str::from_utf8(line)
            .map_err(|_| Refused("a line that is not text came on its PMI connection".into()))?;
        let text = text.trim();
        if text.is_empty() {
            return Ok(Asked::Nothing);
        }
        let this = rank as usize;
        if self.in_mcmd[this] {
            if text == "endcmd" {
                self.in_mcmd[this] = false;
                reply(rank, "cmd=spawn_result rc=-1 msg=spawn_is_not_supported\n".into());
            }
            return Ok(Asked::Nothing);
        }
        if text.starts_with("mcmd=") {
            self.in_mcmd[this] = true;
            return Ok(Asked::Nothing);
        }
        let words = Words(text);
        let cmd = words.get("cmd").ok_or_else(|| {
            Refused(format!("its PMI connection carried {:?}: no cmd= in it", shorten(text)))
        })?;
        match cmd {
            "init" => {
                let major = words.get("pmi_version").unwrap_or("1");
                let rc = if major == "1" { "0" } else { "-1" };
                reply(
                    rank,
                    format!("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={rc}\n"),
                );
            }
            "get_maxes" => reply(
                rank,
                format!(
                    "cmd=maxes kvsname_max={NAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX} rc=0\n"
                ),
            ),
            "get_my_kvsname" => {
                reply(rank, format!("cmd=my_kvsname kvsname={} rc=0\n", self.kvsname));
            }
            "get_appnum" => reply(rank, "cmd=appnum appnum=0 rc=0\n".into()),
            "get_universe_size" => {
                reply(rank, format!("cmd=universe_size size={} rc=0\n", self.ranks.len()));
            }
            "put" => {
                let result = match self.put(words) {
                    Ok(()) => "rc=0 msg=success".into(),
                    Err(why) => format!("rc=-1 msg={why}"),
                };
                reply(rank, format!("cmd=put_result {result}\n"));
            }
            "get" => {
                let found = words.get("key").and_then(|key| self.store.get(key));
                let foreign = words.get("kvsname").is_some_and(|name| name != self.kvsname);
                reply(
                    rank,
                    match found {
                        Some(value) if !foreign => {
                            format!("cmd=get_result rc=0 msg=success value={value}\n")
                        }
                        _ if foreign => {
                            "cmd=get_result rc=-1 msg=unknown_kvsname value=unknown\n".into()
                        }
                        _ => "cmd=get_result rc=-1 msg=key_not_found value=unknown\n".into(),
                    },
                );
            }
            "barrier_in" => {
                self.ranks[this] = Rank::Waiting;
                self.settle_barrier(reply);
            }
            "finalize" => {
                reply(rank, "cmd=finalize_ack rc=0\n".into());
                self.left(rank, format!("rank {rank} finalized"), reply);
            }
            "abort" => {
                let code = words.get("exitcode").and_then(|code| code.parse().ok());
                let message = text.split_once("message=").map_or("", |(_, rest)| rest);
                return Ok(Asked::Abort {
                    code: code.filter(|&code| code != 0).unwrap_or(1),
                    message: message.into(),
                });
            }
            unknown => {
                // Answered, so that a client that waits does not hang.
                reply(rank, format!("cmd={unknown}_result rc=-1 msg=unknown_command\n"));
            }
        }
        Ok(Asked::Nothing)
    }

    /// `rank` will not come to a barrier any more; `why` is what those who wait for it are told.
    pub(crate) fn left(&mut self, rank: u32, why: String, reply: &mut dyn FnMut(u32, String)) {
        let state = &mut self.ranks[rank as usize];
        if *state != Rank::Left {
            *state = Rank::Left;
            self.left.get_or_insert(why);
            self.settle_barrier(reply);
        }
    }

    fn put(&mut self, words: Words<'_>) -> Result<(), &'static str> {
        if words.get("kvsname").is_some_and(|name| name != self.kvsname) {
            return Err("unknown_kvsname");
        }
        let key = words.get("key").filter(|key| !key.is_empty()).ok_or("no_key")?;
        let value = words.get("value").ok_or("no_value")?;
        if key.len() > KEY_MAX {
            return Err("key_too_long");
        }
        if value.len() > VALUE_MAX {
            return Err("value_too_long");
        }
        let more = key.len() + value.len();
        if self.stored + more > KVS_MAX {
            return Err("the_jobs_key_value_space_is_full");
        }
        self.stored += more;
        if let Some(old) = self.store.insert(key.into(), value.into()) {
            self.stored -= key.len() + old.len();
        }
        Ok(())
    }

    fn settle_barrier(&mut self, reply: &mut dyn FnMut(u32, String)) {
        let out = match &self.left {
            Some(why) => format!("cmd=barrier_out rc=-1 msg={}\n", why.replace(' ', "_")),
            None if self.ranks.iter().all(|&state| state == Rank::Waiting) => {
                "cmd=barrier_out rc=0\n".into()
            }
            None => return,
        };
        for (rank, state) in self.ranks.iter_mut().enumerate() {
            if *state == Rank::Waiting {
                *state = Rank::Running;
                reply(rank as u32, out.clone());
            }
        }
    }
}

/// The `key=value` words of one line.
#[derive(Clone, Copy)]
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn get(self, key: &str) -> Option<&'a str> {
        self.0.split_whitespace().find_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == key).then_some(value)
        })
    }
}

/// The beginning of a text that somebody else wrote.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Cuts a byte stream into lines.
#[derive(Default)]
pub(crate) struct Lines {
    held: Vec<u8>,
}

impl Lines {
    /// Takes bytes and gives every line that they complete to `each`, without its newline.
    ///
    /// # Errors
    /// When a line is longer than [`LINE_MAX`], or when `each` fails.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.held.len() + piece.len() > LINE_MAX {
                return Err(Refused(format!(
                    "a line of more than {LINE_MAX} bytes came on its PMI connection"
                )));
            }
            self.held.extend_from_slice(piece);
            if let Some((b'\n', line)) = self.held.split_last() {
                each(line)?;
                self.held.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(size: u32) -> Server {
        Server::new("job".into(), size)
    }

    fn ask(server: &mut Server, rank: u32, line: &str) -> Vec<(u32, String)> {
        let mut replies = Vec::new();
        server.line(rank, line.as_bytes(), &mut |rank, text| replies.push((rank, text))).unwrap();
        replies
    }

    #[test]
    fn a_client_of_the_standard_gets_through() {
        let mut s = server(1);
        assert!(ask(&mut s, 0, "cmd=init pmi_version=1 pmi_subversion=1")[0].1.contains("rc=0"));
        assert!(ask(&mut s, 0, "cmd=get_maxes")[0].1.starts_with("cmd=maxes kvsname_max=256"));
        assert!(ask(&mut s, 0, "cmd=get_my_kvsname")[0].1.contains("kvsname=job"));
        assert!(ask(&mut s, 0, "cmd=put kvsname=job key=a value=x=y#z")[0].1.contains("rc=0"));
        assert_eq!(
            ask(&mut s, 0, "cmd=get kvsname=job key=a")[0].1,
            "cmd=get_result rc=0 msg=success value=x=y#z\n"
        );
        assert!(ask(&mut s, 0, "cmd=get kvsname=job key=b")[0].1.contains("rc=-1"));
        assert_eq!(ask(&mut s, 0, "cmd=barrier_in")[0].1, "cmd=barrier_out rc=0\n");
        assert!(ask(&mut s, 0, "cmd=finalize")[0].1.starts_with("cmd=finalize_ack"));
    }

    #[test]
    fn barriers_end_together_and_can_be_repeated() {
        let mut s = server(3);
        for _ in 0..2 {
            assert!(ask(&mut s, 0, "cmd=barrier_in").is_empty());
            assert!(ask(&mut s, 2, "cmd=barrier_in").is_empty());
            let out = ask(&mut s, 1, "cmd=barrier_in");
            assert_eq!(out.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1, 2]);
        }
    }

    #[test]
    fn who_waits_for_a_rank_that_has_left_is_told() {
        let mut s = server(2);
        assert!(ask(&mut s, 0, "cmd=barrier_in").is_empty());
        let mut told = Vec::new();
        s.left(1, "rank 1 died".into(), &mut |rank, text| told.push((rank, text)));
        assert_eq!(told, [(0, "cmd=barrier_out rc=-1 msg=rank_1_died\n".into())]);
        assert!(ask(&mut s, 0, "cmd=barrier_in")[0].1.contains("rc=-1"));
    }

    #[test]
    fn abort_carries_its_code() {
        let mut s = server(1);
        let asked = s.line(0, b"cmd=abort exitcode=7 message=out of luck", &mut |_, _| {}).unwrap();
        assert_eq!(asked, Asked::Abort { code: 7, message: "out of luck".into() });
        let asked = s.line(0, b"cmd=abort exitcode=nonsense", &mut |_, _| {}).unwrap();
        assert_eq!(asked, Asked::Abort { code: 1, message: String::new() });
    }

    #[test]
    fn the_key_value_space_is_bounded() {
        let mut s = server(1);
        let value = "v".repeat(VALUE_MAX);
        let mut refused = false;
        for i in 0..KVS_MAX / VALUE_MAX + 2 {
            refused |=
                ask(&mut s, 0, &format!("cmd=put key=k{i} value={value}"))[0].1.contains("rc=-1");
        }
        assert!(refused);
        assert!(ask(&mut s, 0, &format!("cmd=put key=k value={value}v"))[0].1.contains("too_long"));
    }

    #[test]
    fn putting_again_replaces() {
        let mut s = server(1);
        for i in 0..20_000 {
            assert!(
                ask(&mut s, 0, &format!("cmd=put key=k value={i:04000}"))[0].1.contains("rc=0")
            );
        }
    }

    #[test]
    fn overlong_lines_are_refused_in_pieces_too() {
        let mut lines = Lines::default();
        for _ in 0..LINE_MAX {
            lines.feed(b"x", |_| Ok(())).unwrap();
        }
        assert!(lines.feed(b"x", |_| Ok(())).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(chunks in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "(cmd|mcmd)=(init|put|get|barrier_in|finalize|abort|spawn|endcmd)( (key|value|exitcode)=[a-z0-9 =]{0,9}){0,3}\n"
                    .prop_map(String::into_bytes),
            ], 0..40)) {
            let mut s = server(2);
            let mut lines = Lines::default();
            for (i, chunk) in chunks.iter().enumerate() {
                let rank = (i % 2) as u32;
                let _ = lines.feed(chunk, |line| {
                    s.line(rank, line, &mut |_, text| assert!(text.ends_with('\n'))).map(|_| ())
                });
            }
        }

        #[test]
        fn lines_do_not_depend_on_the_pieces(text in "([a-z]{0,9}\n){0,9}[a-z]{0,9}", cut in 1usize..9) {
            let mut got = Vec::new();
            let mut lines = Lines::default();
            for piece in text.as_bytes().chunks(cut) {
                lines.feed(piece, |line| { got.push(line.to_vec()); Ok(()) }).unwrap();
            }
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            let expected: Vec<_> = if text.contains('\n') {
                complete.split('\n').map(|l| l.as_bytes().to_vec()).collect()
            } else { Vec::new() };
            prop_assert_eq!(got, expected);
        }
    }
}
