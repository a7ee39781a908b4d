//! The words of PMI-1: one line per message, `cmd=NAME key=value …`.
//!
//! ```text
//!   init → response_to_init        get_maxes → maxes          get_my_kvsname → my_kvsname
//!   put → put_result               get → get_result           barrier_in → … barrier_out (to all)
//!   get_appnum → appnum            get_universe_size → universe_size
//!   finalize → finalize_ack        abort: the job ends
//!   mcmd=spawn … endcmd → spawn_result: more processes ([`super::spawn`])
//!   mad_spawned (this launcher's own) → mad_spawned_result: whether all that was spawned runs
//! ```

use super::answer::shorten;
use super::space::{KEY_MAX, Reply, Request, Space, VALUE_MAX, Version, Violation};
use super::spawn::Step;

const NAME_MAX: usize = 256;

/// Treats one line.
pub(super) fn line(
    space: &mut Space,
    rank: u32,
    text: &str,
    reply: Reply<'_>,
) -> Result<Request, Violation> {
    let (whole, text) = (text.trim_end_matches(['\r', '\n']), text.trim());
    if text.is_empty() {
        return Ok(Request::Nothing);
    }
    let this = &mut space.ranks[rank as usize];
    if this.in_mcmd {
        let assembly = this.spawn.get_or_insert_default();
        if text != "endcmd" {
            // Blanks at the end belong to an argument.
            assembly.line(whole);
            return Ok(Request::Nothing);
        }
        this.in_mcmd = false;
        let step = assembly.end();
        if !matches!(step, Step::More) {
            this.spawn = None;
        }
        return Ok(match step {
            Step::More => Request::Nothing,
            Step::Whole(spawn) => Request::Spawn(spawn),
            Step::Refused(why) => {
                reply(rank, format!("cmd=spawn_result rc=-1 msg={why}\n"));
                Request::Nothing
            }
        });
    }
    if text.starts_with("mcmd=") {
        this.in_mcmd = true;
        return Ok(Request::Nothing);
    }
    let words = Words(text);
    let cmd = words.get("cmd").ok_or_else(|| {
        Violation(format!("its PMI connection carried {:?}: no cmd= in it", shorten(text)))
    })?;
    let foreign = words.get("kvsname").is_some_and(|name| name != space.kvsname);
    match cmd {
        "init" => {
            let version = match words.get("pmi_version").unwrap_or("1") {
                "1" => "pmi_version=1 pmi_subversion=1 rc=0",
                "2" => {
                    space.ranks[rank as usize].version = Version::Two;
                    "pmi_version=2 pmi_subversion=0 rc=0"
                }
                _ => "pmi_version=1 pmi_subversion=1 rc=-1",
            };
            reply(rank, format!("cmd=response_to_init {version}\n"));
        }
        "get_maxes" => reply(
            rank,
            format!(
                "cmd=maxes kvsname_max={NAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX} rc=0\n"
            ),
        ),
        "get_my_kvsname" => {
            reply(rank, format!("cmd=my_kvsname kvsname={} rc=0\n", space.kvsname));
        }
        "get_appnum" => {
            let program = space.ranks[rank as usize].program;
            reply(rank, format!("cmd=appnum appnum={program} rc=0\n"));
        }
        "get_universe_size" => {
            reply(rank, format!("cmd=universe_size size={} rc=0\n", space.universe));
        }
        "put" => {
            let put = match foreign {
                true => Err("unknown_kvsname"),
                false => space.put(words.get("key"), words.get("value")),
            };
            let result = match put {
                Ok(()) => "rc=0 msg=success".into(),
                Err(why) => format!("rc=-1 msg={why}"),
            };
            reply(rank, format!("cmd=put_result {result}\n"));
        }
        "get" => {
            let result = match space.get(words.get("key")) {
                _ if foreign => "rc=-1 msg=unknown_kvsname value=unknown".into(),
                Some(value) => format!("rc=0 msg=success value={value}"),
                None => "rc=-1 msg=key_not_found value=unknown".into(),
            };
            reply(rank, format!("cmd=get_result {result}\n"));
        }
        "barrier_in" => space.enter_barrier(rank, reply),
        "finalize" => {
            reply(rank, "cmd=finalize_ack rc=0\n".into());
            space.left(rank, format!("rank {rank} finalized"), reply);
        }
        "abort" => {
            let message = text.split_once("message=").map_or("", |(_, rest)| rest);
            return Ok(Request::abort(words.get("exitcode"), message));
        }
        "mad_spawned" => {
            let name = words.get("jobid").unwrap_or_default().to_owned();
            return Ok(Request::Spawned { name, end: words.get("end") == Some("1") });
        }
        unknown => {
            // Answered, so that a client that waits does not hang.
            reply(rank, format!("cmd={unknown}_result rc=-1 msg=unknown_command\n"));
        }
    }
    Ok(Request::Nothing)
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
