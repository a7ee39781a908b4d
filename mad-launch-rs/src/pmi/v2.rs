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

use super::answer::{response, shorten};
use super::space::{Reply, Request, Space, Violation};

/// Treats one message.
pub(super) fn command(
    space: &mut Space,
    rank: u32,
    text: &str,
    reply: Reply<'_>,
) -> Result<Request, Violation> {
    let words = Words(text);
    let cmd = words.get("cmd").ok_or_else(|| {
        Violation(format!("its PMI connection carried {:?}: no cmd= in it", shorten(text)))
    })?;
    let thread = words.get("thrid");
    let mut answer = |body: &str| reply(rank, response(cmd, thread, body));
    match cmd {
        "fullinit" => answer(&format!(
            "pmi-version=2;pmi-subversion=0;rank={rank};size={};appnum={};debugged=FALSE;pmiverbose=FALSE;rc=0;",
            space.ranks.len(),
            space.ranks[rank as usize].program
        )),
        "job-getid" => answer(&format!("jobid={};rc=0;", space.kvsname)),
        "info-getjobattr" if words.get("key") == Some("universeSize") => {
            answer(&format!("found=TRUE;value={};rc=0;", space.universe));
        }
        "info-getjobattr" | "info-getnodeattr" => answer("found=FALSE;rc=0;"),
        "kvs-put" => match space.put(words.get("key"), words.get("value")) {
            Ok(()) => answer("rc=0;"),
            Err(why) => answer(&format!("rc=-1;errmsg={why};")),
        },
        "kvs-get" => match space.get(words.get("key")) {
            Some(value) => answer(&format!("found=TRUE;value={value};rc=0;")),
            None => answer("found=FALSE;rc=0;"),
        },
        "kvs-fence" => {
            space.ranks[rank as usize].thread = thread.map(str::to_owned);
            space.enter_barrier(rank, reply);
        }
        "finalize" => {
            answer("rc=0;");
            space.left(rank, format!("rank {rank} finalized"), reply);
        }
        "abort" => {
            // The status is no part of the protocol; newmad says it.
            let message = words.get("msg").unwrap_or_default();
            return Ok(Request::abort(words.get("exitcode"), message));
        }
        _ => answer("rc=-1;errmsg=unknown_command;"),
    }
    Ok(Request::Nothing)
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
