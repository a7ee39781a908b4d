//! Runs a program as green threads of this process: `copies -n 4 -p 2 PROGRAM ARGUMENT...`. In arguments `%` stands for the
//! rank's number. `-p` is the number of virtual processors. Of a library that is named by `--private` each rank has a copy.

use std::ffi::CString;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => {
            eprintln!("copies: {error}");
            ExitCode::from(125)
        }
    }
}

fn run() -> Result<i32, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let (mut count, mut processors) = (1, 1);
    let mut private = Vec::new();
    while let Some(option) =
        arguments.next_if(|argument| ["-n", "-p", "--private"].contains(&&**argument))
    {
        if option == "--private" {
            private.push(arguments.next().ok_or("an option lacks its library")?);
            continue;
        }
        let number: usize = arguments.next().ok_or("an option lacks its number")?.parse()?;
        if option == "-n" { count = number } else { processors = number }
    }
    let arguments: Vec<String> = arguments.collect();
    let path = arguments.first().ok_or("usage: copies -n RANKS PROGRAM ARGUMENT...")?;
    let private: Vec<_> = private.iter().map(|name| &**name).collect();
    let program = mad_loader::Program::open_with_private(path.as_ref(), &private)?;
    let ranks = (0..count).map(|number| program.load(number)).collect::<Result<Vec<_>, _>>()?;
    let runtime = pioman::Runtime::build(
        pioman::Manager::builder(),
        marcel::Runtime::builder().vps(processors),
    )?;
    let mut worst = 0;
    runtime
        .run(|| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            let mut threads = Vec::new();
            for rank in ranks {
                let number = rank.number();
                let own =
                    arguments.iter().map(|a| CString::new(a.replace('%', &number.to_string())));
                let own = own.collect::<Result<Vec<_>, _>>()?;
                let thread = marcel::Builder::new()
                    .name(format!("rank {number}"))
                    .stack_size(mad_loader::STACK);
                // SAFETY: the user's program is trusted as this one is.
                threads.push((number, thread.spawn(move || unsafe { rank.run(own) })?));
            }
            for (number, thread) in threads {
                let status = thread.join().map_err(|_| format!("rank {number} has panicked"))?;
                if status != 0 {
                    eprintln!("ranks: rank {number} has ended with status {status}");
                }
                worst = worst.max(status);
            }
            Ok(())
        })
        .map_err(|error| error.to_string())?;
    Ok(worst)
}
