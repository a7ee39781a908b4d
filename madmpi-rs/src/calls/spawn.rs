//! Starting processes.

use core::ffi::c_int;

use newmad::Command;

use super::comm::give;
use super::entry::mpi;
use crate::abi::*;
use crate::args::{Array, ArrayMut, Out, Text, Texts, array, array_mut, out};
use crate::coll::check_root;
use crate::comm::Comm;
use crate::error::Fault;
use crate::handle::Ref;
use crate::info;
use crate::port::soft;
use crate::port::spawn::{self, Outcome, Wanted};

/// A text of the program, which the process manager is to be sent.
fn text(bytes: &[u8], name: &str) -> Result<String, Fault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        Fault::argument(MPI_ERR_ARG, name, "not UTF-8", "process managers take nothing else")
    })
}

fn command(program: Text, argv: Texts, maxprocs: c_int, info: MPI_Info) -> Result<Wanted, Fault> {
    let program = text(program.bytes_or(MPI_ERR_ARG, "command")?, "command")?;
    if program.is_empty() {
        return Err(Fault::argument(MPI_ERR_ARG, "command", "empty", "it names a program"));
    }
    let args = argv.all().map(|arg| text(arg, "argv")).collect::<Result<_, _>>()?;
    let most = u32::try_from(maxprocs).ok().filter(|&most| most > 0);
    let most = most.ok_or_else(|| {
        Fault::argument(MPI_ERR_ARG, "maxprocs", maxprocs, "it is the number of processes to start")
    })?;
    let (mut processes, mut hints) = (most, Vec::new());
    if info != MPI_INFO_NULL {
        let info = info::get(info)?;
        for (key, value) in info.entries().iter() {
            let (key, value) = (text(key, "info")?, text(value, "info")?);
            match &*key {
                "soft" => {
                    processes = soft::largest(&value, most).ok_or_else(|| {
                        let why = format!("no number of processes up to {most} will do");
                        Fault::argument(MPI_ERR_SPAWN, "info", format_args!("soft={value}"), &why)
                    })?;
                }
                // Its name to process managers.
                "wd" => hints.push(("wdir".into(), value)),
                _ => hints.push((key, value)),
            }
        }
    }
    Ok((Command { program, args, processes, hints }, most))
}

/// Starts what the root wants, and tells the program what became of it.
fn start(
    comm: &Ref<Comm>,
    root: c_int,
    commands: impl FnOnce() -> Result<Vec<Wanted>, Fault>,
    (intercomm, errcodes): (Out<MPI_Comm>, ArrayMut<c_int>),
) -> Result<(), Fault> {
    give(intercomm, None)?;
    let root = check_root(comm, root)?;
    let Outcome { asked, result } = spawn::spawn(comm, root, commands);
    if errcodes.address() != MPI_ERRCODES_IGNORE {
        // Those of a program follow each other, and what was not asked for (the hint `soft`) was not started.
        let count = asked.iter().map(|&[_, most]| most).sum::<u64>();
        let mut rest = array_mut!(errcodes[count as i64])?;
        for [started, most] in asked {
            let (codes, others) = rest.split_at_mut(most as usize);
            let (codes, missing) = codes.split_at_mut(started as usize);
            codes.fill(result.as_ref().map_or_else(|fault| fault.class, |_| MPI_SUCCESS));
            missing.fill(MPI_ERR_SPAWN);
            rest = others;
        }
    }
    give(intercomm, Some(result?))
}

mpi! {
    fn MPI_Comm_spawn(
        command_: Text, argv: Texts, maxprocs: c_int, info: MPI_Info, root: c_int, comm: MPI_Comm,
        intercomm: Out<MPI_Comm>, array_of_errcodes: ArrayMut<c_int>,
    ) on comm {
        let commands = || Ok(vec![command(command_, argv, maxprocs, info)?]);
        start(&comm, root, commands, (intercomm, array_of_errcodes))
    }

    fn MPI_Comm_spawn_multiple(
        count: c_int, array_of_commands: Array<Text>, array_of_argv: Array<Texts>, array_of_maxprocs: Array<c_int>,
        array_of_info: Array<MPI_Info>, root: c_int, comm: MPI_Comm, intercomm: Out<MPI_Comm>,
        array_of_errcodes: ArrayMut<c_int>,
    ) on comm {
        let commands = || {
            if count < 1 {
                return Err(Fault::argument(MPI_ERR_COUNT, "count", count, "it is the number of programs"));
            }
            let programs = array!(array_of_commands[count])?;
            let most = array!(array_of_maxprocs[count])?;
            let infos = array!(array_of_info[count])?;
            let argvs = match array_of_argv.address() {
                0 => &[], // MPI_ARGVS_NULL
                _ => array!(array_of_argv[count])?,
            };
            (0..count as usize)
                .map(|at| {
                    let argv = argvs.get(at).copied().unwrap_or(Texts::NONE);
                    command(programs[at], argv, most[at], infos[at])
                })
                .collect()
        };
        start(&comm, root, commands, (intercomm, array_of_errcodes))
    }

    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) { out(parent, "parent", spawn::parent()) }
}
