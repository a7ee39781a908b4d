//! Programs as ranks of one process: what each has of its own, and how it ends.

mod common;

use std::process::Output;

use common::{compile, has_cpp, lines, ranks, start};

/// Runs `ends.c` with these options of the host, and arguments.
fn ends(options: &[&str], arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "ends.c", &["-pthread"]);
    ranks(&[options, &[program.to_str().unwrap()], arguments].concat())
}

#[test]
fn each_copy_has_variables_constructors_handlers_and_destructors_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "variables.c", &[]);
    let program = program.to_str().unwrap();
    let output = ranks(&["-n", "4", program, "%"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for rank in 0..4 {
        let (exported, hidden) = (310 + rank, 320 + rank);
        let own: Vec<_> =
            text.lines().filter(|line| line.starts_with(&format!("{exported}: "))).collect();
        let expected = [
            format!("{exported}: hidden {hidden}, constructed 200, name {program}"),
            format!("{exported}: handler 2"),
            format!("{exported}: handler 1"),
            format!("{exported}: destructor {hidden}"),
        ];
        assert_eq!(own, expected, "{text}");
    }
    assert_eq!(output.status.code(), Some(3), "the last rank's status");
}

#[test]
fn exported_variables_are_a_copys_own_in_a_program_that_exports_all() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [&["-rdynamic"][..], &["-Wl,-z,lazy"], &["-Wl,-z,now,-z,relro"], &["-O2"]] {
        let program = compile(folder.path(), "variables.c", flags);
        let output = ranks(&["-n", "2", program.to_str().unwrap(), "%"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("310: hidden 320") && text.contains("311: hidden 321"), "{text}");
    }
}

/// Each copy has its own, also where a library, which the dynamic linker finds first, has a function of that name.
#[test]
fn functions_whose_addresses_the_program_chooses_are_a_copys_own() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "used.c", &["-fPIC", "-shared"]);
    let library = ["-Wl,--no-as-needed", library.to_str().unwrap()];
    let start = start();
    let shared = ["-fPIC", "-shared", &start, "-Wl,-e,_start"];
    for more in [&[][..], &["-Wl,-z,lazy"], &["-fno-plt"], &library] {
        for flags in [&shared[..], &["-fPIE", "-pie"], &["-fPIE", "-pie", "-rdynamic"]] {
            let program = compile(folder.path(), "indirect.c", &[flags, more].concat());
            let output = ranks(&["-n", "3", program.to_str().unwrap(), "%"]);
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            let expected = "0: 101 102\n1: 201 202\n2: 301 302\n";
            assert_eq!(lines(&text), lines(expected), "{flags:?} {more:?}: {errors}");
        }
    }
}

#[test]
fn sixty_four_copies_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "many.c", &["-O1"]);
    let output = ranks(&["-n", "64", "-p", "2", program.to_str().unwrap(), "%"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
}

#[test]
fn a_rank_ends_alone_by_return_exit_or_quick_exit() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "ends.c", &["-pthread"]);
    let program = program.to_str().unwrap();
    for (way, status, expected) in [
        ("return", 2, "handler\ndestructor\n"),
        ("deep", 3, "status 3 word\nhandler\ndestructor\n"),
        ("nested", 7, "again\nhandler\ndestructor\n"),
        ("registers", 0, "registers\nlate\ndestructor\n"),
        ("quick", 5, "late\n"),
        ("pthread_exit", 0, "other\nhandler\ndestructor\n"),
        ("join", 0, "joined\ndestructor\n"),
    ] {
        let output = ranks(&["-n", "2", program, way]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(lines(&text), lines(&expected.repeat(2)), "{way}");
        assert_eq!(output.status.code(), Some(status), "{way}");
    }
    // Of an exit status eight bits count, as a process's do: the first rank's is 256, the second's 3.
    let output = ranks(&["-n", "2", program, "wide", "%"]);
    assert_eq!(output.status.code(), Some(3));
    let output = ranks(&["-n", "2", program, "buffered"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "no newlinedestructor\nno newlinedestructor\n"
    );
}

#[test]
fn abort_exit_at_once_and_exit_on_a_kernel_thread_end_the_process_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "ends.c", &["-pthread"]);
    let program = program.to_str().unwrap();
    for (way, status, words) in [
        ("_exit", Some(4), "mad: rank 0 has called _exit(4), which ends the process"),
        ("abort", None, "mad: rank 0 has called abort(), which ends the process"),
        ("thread", Some(6), "has called exit(6) on a kernel thread of its own"),
        // The others have not ended well.
        ("_exit well", Some(1), " has called _exit(0), which ends the process"),
        ("thread well", Some(1), "has called exit(0) on a kernel thread of its own"),
        ("quick thread", Some(1), " has called quick_exit(0), which ends the process"),
        (
            "signal",
            Some(1),
            "mad: exit(0) was called on a thread of no rank, as in a signal handler",
        ),
        ("signal at once", Some(1), "mad: _exit(0) was called on a thread of no rank"),
    ] {
        let output = ranks(&["-n", "2", program, way]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(words), "{way}: {errors}");
        assert_eq!(output.status.code(), status, "{way}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("handler"), "{way}");
    }
}

/// Of a program whose thread reads from a stream for ever, the stream stays locked.
#[test]
fn a_rank_ends_although_a_thread_of_it_holds_a_stream() {
    let output = ends(&["-n", "2"], &["reader"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn ranks_do_not_go_on_in_a_child_of_fork_that_waits() {
    let output = ends(&["-n", "3", "-p", "1"], &["fork", "%"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!((text.matches("once").count(), text.matches("child").count()), (2, 0), "{output:?}");
}

#[test]
fn a_child_of_fork_ends_alone_and_no_rank_goes_on_in_it() {
    let output = ends(&["-n", "3", "-p", "1"], &["child", "%"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!((text.matches("once").count(), text.matches("other").count()), (2, 1), "{output:?}");
}

#[test]
fn the_process_ends_although_a_thread_holds_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "ends.c", &["-pthread"]);
    for (way, status) in [("reader errx", 9), ("reader thread", 6)] {
        let output = ranks(&["-n", "2", program.to_str().unwrap(), way]);
        assert_eq!(output.status.code(), Some(status), "{way}: {output:?}");
    }
}

/// The signal may come while the C library's allocator has its lock.
#[test]
fn a_signal_handler_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "ends.c", &["-pthread"]);
    for _ in 0..30 {
        let output = ranks(&["-n", "1", program.to_str().unwrap(), "_exit in a handler"]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
}

/// By a function of the C library, whose own call of `exit` is not redirected. A child ends as it would.
#[test]
fn exit_inside_the_c_library_ends_the_process_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "ends.c", &["-pthread"]);
    let program = program.to_str().unwrap();
    let words = "mad: rank 0 has ended the process with all its ranks";
    for (way, status, told) in [
        ("errx", 9, true),
        ("errx well", 1, true),
        ("errx 256", 1, true),
        ("errx of a child", 0, false),
    ] {
        let output = ranks(&["-n", "1", program, way]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{way}: {errors}");
        assert!(errors.contains("a word"), "{way}: {errors}");
        assert_eq!(errors.contains(words), told, "{way}: {errors}");
    }
}

#[test]
fn a_standard_stream_takes_the_mode_and_not_the_buffer_that_a_rank_gives_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "buffers.c", &[]);
    let output = ranks(&["-n", "1", program.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, "word\nword\nword\nused 0, modes 11111\n", "{errors}");
}

#[test]
fn each_rank_has_its_own_rounding_and_traps() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "modes.c", &["-lm"]);
    let output = ranks(&["-n", "8", program.to_str().unwrap(), "%"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    assert_eq!(text.matches(": 0 wrong").count(), 8, "{text}{errors}");
}

#[test]
fn options_are_parsed_by_each_rank_while_others_parse_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "options.c", &[]);
    let arguments = ["-ab%", "first", "-c", "--name=x%", "-fn", "y%", "last%", "%"];
    // `-ab0` has an option that is not known: `0`.
    let mut command = vec!["-n", "3", program.to_str().unwrap()];
    command.extend(arguments);
    let output = ranks(&command);
    let text = String::from_utf8(output.stdout).unwrap();
    for rank in 0..3 {
        let expected =
            format!("{rank}: a b ? c n=x{rank} f n=y{rank} rest first last{rank} {rank}\n");
        assert!(text.contains(&expected), "{text}");
    }
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.matches("invalid option").count(), 3, "each is told once: {errors}");
}

#[test]
fn options_begin_where_the_program_says() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "subcommand.c", &[]);
    let program = program.to_str().unwrap();
    // The first word looks like an option: a parse that begins at 1 would take it.
    let arguments = ["-b", "first", "-ab", "-o", "word%", "-ba", "last%", "%"];
    let output = ranks(&[&["-n", "3", program][..], &arguments].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let expected: String = (0..3)
        .map(|rank| {
            format!("{rank}: starts at 1 a b o=word{rank} b a rest first last{rank} {rank}\n")
        })
        .collect();
    assert_eq!(lines(&text), lines(&expected));
}

#[test]
fn options_of_a_rank_that_is_loaded_late_begin_at_the_first_word() {
    unsafe extern "C" {
        static mut optind: std::ffi::c_int;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "options.c", &["-DSTATUS"]);
    let program = mad_loader::Program::open(&program).unwrap();
    // SAFETY: no other test of this process parses options.
    unsafe { optind = 3 };
    let rank = program.load(0).unwrap();
    let runtime = marcel::Runtime::builder().build().unwrap();
    let status = runtime.run(|| {
        let thread = marcel::Builder::new().stack_size(mad_loader::STACK);
        let arguments =
            [c"options", c"-a", c"-b", c"-c", c"0"].map(std::ffi::CString::from).to_vec();
        // SAFETY: a program of these tests.
        thread.spawn(move || unsafe { rank.run(arguments) }).unwrap().join().unwrap()
    });
    assert_eq!(status, 3, "options that were found");
}

#[test]
fn the_environment_is_shared_and_names_are_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "environment.c", &[]);
    let program = program.to_str().unwrap();
    let output = std::process::Command::new(common::host())
        .args(["-n", "3", program, "%"])
        .env("PASSED", "yes")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for rank in 0..3 {
        let expected = format!("{rank}: passed 1, own 1, other's 1, environment, {program}\n");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn cpp_has_objects_exceptions_streams_and_threads_in_each_copy() {
    if !has_cpp() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for flags in [&["-pthread"][..], &["-pthread", "-O2", "-rdynamic"]] {
        let program = compile(folder.path(), "cpp.cpp", flags);
        let output = ranks(&["-n", "3", "-p", "2", program.to_str().unwrap(), "%"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let expected: String = (0..3)
            .map(|rank| {
                format!(
                    "{rank}: thrown {rank}, 3 3, thread {}\n\
                     local {rank} destroyed one\nobject {rank} destroyed one\n",
                    rank + 1
                )
            })
            .collect();
        assert_eq!(lines(&text), lines(&expected), "{flags:?}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn ranks_that_wait_inside_handlers_keep_their_exceptions() {
    if !has_cpp() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "handlers.cpp", &[]);
    let output = ranks(&["-n", "4", "-p", "1", program.to_str().unwrap(), "%"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines(&text), ["0: wrong 0", "1: wrong 0", "2: wrong 0", "3: wrong 0"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_exception_that_is_not_caught_ends_the_process_with_its_words() {
    if !has_cpp() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "cpp.cpp", &["-pthread"]);
    let output = ranks(&["-n", "2", program.to_str().unwrap(), "%", "throw"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("what():  uncaught"), "{errors}");
    assert!(errors.contains("has called abort()"), "{errors}");
}
