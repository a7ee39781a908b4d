//! Starting more processes by `PMIx_Spawn`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

use super::library::{self, ALL_RANKS, App, NSPACE, Proc};
use super::{Answer, Pmix, Reply, aside, failed, text};
use crate::bootstrap::spawn::{Command, Spawner};
use crate::bootstrap::wire::variable;
use crate::error::Error;

/// The variable in which new processes find the note: PMIx has no key-value space that they could read first.
const NOTE: &str = "MAD_NOTE";

/// Strings, and pointers to them with a null pointer at the end.
struct Words {
    _owned: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers lead into `_owned`, which nothing changes.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn new<'a>(words: impl Iterator<Item = &'a str>) -> Result<Words, Error> {
        let owned = words.map(text).collect::<Result<Vec<_>, _>>()?;
        let ends = [std::ptr::null()];
        let pointers = owned.iter().map(|word| word.as_ptr()).chain(ends).collect();
        Ok(Words { _owned: owned, pointers })
    }
}

/// A request, which stays where it is until the callback.
struct Request {
    programs: Vec<(CString, Words, Option<CString>, c_int)>,
    env: Words,
    apps: Vec<App>,
}

// SAFETY: the pointers in `apps` lead into the other fields, which nothing changes.
unsafe impl Send for Request {}
// SAFETY: as above.
unsafe impl Sync for Request {}

impl Request {
    fn new(commands: &[Command], note: &str) -> Result<Request, Error> {
        let program = |command: &Command| {
            let words = std::iter::once(&command.program).chain(&command.args);
            let folder = command.hints.iter().find(|(key, _)| key == "wdir" || key == "wd");
            let folder = folder.map(|(_, folder)| text(folder)).transpose()?;
            let processes = c_int::try_from(command.processes).map_err(failed)?;
            Ok((text(&command.program)?, Words::new(words.map(String::as_str))?, folder, processes))
        };
        let programs = commands.iter().map(program).collect::<Result<Vec<_>, Error>>()?;
        let env = Words::new([&*format!("{NOTE}={note}")].into_iter())?;
        let mut request = Request { programs, env, apps: Vec::new() };
        let app =
            |(program, args, folder, processes): &(CString, Words, Option<CString>, c_int)| App {
                program: program.as_ptr(),
                args: args.pointers.as_ptr(),
                env: request.env.pointers.as_ptr(),
                folder: folder.as_ref().map_or(std::ptr::null(), |folder| folder.as_ptr()),
                processes: *processes,
                info: std::ptr::null(),
                infos: 0,
            };
        request.apps = request.programs.iter().map(app).collect();
        Ok(request)
    }
}

/// # Safety
/// The library calls it once with what it was given, and with the name of the new job, which it keeps meanwhile.
unsafe extern "C" fn spawned(status: c_int, job: *const c_char, data: *mut c_void) {
    let name = if job.is_null() || status != library::SUCCESS {
        None
    } else {
        // SAFETY: as required; a name ends with a zero byte.
        let name = unsafe { CStr::from_ptr(job) };
        Some(Answer::Text(name.to_string_lossy().into_owned()))
    };
    // SAFETY: as required.
    unsafe { Reply::bring(data, status, name) }
}

impl Spawner for Pmix {
    fn spawn(
        &mut self,
        commands: &[Command],
        note: &str,
        deadline: Instant,
    ) -> Result<String, Error> {
        let doing = "starting processes";
        let request = Arc::new(Request::new(commands, note)?);
        let nobody = Proc { nspace: [0; NSPACE], rank: ALL_RANKS };
        let reply = Reply::about(nobody, CString::default(), None);
        let status = aside(|| {
            let (apps, count, theirs) = (request.apps.as_ptr(), request.apps.len(), reply.theirs());
            // SAFETY: the programs are in the request; it lives until the callback, or for ever (below).
            unsafe { (self.library.spawn)(std::ptr::null(), 0, apps, count, spawned, theirs) }
        })?;
        if status != library::SUCCESS {
            self.check(status, doing)?;
        }
        let Some((status, name)) = reply.wait(deadline) else {
            // The library may read it still.
            std::mem::forget(request);
            return Err(Pmix::late(doing));
        };
        self.check(status, doing)?;
        match name {
            Some(Answer::Text(name)) => Ok(name),
            _ => Err(failed(format_args!("{doing}: no name of the new job came"))),
        }
    }

    fn runs(&mut self, _: &str, _: Instant) -> Result<bool, Error> {
        Ok(true)
    }

    fn end(&mut self, _: &str, _: Instant) -> Result<(), Error> {
        Ok(())
    }

    fn note(&mut self, _: Instant) -> Result<Option<String>, Error> {
        variable(NOTE)
    }

    fn program(&mut self, deadline: Instant) -> Result<Option<u32>, Error> {
        Ok(number(self.fetch(self.rank, library::PROGRAM, deadline)))
    }

    fn universe(&mut self, deadline: Instant) -> Result<Option<u32>, Error> {
        Ok(number(self.fetch(ALL_RANKS, library::UNIVERSE, deadline)))
    }
}

/// What a server need not know.
fn number(answer: Result<Answer, Error>) -> Option<u32> {
    match answer {
        Ok(Answer::Number(number)) => Some(number),
        _ => None,
    }
}
