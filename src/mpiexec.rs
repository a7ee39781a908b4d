//! The command under the names `mpiexec` and `mpirun`: `mad run` with the options that MPI programs are started with.
//!
//! An installed madmpi has these names as links to `mad`. The command line is put into the words of `mad run`, which
//! parses the rest.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;

/// The name that the command was called by, if it is one of MPI's.
pub(crate) fn name(called: &OsStr) -> Option<&'static str> {
    let name = Path::new(called).file_name()?;
    ["mpiexec", "mpirun"].into_iter().find(|known| name == *known)
}

/// What these names know, for people. `run`: the subcommand `mad run`.
pub(crate) fn known(run: &Command) -> String {
    let long = run.get_arguments().filter_map(|option| Some(format!("--{}", option.get_long()?)));
    let options: Vec<String> = long.collect();
    format!(
        "Starts processes of a program on this machine: -n N (or -np N), and the options of 'mad run': {}",
        options.join(", ")
    )
}

/// The words of `mad run` for those that followed `mpiexec`. `run`: that subcommand.
///
/// # Errors
/// The first option that is not known, and those that are.
pub(crate) fn translate(
    run: &Command,
    words: impl Iterator<Item = OsString>,
) -> Result<Vec<OsString>, String> {
    let unknown = |word: &str, why: &str| Err(format!("{word} {why}\n{}", known(run)));
    let mut words = words;
    let mut out: Vec<OsString> = vec!["mad".into(), "run".into()];
    while let Some(word) = words.next() {
        let Some(option) = word.to_str().filter(|text| text.starts_with('-')) else {
            out.extend(["--".into(), word]);
            break;
        };
        match option {
            "--" => {
                out.push(word);
                break;
            }
            "-n" | "--n" | "-np" | "--np" => {
                out.push("-n".into());
                out.extend(words.next());
            }
            _ => {
                let (long, value) = option
                    .split_once('=')
                    .map_or((option, None), |(long, value)| (long, Some(value)));
                let argument = run.get_arguments().find(|argument| {
                    long.strip_prefix("--").is_some_and(|l| argument.get_long() == Some(l))
                });
                let Some(argument) = argument else {
                    return unknown(option, "is not an option here.");
                };
                let follows = argument.get_action().takes_values() && value.is_none();
                out.push(word);
                if follows {
                    out.extend(words.next());
                }
            }
        }
    }
    let program: Vec<OsString> = words.collect();
    if program.iter().any(|word| word == ":") {
        return unknown(":", "would start a second program: a job has one here.");
    }
    out.extend(program);
    Ok(out)
}
