//! An installed madmpi works where programs look for an MPI: compiler wrappers, launchers, CMake, pkg-config, rsmpi. mpi4py from
//! source is ci/mpi4py.sh.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::madmpi::{fortran, install, prefix};
use common::{default_signals, err, out};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
const SAID: &str = "the ranks of 2 make 1";

/// A command that sees the prefix first in PATH, and of MPI nothing else: no knobs, no compilers by name.
fn with_path(program: impl AsRef<std::ffi::OsStr>) -> Command {
    with_path_to(prefix(), program)
}

fn with_path_to(prefix: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    with_path_within("300", prefix, program)
}

/// With so many seconds, after which its exit status is 124.
fn with_path_within(seconds: &str, prefix: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg(seconds).arg(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["MARCEL_", "PIOM_", "NMAD_", "PMI_", "MAD_", "MPI", "CMAKE_"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
            || ["CC", "CXX", "FC", "CFLAGS", "CXXFLAGS", "FFLAGS", "LDFLAGS", "LD_LIBRARY_PATH"]
                .contains(&&*text)
        {
            command.env_remove(&name);
        }
    }
    let mut path = prefix.join("bin").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    command.env("PATH", path);
    default_signals(&mut command);
    command
}

/// It has to succeed; what it says.
fn said(command: &mut Command) -> String {
    let output = command.output().expect("timeout is there");
    assert!(output.status.success(), "{command:?}: {}{}", out(&output), err(&output));
    out(&output).trim_end().to_owned()
}

fn wrapper(name: &str, args: &[&str]) -> String {
    said(with_path(prefix().join("bin").join(name)).args(args))
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// An empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn program_in_c() -> PathBuf {
    Path::new(FIXTURES).join("cmake/ranks.c")
}

#[test]
fn wrappers_say_what_they_compile_and_link_with() {
    let place = prefix().display();
    let include = format!("-I{place}/include");
    let link = format!("-L{place}/lib -Wl,-rpath,{place}/lib -lmpi_abi");
    for (name, compiler) in
        [("mpicc", "cc"), ("mpicxx", "c++"), ("mpic++", "c++"), ("mpiCC", "c++")]
    {
        let all = format!("{compiler} {include} {link}");
        for option in ["-show", "--show", "-showme", "--showme", "-link_info", "-link-info"] {
            assert_eq!(wrapper(name, &[option]), all, "{name} {option}");
        }
        let compile = format!("{compiler} {include}");
        for option in ["-compile_info", "-compile-info"] {
            assert_eq!(wrapper(name, &[option]), compile, "{name} {option}");
        }
        let whole = wrapper(name, &["-show", "-O2", "a.c", "-o", "a"]);
        assert_eq!(whole, format!("{compiler} {include} -O2 a.c -o a {link}"));
        assert_eq!(
            wrapper(name, &["-show", "-c", "a b.c"]),
            format!("{compiler} {include} -c \"a b.c\"")
        );
        for (option, answer) in [
            ("command", compiler.to_owned()),
            ("compile", include.clone()),
            ("link", link.clone()),
            ("incdirs", format!("{place}/include")),
            ("libdirs", format!("{place}/lib")),
            ("libs", "mpi_abi".to_owned()),
        ] {
            assert_eq!(wrapper(name, &[&format!("-showme:{option}")]), answer, "{name} {option}");
            assert_eq!(wrapper(name, &[&format!("--showme:{option}")]), answer, "{name} {option}");
        }
        let version = wrapper(name, &["-showme:version"]);
        assert_eq!(
            version,
            format!("{name}: madmpi {} (MPI 5.0, standard ABI)", env!("CARGO_PKG_VERSION"))
        );
        let unknown =
            with_path(prefix().join("bin").join(name)).arg("-showme:flags").output().unwrap();
        assert_eq!(unknown.status.code(), Some(2), "{name}");
        assert!(err(&unknown).contains("incdirs"), "what there is: {}", err(&unknown));
    }
    // Queries of the compiler itself, which links nothing.
    assert_eq!(wrapper("mpicc", &["-dumpmachine"]), said(with_path("cc").arg("-dumpmachine")));
    assert!(with_path("mpicc").arg("-v").output().unwrap().status.success());
}

#[test]
fn wrappers_compile_c_and_cxx() {
    let place = folder("wrappers");
    for (compiler, source, name) in [("mpicc", "ranks.c", "c"), ("mpicxx", "ranks.cpp", "cxx")] {
        if compiler == "mpicxx" && !has("c++") {
            eprintln!("SKIPPED: there is no C++ compiler (apt-get install g++)");
            continue;
        }
        let binary = place.join(name);
        let source = Path::new(FIXTURES).join("cmake").join(source);
        said(with_path(compiler).args(["-Wall", "-Werror", "-o"]).arg(&binary).arg(source));
        assert_eq!(said(with_path("mpiexec").args(["-n", "2"]).arg(&binary)), SAID);
    }
}

fn launch(launcher: &str, args: &[&str]) -> Output {
    with_path(launcher).args(args).output().expect("timeout is there")
}

#[test]
fn mpiexec_and_mpirun_start_as_many_processes_as_they_are_told() {
    let print = ["sh", "-c", "echo $PMI_SIZE $@", "sh", "-np", "7", "--help"];
    for launcher in ["mpiexec", "mpirun"] {
        for (options, lines) in [
            (&["-n", "3"][..], "3 -np 7 --help\n".repeat(3)),
            (&["-np", "2"], "2 -np 7 --help\n".repeat(2)),
            (&["--np", "2", "--timeout", "60"], "2 -np 7 --help\n".repeat(2)),
            (&["--timeout=60", "--n", "2", "--driver", "tcp", "--"], "2 -np 7 --help\n".repeat(2)),
            (&[], "1 -np 7 --help\n".to_owned()),
        ] {
            let output = launch(launcher, &[options, &print].concat());
            assert_eq!(
                (out(&output), err(&output)),
                (lines, String::new()),
                "{launcher} {options:?}"
            );
            assert!(output.status.success());
        }
        let failed = launch(launcher, &["-n", "2", "sh", "-c", "exit 3"]);
        assert_eq!(failed.status.code(), Some(3));
        for option in ["-h", "--help"] {
            let help = launch(launcher, &[option]);
            assert!(help.status.success() && out(&help).contains("-np"), "{}", out(&help));
        }
        let version = launch(launcher, &["--version"]);
        assert!(out(&version).contains(env!("CARGO_PKG_VERSION")), "{}", out(&version));
    }
}

#[test]
fn mpiexec_names_the_option_that_it_does_not_know_and_those_that_it_does() {
    for (words, named) in [
        (&["-n", "2", "-host", "a,b", "true"][..], "-host"),
        (&["-hostfile", "f", "-n", "2", "true"], "-hostfile"),
        (&["-wdir", "/", "true"], "-wdir"),
        (&["--oversubscribe", "-n", "2", "true"], "--oversubscribe"),
        (&["-n2", "true"], "-n2"),
        (&["-n", "1", "true", ":", "-n", "1", "true"], ":"),
    ] {
        let output = launch("mpiexec", words);
        let text = err(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.starts_with(&format!("mpiexec: {named} ")), "{words:?}: {text}");
        assert!(text.contains("-n N") && text.contains("--timeout"), "what it knows: {text}");
    }
    for words in [&["-n"][..], &["-n", "2"], &["-n", "two", "true"], &["-n", "0", "true"], &[]] {
        let output = launch("mpiexec", words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", err(&output));
        assert!(!err(&output).is_empty());
    }
}

#[test]
fn a_program_that_does_not_know_where_its_mpi_is_finds_that_of_the_launcher() {
    let binary = folder("lost").join("lost");
    let library = prefix().join("lib/libmpi_abi.so");
    let include = prefix().join("include");
    said(
        with_path("cc")
            .arg("-o")
            .arg(&binary)
            .arg(program_in_c())
            .arg(&library)
            .arg("-I")
            .arg(include),
    );
    let alone = with_path(&binary).output().expect("timeout is there");
    assert!(err(&alone).contains("libmpi_abi.so.1"), "it does not know: {}", err(&alone));
    assert_eq!(said(with_path("mpiexec").args(["-n", "2"]).arg(&binary)), SAID);
    let mut named = with_path("mpiexec");
    named.args(["sh", "-c", "echo $LD_LIBRARY_PATH"]).env("LD_LIBRARY_PATH", "/first");
    assert_eq!(said(&mut named), format!("/first:{}/lib", prefix().display()));
}

#[test]
fn pkg_config_knows_this_mpi() {
    if !has("pkg-config") {
        return eprintln!("SKIPPED: there is no pkg-config (apt-get install pkg-config)");
    }
    let place = folder("pkg-config");
    for name in ["mpi", "madmpi"] {
        let ask = |option: &str| {
            said(
                with_path("pkg-config")
                    .args([option, name])
                    .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")),
            )
        };
        assert_eq!(ask("--modversion"), env!("CARGO_PKG_VERSION"));
        let binary = place.join(name);
        let (compile, link) = (ask("--cflags"), ask("--libs"));
        said(
            with_path("cc")
                .args(compile.split_whitespace())
                .arg("-o")
                .arg(&binary)
                .arg(program_in_c())
                .args(link.split_whitespace()),
        );
        assert_eq!(said(with_path("mpiexec").args(["-n", "2"]).arg(&binary)), SAID);
    }
}

#[test]
fn cmake_finds_this_mpi_by_path_alone() {
    for (tool, package) in [("cmake", "cmake"), ("c++", "g++"), ("make", "make")] {
        if !has(tool) {
            return eprintln!("SKIPPED: there is no {tool} (apt-get install {package})");
        }
    }
    let place = folder("cmake");
    let source = Path::new(FIXTURES).join("cmake");
    said(with_path("cmake").arg("-S").arg(source).arg("-B").arg(&place));
    let found = std::fs::read_to_string(place.join("found")).expect("the project writes it");
    let ours = prefix().display();
    let library = format!("{ours}/lib/libmpi_abi.so");
    assert_eq!(found, format!("5.0\n{ours}/include\n{library}\n{library}\n{ours}/bin/mpiexec\n"));
    said(with_path("cmake").arg("--build").arg(&place));
    let tested = said(with_path("ctest").arg("-V").current_dir(&place));
    assert_eq!(tested.matches(SAID).count(), 2, "{tested}");
}

const IN_FORTRAN: [&str; 3] = ["ranks77.f", "ranks90.f90", "ranks08.f90"];

fn program_in_fortran(name: &str) -> PathBuf {
    Path::new(FIXTURES).join("fortran").join(name)
}

#[test]
fn wrappers_say_how_they_compile_fortran() {
    let Some(prefix) = fortran() else { return };
    let place = prefix.display();
    let wrapper = |name: &str, option: &str| {
        said(with_path_to(prefix, prefix.join("bin").join(name)).arg(option))
    };
    // Versions of gfortran before 10 have no such option, and need none.
    let flags = wrapper("mpifort", "-showme:compile");
    let include = format!("-I{place}/include");
    let allow = "-fallow-argument-mismatch";
    assert!([include.clone(), format!("{include} {allow}")].contains(&flags), "{flags}");
    let link = format!("-L{place}/lib -Wl,-rpath,{place}/lib -lmadmpi_fortran -lmpi_abi");
    for name in ["mpifort", "mpif77", "mpif90"] {
        for option in ["-show", "--show", "-showme", "--showme", "-link_info", "-link-info"] {
            assert_eq!(
                wrapper(name, option),
                format!("gfortran {flags} {link}"),
                "{name} {option}"
            );
        }
        for (option, answer) in [
            ("-compile_info", format!("gfortran {flags}")),
            ("-showme:command", "gfortran".to_owned()),
            ("-showme:link", link.clone()),
            ("-showme:incdirs", format!("{place}/include")),
            ("-showme:libdirs", format!("{place}/lib")),
            ("-showme:libs", "madmpi_fortran mpi_abi".to_owned()),
        ] {
            assert_eq!(wrapper(name, option), answer, "{name} {option}");
        }
    }
    // C is compiled as without Fortran.
    let c = said(with_path_to(prefix, "mpicc").arg("-show"));
    assert_eq!(c, format!("cc {include} -L{place}/lib -Wl,-rpath,{place}/lib -lmpi_abi"));
    // With wider integers every call would be wrong.
    let mut wide = with_path_to(prefix, "mpifort");
    wide.args(["-c", "-fdefault-integer-8", "a.f90"]);
    let wide = wide.output().expect("timeout is there");
    assert_eq!(wide.status.code(), Some(2));
    assert!(err(&wide).contains("-fdefault-integer-8"), "{}", err(&wide));
}

#[test]
fn mpifort_compiles_each_interface_and_links_both_libraries() {
    let Some(prefix) = fortran() else { return };
    let place = folder("mpifort");
    for source in IN_FORTRAN {
        for (option, suffix) in [("-O2", "shared"), ("-static-mpi", "static")] {
            let binary = place.join(format!("{source}.{suffix}"));
            said(
                with_path_to(prefix, "mpifort")
                    .args(["-Wall", "-Werror", option, "-o"])
                    .arg(&binary)
                    .arg(program_in_fortran(source)),
            );
            let run = said(with_path_to(prefix, "mpiexec").args(["-n", "2"]).arg(&binary));
            assert_eq!(run, SAID, "{source}, {suffix}");
        }
    }
}

#[test]
fn pkg_config_knows_this_mpi_for_fortran() {
    let Some(prefix) = fortran() else { return };
    if !has("pkg-config") {
        return eprintln!("SKIPPED: there is no pkg-config (apt-get install pkg-config)");
    }
    let place = folder("pkg-config-fortran");
    for (name, source) in ["mpi-fort", "madmpi-fort", "mpi-fort"].into_iter().zip(IN_FORTRAN) {
        let mut ask = with_path_to(prefix, "pkg-config");
        ask.args(["--cflags", "--libs", name]);
        let flags = said(ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
        let binary = place.join(source);
        said(
            with_path_to(prefix, "gfortran")
                .arg("-o")
                .arg(&binary)
                .arg(program_in_fortran(source))
                .args(flags.split_whitespace()),
        );
        assert_eq!(said(with_path_to(prefix, "mpiexec").args(["-n", "2"]).arg(&binary)), SAID);
    }
}

#[test]
fn cmake_finds_this_mpi_for_fortran_by_path_alone() {
    let Some(prefix) = fortran() else { return };
    for tool in ["cmake", "make"] {
        if !has(tool) {
            return eprintln!("SKIPPED: there is no {tool} (apt-get install {tool})");
        }
    }
    let place = folder("cmake-fortran");
    let source = Path::new(FIXTURES).join("fortran");
    said(with_path_to(prefix, "cmake").arg("-S").arg(source).arg("-B").arg(&place));
    let found = std::fs::read_to_string(place.join("found")).expect("the project writes it");
    let lib = format!("{}/lib", prefix.display());
    let (ours, include) = (prefix.display(), "include");
    assert_eq!(
        found,
        format!(
            "5.0 TRUE TRUE TRUE\n{ours}/{include}\n{lib}/libmadmpi_fortran.so;{lib}/libmpi_abi.so\n"
        )
    );
    said(with_path_to(prefix, "cmake").arg("--build").arg(&place));
    let tested = said(with_path_to(prefix, "ctest").arg("-V").current_dir(&place));
    assert_eq!(tested.matches(SAID).count(), 3, "{tested}");
}

#[test]
fn without_gfortran_there_is_c_and_a_message() {
    // The commands of this machine without its compilers of Fortran.
    let commands = folder("no-fortran");
    for place in ["/bin", "/usr/bin"] {
        for entry in std::fs::read_dir(place).expect("commands").flatten() {
            let name = entry.file_name();
            let text = name.to_string_lossy();
            if !["gfortran", "f77", "f95"].iter().any(|fortran| text.contains(fortran)) {
                let _ = std::os::unix::fs::symlink(entry.path(), commands.join(&name)); // in both
            }
        }
    }
    let place = folder("no-fortran-prefix");
    // What an earlier installation with Fortran has left.
    let left = ["lib/libmadmpi_fortran.so.1", "include/mpi.mod", "bin/mpif90"];
    for file in left.map(|file| place.join(file)) {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        std::fs::write(file, "").expect("it is written");
    }
    let installed = install(&place)
        .env_remove("MPIFORT_FC")
        .env("PATH", &commands)
        .output()
        .expect("the installer is there");
    assert!(installed.status.success(), "{}", err(&installed));
    let told = out(&installed);
    assert!(told.contains("gfortran was not found (apt-get install gfortran"), "{told}");
    for file in left.iter().chain(&["bin/mpifort"]) {
        assert!(!place.join(file).exists(), "{file}");
    }
    let wrapper = place.join("bin/mpifort");
    std::os::unix::fs::symlink("mpicc", &wrapper).expect("a link is made");
    let asked = with_path_to(&place, "mpifort").arg("-show").output().expect("timeout is there");
    assert_eq!((asked.status.code(), out(&asked)), (Some(1), String::new()));
    assert!(err(&asked).contains("install gfortran"), "{}", err(&asked));
    std::fs::remove_file(&wrapper).expect("it is there");
    let binary = place.join("ranks");
    said(with_path_to(&place, "mpicc").arg("-o").arg(&binary).arg(program_in_c()));
    assert_eq!(said(with_path_to(&place, "mpiexec").args(["-n", "2"]).arg(&binary)), SAID);
    // A compiler that was asked for is not left out in silence.
    let wrong =
        install(&place).env("MPIFORT_FC", "no-such-compiler").output().expect("it is there");
    assert_eq!(wrong.status.code(), Some(1), "{}", err(&wrong));
    assert!(err(&wrong).contains("no-such-compiler"), "{}", err(&wrong));
}

#[test]
fn rsmpi_builds_against_this_mpi_and_runs() {
    let place = folder("rsmpi");
    let fixture = Path::new(FIXTURES).join("rsmpi");
    std::fs::create_dir(place.join("src")).expect("a folder for the test");
    for file in ["Cargo.toml", "Cargo.lock", "src/main.rs"] {
        std::fs::copy(fixture.join(file), place.join(file)).expect("a file of the fixture");
    }
    // Only a hang takes so long: a cold build beside load takes minutes.
    let cargo = |verb: &str| {
        let seconds = if verb == "build" { "1800" } else { "300" };
        let mut command = with_path_within(seconds, prefix(), env!("CARGO"));
        // What is built stays from one run to the next.
        command.args([verb, "--quiet", "--locked"]).current_dir(&place);
        command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("rsmpi"));
        // Those of the test's own build.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    };
    let fetched = cargo("fetch").output().expect("timeout is there");
    if fetched.status.code() == Some(124) {
        return eprintln!("SKIPPED: cargo fetch of the crate mpi takes more than 300 s");
    }
    let unreachable =
        ["failed to download", "failed to get", "Could not resolve", "network failure"];
    if !fetched.status.success() && unreachable.iter().any(|why| err(&fetched).contains(why)) {
        return eprintln!(
            "SKIPPED: the crate mpi is not to be had from crates.io: {}",
            err(&fetched)
        );
    }
    assert!(fetched.status.success(), "{}: {}", fetched.status, err(&fetched));
    let built = cargo("build").output().expect("timeout is there");
    if !built.status.success() && err(&built).contains("Unable to find libclang") {
        return eprintln!("SKIPPED: there is no libclang (apt-get install libclang-dev)");
    }
    assert!(built.status.success(), "{}: {}", built.status, err(&built));
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rsmpi/debug/ranks");
    assert_eq!(said(with_path("mpiexec").args(["-n", "2"]).arg(binary)), SAID);
}

/// What a program has loaded (`dlopen`) has to fit in what the C library keeps for that, with the like of others: 1.6 KB.
#[test]
fn the_librarys_thread_locals_fit_where_it_is_loaded_later() {
    let library = prefix().join("lib/libmpi_abi.so.1");
    let output = Command::new("readelf").args(["-lW"]).arg(&library).output().expect("readelf");
    let text = out(&output);
    let line =
        text.lines().find(|line| line.trim_start().starts_with("TLS")).expect("thread-locals");
    let size = line.split_whitespace().nth(5).and_then(|size| size.strip_prefix("0x")).unwrap();
    let size = usize::from_str_radix(size, 16).unwrap();
    assert!(size <= 640, "{size} bytes: {line}");
}
