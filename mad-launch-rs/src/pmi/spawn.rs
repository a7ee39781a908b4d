//! `mcmd=spawn … endcmd`: the command of several lines by which a rank asks for more processes. One such block for each
//! program; the last one of the series completes the request.
//!
//! ```text
//!   mcmd=spawn
//!   nprocs=2   execname=./worker   totspawns=1   spawnssofar=1          (each on a line of its own)
//!   argcnt=1   arg1=fast           preput_num=1  preput_key_0=…  preput_val_0=…
//!   info_num=1 info_key_0=wdir     info_val_0=/tmp
//!   endcmd
//! ```

use std::collections::BTreeMap;

/// Bytes that one request may have.
const LONGEST: usize = 1 << 20;
/// Which of how many blocks of a request it is.
const COUNTS: [&str; 2] = ["totspawns", "spawnssofar"];
/// Processes that one request may ask for.
const MOST: u32 = 1 << 14;

/// One program of those that are to be started together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Its name, as the rank gave it.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// How many processes.
    pub processes: u32,
    /// Hints: keys and values.
    pub info: Vec<(String, String)>,
}

impl Command {
    /// The value of a hint.
    pub fn hint(&self, keys: &[&str]) -> Option<&str> {
        let found = self.info.iter().find(|(key, _)| keys.contains(&&**key));
        found.map(|(_, value)| &**value)
    }
}

/// A whole request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The programs.
    pub commands: Vec<Command>,
    /// What the new processes find in their key-value space.
    pub preput: Vec<(String, String)>,
}

/// A request of which not all lines have come.
#[derive(Clone, Default)]
pub(super) struct Assembly {
    lines: BTreeMap<String, String>,
    bytes: usize,
    spawn: Spawn,
    /// Why it is refused in the end.
    refused: Option<&'static str>,
}

/// What a line has done.
pub(super) enum Step {
    /// More lines are to come, or more blocks.
    More,
    Whole(Spawn),
    Refused(&'static str),
}

impl Assembly {
    /// Takes a line between `mcmd=` and `endcmd`.
    pub(super) fn line(&mut self, text: &str) {
        self.bytes += text.len();
        if self.bytes > LONGEST {
            self.refused = Some("the_request_is_too_long");
            // Without these the block would be taken for the last, and the next one for another request.
            self.lines.retain(|key, _| COUNTS.contains(&&**key));
        }
        let Some((key, value)) = text.split_once('=') else { return };
        let key = key.trim();
        if self.refused.is_none() || COUNTS.contains(&key) {
            self.lines.insert(key.to_owned(), value.to_owned());
        }
    }

    /// The block is over.
    pub(super) fn end(&mut self) -> Step {
        let (more, command) = self.block();
        match command {
            Ok(command) => self.spawn.commands.push(command),
            Err(why) => drop(self.refused.get_or_insert(why)),
        }
        self.lines.clear();
        if more {
            return Step::More;
        }
        match self.refused {
            Some(why) => Step::Refused(why),
            None => Step::Whole(std::mem::take(&mut self.spawn)),
        }
    }

    fn text(&mut self, key: &str) -> Result<String, &'static str> {
        self.lines.remove(key).ok_or("a_line_is_missing")
    }

    fn number(&mut self, key: &str) -> Option<u32> {
        self.lines.remove(key)?.trim().parse().ok()
    }

    /// Whether more blocks are to come, and what the lines mean.
    fn block(&mut self) -> (bool, Result<Command, &'static str>) {
        let total = self.number("totspawns").unwrap_or(1);
        let so_far = self.number("spawnssofar").unwrap_or(1);
        (so_far < total, self.command())
    }

    fn command(&mut self) -> Result<Command, &'static str> {
        let processes =
            self.number("nprocs").filter(|&count| count > 0).ok_or("no_sound_nprocs")?;
        let asked = self.spawn.commands.iter().map(|command| command.processes).sum::<u32>();
        if processes > MOST - asked {
            return Err("more_processes_than_one_request_may_ask_for");
        }
        let program = self.text("execname")?;
        let args = self.number("argcnt").unwrap_or(0);
        let args = (1..=args).map(|at| self.text(&format!("arg{at}"))).collect::<Result<_, _>>()?;
        let info = self.pairs("info_num", "info")?;
        let preput = self.pairs("preput_num", "preput")?;
        self.spawn.preput.extend(preput);
        Ok(Command { program, args, processes, info })
    }

    fn pairs(&mut self, count: &str, kind: &str) -> Result<Vec<(String, String)>, &'static str> {
        let count = self.number(count).unwrap_or(0);
        (0..count)
            .map(|at| {
                let key = self.text(&format!("{kind}_key_{at}"))?;
                Ok((key, self.text(&format!("{kind}_val_{at}"))?))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(spawn: &Spawn) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, command) in spawn.commands.iter().enumerate() {
            let total = spawn.commands.len();
            let mut line = |key: &str, value: &str| lines.push(format!("{key}={value}"));
            line("nprocs", &command.processes.to_string());
            line("execname", &command.program);
            line("totspawns", &total.to_string());
            line("spawnssofar", &(at + 1).to_string());
            line("argcnt", &command.args.len().to_string());
            for (at, arg) in command.args.iter().enumerate() {
                line(&format!("arg{}", at + 1), arg);
            }
            let pairs = if at == 0 { &spawn.preput[..] } else { &[] };
            for (kind, pairs) in [("info", &command.info[..]), ("preput", pairs)] {
                line(&format!("{kind}_num"), &pairs.len().to_string());
                for (at, (key, value)) in pairs.iter().enumerate() {
                    line(&format!("{kind}_key_{at}"), key);
                    line(&format!("{kind}_val_{at}"), value);
                }
            }
            lines.push("endcmd".into());
        }
        lines
    }

    fn feed(lines: &[String]) -> Option<Result<Spawn, &'static str>> {
        let mut assembly = Assembly::default();
        for line in lines {
            if line != "endcmd" {
                assembly.line(line);
                continue;
            }
            match assembly.end() {
                Step::More => {}
                Step::Whole(spawn) => return Some(Ok(spawn)),
                Step::Refused(why) => return Some(Err(why)),
            }
        }
        None
    }

    fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
        proptest::collection::vec(("[a-z]{1,9}", "[ -~]{0,9}"), 0..3)
    }

    prop_compose! {
        fn command()(program in "[!-~][ -~]{0,9}", args in proptest::collection::vec("[ -~]{0,9}", 0..4), processes in 1..9u32, info in pairs()) -> Command {
            Command { program, args, processes, info }
        }
    }

    proptest! {
        #[test]
        fn requests_come_as_they_were_sent(commands in proptest::collection::vec(command(), 1..4), preput in pairs()) {
            let spawn = Spawn { commands, preput };
            prop_assert_eq!(feed(&lines(&spawn)), Some(Ok(spawn)));
        }

        #[test]
        fn hostile_lines_are_survived(lines in proptest::collection::vec(prop_oneof![
            Just("endcmd".to_owned()), Just("nprocs=2".to_owned()), Just("execname=a".to_owned()), Just("totspawns=2".to_owned()),
            "(nprocs|argcnt|arg1|totspawns|spawnssofar|info_num|preput_num|info_key_0)=[0-9a-]{0,12}", "\\PC{0,20}"], 0..40)) {
            if let Some(Ok(spawn)) = feed(&lines) {
                prop_assert!(spawn.commands.iter().map(|command| command.processes).sum::<u32>() <= MOST);
            }
        }
    }

    #[test]
    fn a_request_without_end_is_refused() {
        let mut long = vec!["nprocs=1".to_owned(), "execname=a".to_owned()];
        long.extend((0..LONGEST / 1000 + 2).map(|at| format!("arg{at}={}", "x".repeat(1000))));
        long.push("endcmd".into());
        assert_eq!(feed(&long), Some(Err("the_request_is_too_long")));
        // The first of two blocks: there is one answer, after the second.
        let counts = |so_far: u32| ["totspawns=2".to_owned(), format!("spawnssofar={so_far}")];
        for at in [0, long.len() - 1] {
            let mut first = long.clone();
            first.splice(at..at, counts(1));
            assert_eq!(feed(&first), None);
            first.extend(counts(2));
            first.extend(["nprocs=1", "execname=b", "endcmd"].map(str::to_owned));
            assert_eq!(feed(&first), Some(Err("the_request_is_too_long")));
        }
        let many = ["nprocs=4294967295", "execname=a", "endcmd"].map(str::to_owned);
        assert!(feed(&many).is_some_and(|asked| asked.is_err()));
        let args = ["nprocs=1", "execname=a", "argcnt=4000000000", "endcmd"].map(str::to_owned);
        assert!(feed(&args).is_some_and(|asked| asked.is_err()));
    }
}
