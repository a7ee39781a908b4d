//! The words of PMI-2: `cmd=NAME;key=value;…`, each message with its length before it.
//!
//! ```text
//!   fullinit → fullinit-response (rank, size)      job-getid → … (name of the job)
//!   kvs-put → …      kvs-get → …      kvs-fence → … (to all)
//!   info-getjobattr → … (universeSize; nothing else is known)      info-getnodeattr → … (nothing is)
//!   finalize → …     abort: the job ends
//! ```
//!
//! Every answer is called `NAME-response` and ends with `rc=`, 0 when all is well. What is not known, processes started
//! later among it, is answered with an error.

use super::{Asked, Refused, Reply, Server, shorten};

impl Server {
    /// Treats one message.
    pub(super) fn command(
        &mut self,
        rank: u32,
        text: &str,
        reply: Reply<'_>,
    ) -> Result<Asked, Refused> {
        let words = Words(text);
        let cmd = words.get("cmd").ok_or_else(|| {
            Refused(format!("its PMI connection carried {:?}: no cmd= in it", shorten(text)))
        })?;
        let thread = words.get("thrid");
        let mut answer = |body: &str| reply(rank, response(cmd, thread, body));
        match cmd {
            "fullinit" => answer(&format!(
                "pmi-version=2;pmi-subversion=0;rank={rank};size={};appnum=0;debugged=FALSE;pmiverbose=FALSE;rc=0;",
                self.ranks.len()
            )),
            "job-getid" => answer(&format!("jobid={};rc=0;", self.kvsname)),
            "info-getjobattr" if words.get("key") == Some("universeSize") => {
                answer(&format!("found=TRUE;value={};rc=0;", self.ranks.len()));
            }
            "info-getjobattr" | "info-getnodeattr" => answer("found=FALSE;rc=0;"),
            "kvs-put" => match self.put(words.get("key"), words.get("value")) {
                Ok(()) => answer("rc=0;"),
                Err(why) => answer(&format!("rc=-1;errmsg={why};")),
            },
            "kvs-get" => match self.get(words.get("key")) {
                Some(value) => answer(&format!("found=TRUE;value={value};rc=0;")),
                None => answer("found=FALSE;rc=0;"),
            },
            "kvs-fence" => {
                self.ranks[rank as usize].thread = thread.map(str::to_owned);
                self.enter_barrier(rank, reply);
            }
            "finalize" => {
                answer("rc=0;");
                self.left(rank, format!("rank {rank} finalized"), reply);
            }
            "abort" => {
                let message = words.get("msg").unwrap_or_default().to_owned();
                return Ok(Asked::Abort { code: 1, message });
            }
            _ => answer("rc=-1;errmsg=unknown_command;"),
        }
        Ok(Asked::Nothing)
    }
}

/// The end of a fence; `why` it can never be complete.
pub(super) fn fence_response(thread: Option<&str>, why: Option<&str>) -> String {
    match why {
        Some(why) => {
            let why = why.replace([' ', ';'], "_");
            response("kvs-fence", thread, &format!("rc=-1;errmsg={why};"))
        }
        None => response("kvs-fence", thread, "rc=0;"),
    }
}

fn response(cmd: &str, thread: Option<&str>, body: &str) -> String {
    let thread = thread.map_or_else(String::new, |thread| format!("thrid={thread};"));
    let text = format!("cmd={cmd}-response;{thread}{body}");
    format!("{:6}{text}", text.len())
}

/// The `key=value` words of one message.
#[derive(Clone, Copy)]
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn get(self, key: &str) -> Option<&'a str> {
        self.0.split(';').find_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == key).then_some(value)
        })
    }
}
