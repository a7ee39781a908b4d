//! Files in every mode, by io_uring and by the blocking pool, against models of what they should hold.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{FileEngine, Manager, Runtime, TaskBuilder, fs};
use proptest::prelude::*;

#[path = "../../marcel-rs/tests/common/mod.rs"]
mod common;
use common::in_a_child;

const LONG: Duration = Duration::from_secs(120);

/// A runtime of each mode, with each engine.
fn runtimes() -> impl Iterator<Item = (String, Runtime)> {
    let modes = [Mode::NoThread, Mode::Mono, Mode::Smp];
    modes.into_iter().flat_map(|mode| {
        [true, false].map(|uring| (format!("{mode:?}, io_uring {uring}"), runtime(mode, uring)))
    })
}

fn runtime(mode: Mode, uring: bool) -> Runtime {
    Runtime::build(Manager::builder().mode(mode).uring(uring), marcel::Runtime::builder().vps(2))
        .unwrap()
}

fn has_ring(runtime: &Runtime) -> bool {
    matches!(runtime.manager().file_engine(), FileEngine::Uring { .. })
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Bytes that tell where they are from.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    Write(u64, usize),
    ReadAt(u64, usize),
    WriteAt(u64, u64, usize),
    ReadVectored(usize, usize),
    WriteVectored(u64, usize, usize),
    StartWrite(u64, u64, usize),
    StartRead(u64, usize),
    SeekStart(u64),
    SeekEnd(i64),
    SeekBy(i64),
    SetLen(u64),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let at = 0u64..20_000;
    let len = 0usize..9_000;
    prop_oneof![
        len.clone().prop_map(Read),
        (any::<u64>(), len.clone()).prop_map(|(s, n)| Write(s, n)),
        (at.clone(), len.clone()).prop_map(|(a, n)| ReadAt(a, n)),
        (any::<u64>(), at.clone(), len.clone()).prop_map(|(s, a, n)| WriteAt(s, a, n)),
        (len.clone(), len.clone()).prop_map(|(a, b)| ReadVectored(a, b)),
        (any::<u64>(), len.clone(), len.clone()).prop_map(|(s, a, b)| WriteVectored(s, a, b)),
        (any::<u64>(), at.clone(), len.clone()).prop_map(|(s, a, n)| StartWrite(s, a, n)),
        (at.clone(), len.clone()).prop_map(|(a, n)| StartRead(a, n)),
        at.clone().prop_map(SeekStart),
        (-9_000i64..9_000).prop_map(SeekEnd),
        (-9_000i64..9_000).prop_map(SeekBy),
        at.prop_map(SetLen),
        Just(Sync),
    ]
}

/// What a file is: bytes and a position.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    position: u64,
}

impl Model {
    fn read(&self, at: u64, len: usize) -> &[u8] {
        let start = (at as usize).min(self.bytes.len());
        &self.bytes[start..(start + len).min(self.bytes.len())]
    }

    fn write(&mut self, at: u64, data: &[u8]) {
        let end = at as usize + data.len();
        if !data.is_empty() && self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if !data.is_empty() {
            self.bytes[at as usize..end].copy_from_slice(data);
        }
    }
}

/// Takes a step on both; an error says how they differ. Short transfers of regular files would be one.
fn take(step: &Step, file: &mut fs::File, model: &mut Model) -> io::Result<()> {
    let same = |what: &str, same: bool| match same {
        true => Ok(()),
        false => Err(io::Error::other(format!("{what} differs"))),
    };
    match *step {
        Step::Read(len) => {
            let mut buffer = vec![0; len];
            let n = file.read(&mut buffer)?;
            same("read", buffer[..n] == *model.read(model.position, len))?;
            model.position += n as u64;
        }
        Step::Write(seed, len) => {
            let data = pattern(seed, len);
            same("written", file.write(&data)? == len)?;
            model.write(model.position, &data);
            model.position += len as u64;
        }
        Step::ReadAt(at, len) => {
            let mut buffer = vec![0; len];
            let n = file.read_at(&mut buffer, at)?;
            same("read_at", buffer[..n] == *model.read(at, len))?;
        }
        Step::WriteAt(seed, at, len) => {
            let data = pattern(seed, len);
            same("write_at", file.write_at(&data, at)? == len)?;
            model.write(at, &data);
        }
        Step::ReadVectored(a, b) => {
            let (mut first, mut second) = (vec![0; a], vec![0; b]);
            let n = file
                .read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])?;
            first.extend(second);
            same("read_vectored", first[..n] == *model.read(model.position, a + b))?;
            model.position += n as u64;
        }
        Step::WriteVectored(seed, a, b) => {
            let data = pattern(seed, a + b);
            let (first, second) = data.split_at(a);
            let n = file.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?;
            same("write_vectored", n == a + b)?;
            model.write(model.position, &data);
            model.position += n as u64;
        }
        Step::StartWrite(seed, at, len) => {
            let data = pattern(seed, len);
            let (n, back) = file.start_write_at(data.clone(), at).wait();
            same("transfer to", n? == len && back == data)?;
            model.write(at, &data);
        }
        Step::StartRead(at, len) => {
            let (n, buffer) = file.start_read_at(vec![0; len], at).wait();
            same("transfer from", buffer[..n?] == *model.read(at, len))?;
        }
        Step::SeekStart(at) => model.position = file.seek(SeekFrom::Start(at))?,
        Step::SeekEnd(by) => {
            let wanted = model.bytes.len() as i64 + by;
            let found = file.seek(SeekFrom::End(by)).ok();
            same("seek", found == u64::try_from(wanted).ok())?;
            model.position = found.unwrap_or(model.position);
        }
        Step::SeekBy(by) => {
            let wanted = model.position as i64 + by;
            let found = file.seek(SeekFrom::Current(by)).ok();
            same("seek", found == u64::try_from(wanted).ok())?;
            model.position = found.unwrap_or(model.position);
        }
        Step::SetLen(len) => {
            file.set_len(len)?;
            model.bytes.resize(len as usize, 0);
        }
        Step::Sync => {
            file.sync_data()?;
            file.sync_all()?;
        }
    }
    same("size", file.size()? == model.bytes.len() as u64)?;
    same("length", file.metadata()?.len() == model.bytes.len() as u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_is_bytes_and_a_position(steps in prop::collection::vec(step(), 1..40)) {
        for (which, runtime) in runtimes() {
            let folder = folder();
            let path = folder.path().join("file");
            let outcome = runtime.run(|| {
                let mut model = Model::default();
                let mut file = fs::File::options().read(true).write(true).create(true).open(&path)?;
                for step in &steps {
                    take(step, &mut file, &mut model)
                        .map_err(|e| io::Error::other(format!("{step:?}: {e}")))?;
                }
                file.close()?;
                match fs::read(&path)? == model.bytes {
                    true => Ok(()),
                    false => Err(io::Error::other("the contents differ")),
                }
            });
            prop_assert!(outcome.is_ok(), "{which}: {outcome:?}");
        }
    }
}

#[test]
fn errors_and_options_are_those_of_the_standard_library() {
    for (which, runtime) in runtimes() {
        let folder = folder();
        let path = folder.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let bits = 0..64u32;
        runtime.run(|| {
            for bits in bits {
                let on = |bit: u32| bits >> bit & 1 == 1;
                for present in [true, false] {
                    let open_with = |std: bool| {
                        match present {
                            true => std::fs::write(&path, "old").unwrap(),
                            false => drop(std::fs::remove_file(&path)),
                        }
                        let opened = if std {
                            let mut options = std::fs::OpenOptions::new();
                            options.read(on(0)).write(on(1)).append(on(2));
                            options.truncate(on(3)).create(on(4)).create_new(on(5));
                            options.open(&path).map(drop)
                        } else {
                            let mut options = fs::OpenOptions::new();
                            options.read(on(0)).write(on(1)).append(on(2));
                            options.truncate(on(3)).create(on(4)).create_new(on(5));
                            options.open(&path).map(drop)
                        };
                        (opened.map_err(|e| e.kind()), std::fs::read(&path).ok())
                    };
                    assert_eq!(open_with(false), open_with(true), "{which}: {bits:06b}");
                }
            }
            let nobody = folder.path().join("nobody");
            assert_eq!(fs::File::open(&nobody).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(fs::read(&nobody).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(fs::copy(&nobody, &path).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(fs::read("a\0b").unwrap_err().kind(), io::ErrorKind::InvalidInput);
            let mut full = fs::File::options().write(true).open("/dev/full").unwrap();
            let refused = full.write(b"more").unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "{which}");
            let (refused, back) = full.start_write_at(vec![1; 10], 0).wait();
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull, "{which}");
            assert_eq!(back, [1; 10]);
            std::fs::write(&path, "abc").unwrap();
            let file = fs::File::open(&path).unwrap();
            assert_eq!((&file).write(b"x").unwrap_err().raw_os_error(), Some(libc::EBADF));
            let beyond = file.read_at(&mut [0; 4], u64::MAX).unwrap_err();
            assert_eq!(beyond.raw_os_error(), Some(libc::EINVAL), "{which}");
        });
    }
}

/// A read of a pipe ends with what is there, however much was asked for.
#[test]
fn a_pipe_gives_what_it_has() {
    for (which, runtime) in runtimes() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut file = fs::File::from(std::os::fd::OwnedFd::from(reader));
        runtime.run(|| {
            let mut buffer = [0; 64];
            for _ in 0..50 {
                writer.write_all(b"some").unwrap();
                assert_eq!(file.read(&mut buffer).unwrap(), 4, "{which}");
            }
            drop(writer);
            assert_eq!(file.read(&mut buffer).unwrap(), 0, "{which}");
        });
    }
}

fn fifo(folder: &tempfile::TempDir, name: impl std::fmt::Display) -> std::path::PathBuf {
    let path = folder.path().join(name.to_string());
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a valid path.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}

#[test]
fn an_open_of_a_fifo_waits_for_the_other_end() {
    in_a_child("an_open_of_a_fifo_waits_for_the_other_end", LONG, || {
        for (which, runtime) in runtimes() {
            let folder = folder();
            for reads in [true, false] {
                let path = fifo(&folder, reads);
                let comes = Arc::new(AtomicBool::new(false));
                let (theirs, other) = (comes.clone(), path.clone());
                let other = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    theirs.store(true, SeqCst);
                    let mut other =
                        std::fs::File::options().read(!reads).write(reads).open(other).unwrap();
                    match reads {
                        true => other.write_all(b"x").unwrap(),
                        false => other.read_exact(&mut [0]).unwrap(),
                    }
                });
                runtime.run(|| {
                    let file = fs::File::options().read(reads).write(!reads).open(&path);
                    let mut file = file.unwrap_or_else(|error| panic!("{which}: {error}"));
                    assert!(comes.load(SeqCst), "{which}: the other end is not there yet");
                    match reads {
                        true => file.read_exact(&mut [0]).unwrap(),
                        false => file.write_all(b"x").unwrap(),
                    }
                });
                other.join().unwrap();
            }
            // With O_NONBLOCK it does not wait.
            let path = fifo(&folder, "nonblocking");
            runtime.run(|| {
                let open = |reads: bool| {
                    let mut options = fs::File::options();
                    options.read(reads).write(!reads).custom_flags(libc::O_NONBLOCK).open(&path)
                };
                assert_eq!(open(false).unwrap_err().raw_os_error(), Some(libc::ENXIO), "{which}");
                assert!(open(true).is_ok(), "{which}");
            });
        }
    });
}

/// Each open that waits holds a worker of the kernel.
#[test]
fn opens_that_wait_do_not_hold_up_those_that_they_wait_for() {
    const FIFOS: usize = 40;
    in_a_child("opens_that_wait_do_not_hold_up_those_that_they_wait_for", LONG, || {
        let runtime = runtime(Mode::Smp, true);
        if !has_ring(&runtime) {
            return;
        }
        let folder = folder();
        let begun = Arc::new(AtomicUsize::new(0));
        runtime.run(|| {
            let paths: Vec<_> = (0..FIFOS).map(|i| fifo(&folder, i)).collect();
            let readers: Vec<_> = paths
                .iter()
                .map(|path| {
                    let (path, begun) = (path.clone(), begun.clone());
                    marcel::spawn(move || {
                        begun.fetch_add(1, SeqCst);
                        fs::File::open(path).unwrap().read_exact(&mut [0]).unwrap();
                    })
                })
                .collect();
            while begun.load(SeqCst) < FIFOS {
                marcel::yield_now();
            }
            for path in paths {
                fs::File::options().write(true).open(path).unwrap().write_all(b"x").unwrap();
            }
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    });
}

#[test]
fn a_runtime_that_stops_gives_an_open_up() {
    in_a_child("a_runtime_that_stops_gives_an_open_up", LONG, || {
        let runtime = runtime(Mode::Smp, true);
        if !has_ring(&runtime) {
            return;
        }
        let folder = folder();
        let path = fifo(&folder, "fifo");
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        runtime.run(|| {
            drop(marcel::spawn(move || {
                begins.store(true, SeqCst);
                fs::File::open(path).map(drop)
            }));
            while !begun.load(SeqCst) {
                marcel::yield_now();
            }
        });
        drop(runtime);
    });
}

#[test]
fn names_folders_and_copies() {
    for (which, runtime) in runtimes() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        runtime.run(|| {
            fs::create_dir_all(at("a/b")).unwrap();
            let data = pattern(7, 3_000_000);
            fs::write(at("a/one"), &data).unwrap();
            std::fs::set_permissions(
                at("a/one"),
                std::os::unix::fs::PermissionsExt::from_mode(0o640),
            )
            .unwrap();
            assert_eq!(fs::copy(at("a/one"), at("a/two")).unwrap(), 3_000_000, "{which}");
            assert_eq!(fs::read(at("a/two")).unwrap(), data);
            let permissions = fs::metadata(at("a/two")).unwrap().permissions();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o640);
            fs::rename(at("a/two"), at("three")).unwrap();
            fs::hard_link(at("three"), at("four")).unwrap();
            assert!(!fs::exists(at("a/two")).unwrap() && fs::exists(at("four")).unwrap());
            fs::write(at("text"), "grüße").unwrap();
            assert_eq!(fs::read_to_string(at("text")).unwrap(), "grüße");
            let broken = fs::read_to_string(at("three")).unwrap_err();
            assert_eq!(broken.kind(), io::ErrorKind::InvalidData);
            assert_eq!(fs::read_dir(folder.path()).unwrap().len(), 4);
            assert!(fs::remove_dir(at("a")).is_err());
            fs::remove_file(at("three")).unwrap();
            fs::remove_dir_all(at("a")).unwrap();
            assert!(fs::copy(folder.path(), at("five")).is_err());
        });
    }
}

/// Many threads, green and kernel, on one file each and on one file together.
#[test]
fn hundreds_of_operations_at_once() {
    const BLOCK: usize = 4096;
    for (which, runtime) in runtimes().filter(|(_, r)| r.manager().mode() != Mode::NoThread) {
        let folder = folder();
        let path = folder.path().join("shared");
        let shared =
            Arc::new(fs::File::options().read(true).write(true).create(true).open(&path).unwrap());
        let block = |file: &fs::File, i: u64| {
            let data = pattern(i, BLOCK);
            file.write_all_at(&data, i * BLOCK as u64).unwrap();
            let mut back = vec![0; BLOCK];
            file.read_exact_at(&mut back, i * BLOCK as u64).unwrap();
            assert!(back == data, "block {i}");
        };
        let kernel: Vec<_> = (0..4u64)
            .map(|t| {
                let shared = shared.clone();
                std::thread::spawn(move || (0..50).for_each(|i| block(&shared, 1000 + t * 50 + i)))
            })
            .collect();
        runtime.run(|| {
            let threads: Vec<_> = (0..400u64)
                .map(|i| {
                    let shared = shared.clone();
                    marcel::spawn(move || {
                        block(&shared, 2 * i);
                        marcel::yield_now();
                        block(&shared, 2 * i + 1);
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
        kernel.into_iter().for_each(|t| t.join().unwrap());
        let all = std::fs::read(&path).unwrap();
        for i in (0..800u64).chain(1000..1200) {
            let at = i as usize * BLOCK;
            assert!(all[at..at + BLOCK] == pattern(i, BLOCK), "{which}: block {i}");
        }
    }
}

/// More transfers than the ring has places, uncollected: the rest takes the other way.
#[test]
fn more_transfers_than_places() {
    for (which, runtime) in runtimes() {
        let folder = folder();
        let path = folder.path().join("file");
        std::fs::write(&path, pattern(3, 8192)).unwrap();
        runtime.run(|| {
            let file = fs::File::open(&path).unwrap();
            let transfers: Vec<_> =
                (0..3000u64).map(|i| file.start_read_at(vec![0; 16], i)).collect();
            let wanted = pattern(3, 8192);
            for (i, transfer) in transfers.into_iter().enumerate() {
                let (n, data) = transfer.wait();
                assert_eq!(n.unwrap(), 16, "{which}");
                assert_eq!(data, wanted[i..i + 16]);
            }
        });
    }
}

/// A pipe that nobody writes to: what reads from it ends by its time-out, its cancellation, or data, and only once.
#[test]
fn a_cancellation_that_races_with_the_end_has_one_outcome() {
    for (which, runtime) in runtimes().filter(|(_, r)| has_ring(r)) {
        let (cancelled, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        runtime.run(|| {
            for i in 0..300u64 {
                let (reader, mut writer) = std::io::pipe().unwrap();
                let file = fs::File::from(std::os::fd::OwnedFd::from(reader));
                let transfer = file.start_read(vec![0; 8]);
                let late = Instant::now() + Duration::from_micros(i % 100);
                let sender = std::thread::spawn(move || {
                    while Instant::now() < late {
                        std::hint::spin_loop();
                    }
                    let _ = writer.write(&[7; 8]);
                    writer
                });
                let transfer = match transfer.wait_until(late + Duration::from_micros(i % 7)) {
                    Ok(_) => {
                        ended.fetch_add(1, SeqCst);
                        sender.join().unwrap();
                        continue;
                    }
                    Err(transfer) => transfer,
                };
                transfer.cancel();
                transfer.cancel();
                let (result, buffer) = transfer.wait();
                drop(sender.join().unwrap());
                let mut rest = Vec::new();
                (&file).read_to_end(&mut rest).unwrap();
                match result {
                    Ok(n) => {
                        assert_eq!((n, &buffer[..], rest.len()), (8, &[7; 8][..], 0), "{which}");
                        ended.fetch_add(1, SeqCst);
                    }
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED), "{which}");
                        assert_eq!((rest, buffer), (vec![7; 8], vec![0; 8]), "{which}");
                        cancelled.fetch_add(1, SeqCst);
                    }
                }
            }
        });
        assert_eq!(cancelled.load(SeqCst) + ended.load(SeqCst), 300);
    }
}

/// Threads sit in reads that never end, with buffers on their stacks and on the heap; then the runtime goes.
#[test]
fn a_runtime_that_stops_leaves_no_read_behind() {
    for _ in 0..20 {
        let runtime = runtime(Mode::Smp, true);
        if !has_ring(&runtime) {
            return;
        }
        let begun = Arc::new(AtomicU64::new(0));
        let (reader, writer) = std::io::pipe().unwrap();
        let file = Arc::new(fs::File::from(std::os::fd::OwnedFd::from(reader)));
        for i in 0..20 {
            let (file, begun) = (file.clone(), begun.clone());
            let _detached = runtime.threads().spawn(move || {
                begun.fetch_add(1, SeqCst);
                let mut here = [0u8; 64];
                let _kept = (i % 2 == 0).then(|| file.start_read(vec![0; 64]));
                let _ = (&*file).read(&mut here);
                unreachable!("nobody writes: {here:?}");
            });
        }
        while begun.load(SeqCst) < 20 {
            std::thread::yield_now();
        }
        drop(runtime);
        // Nobody is left to take what is written now.
        (&writer).write_all(&[9; 64]).unwrap();
        let mut all = [0; 64];
        assert_eq!((&*file).read(&mut all).unwrap(), 64);
        assert_eq!(all, [9; 64]);
    }
}

/// Threads are dropping transfers, which waits for their ends, when the runtime goes: no drop is cut short, or the
/// kernel would write to memory that is another's by then (a debug build looks).
#[test]
fn a_runtime_that_stops_cuts_no_drop_short() {
    for _ in 0..20 {
        let policy = pioman::policy::by_name("always-block").unwrap();
        let manager = Manager::builder().mode(Mode::Smp).uring(true).policy(policy);
        let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let file = Arc::new(fs::File::from(std::os::fd::OwnedFd::from(reader)));
        let dropped = Arc::new(AtomicU64::new(0));
        for _ in 0..8 {
            let (file, dropped) = (file.clone(), dropped.clone());
            let _detached = runtime.threads().spawn(move || {
                loop {
                    drop(file.start_read(vec![0; 64]));
                    dropped.fetch_add(1, SeqCst);
                    marcel::yield_now();
                }
            });
        }
        while dropped.load(SeqCst) < 50 {
            std::thread::yield_now();
        }
        drop(runtime);
    }
}

/// Threads that share a file share its position: what one read gives is in one piece, and nobody else gets it. The page
/// cache holds every other page only, so that a read finds a part at once.
#[test]
fn a_read_at_a_shared_position_is_in_one_piece() {
    const PAGE: usize = 4096;
    const PAGES: usize = 512;
    for (which, runtime) in runtimes().filter(|(_, r)| r.manager().mode() != Mode::NoThread) {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("shared");
        let words: Vec<u8> = (0..(PAGES * PAGE / 8) as u64).flat_map(u64::to_le_bytes).collect();
        std::fs::write(&path, &words).unwrap();
        let plain = std::fs::File::open(&path).unwrap();
        plain.sync_all().unwrap();
        // SAFETY: advice: nothing of it is kept, and nothing is read ahead.
        unsafe {
            libc::posix_fadvise(plain.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
            libc::posix_fadvise(plain.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM);
        }
        for page in (0..PAGES).step_by(2) {
            plain.read_exact_at(&mut [0; 8], (page * PAGE) as u64).unwrap();
        }
        let file = Arc::new(fs::File::from(plain));
        let mut starts = runtime.run(|| {
            let read = |_| {
                let file = file.clone();
                move || {
                    let (mut starts, mut some) = (Vec::new(), vec![0; 3 * PAGE]);
                    loop {
                        let n = (&*file).read(&mut some).unwrap();
                        if n == 0 {
                            return starts;
                        }
                        let word =
                            |at: usize| u64::from_le_bytes(some[at..at + 8].try_into().unwrap());
                        let piece = (0..n as u64 / 8).all(|i| word(8 * i as usize) == word(0) + i);
                        assert!(piece, "a read of {n} bytes has holes");
                        starts.push((word(0), n as u64 / 8));
                    }
                }
            };
            let threads: Vec<_> = (0..8).map(read).map(marcel::spawn).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
        });
        starts.sort();
        let end = starts.iter().fold(0, |end, &(start, n)| {
            assert_eq!(start, end, "{which}: words that were given twice, or to nobody");
            start + n
        });
        assert_eq!(end, words.len() as u64 / 8, "{which}");
    }
}

/// A light task must not wait. What it reads it reads on the spot, and a transfer that it drops is over then.
#[test]
fn a_light_task_reads_and_drops_transfers() {
    for (which, runtime) in runtimes() {
        let manager = runtime.manager().clone();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let file = Arc::new(fs::File::from(std::os::fd::OwnedFd::from(reader)));
        let started = has_ring(&runtime).then(|| file.start_read(vec![0; 8]));
        let folder = folder();
        let path = folder.path().join("written");
        let task = TaskBuilder::new().submit_once(&manager, {
            let path = path.clone();
            move || {
                drop(started);
                fs::write(&path, "by a light task").unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"by a light task");
            }
        });
        let result = runtime.run(|| task.unwrap().wait());
        assert_eq!(result, Ok(()), "{which}");
        writer.write_all(&[7; 8]).unwrap();
        let mut all = [0; 8];
        (&*file).read_exact(&mut all).unwrap();
        assert_eq!(all, [7; 8], "{which}");
    }
}

/// The kernel thread that has submitted an operation ends before the operation does.
#[test]
fn an_operation_outlives_the_kernel_thread_that_began_it() {
    let runtime = runtime(Mode::Smp, true);
    for _ in 0..20 {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let manager = runtime.manager().clone();
        let transfer = std::thread::spawn(move || {
            let _entered = manager.enter();
            let file = fs::File::from(std::os::fd::OwnedFd::from(reader));
            // Without a ring the call is made at once, which would wait for ever.
            (manager.uring_is_there()).then(|| file.start_read(vec![0; 4]))
        });
        let Some(transfer) = transfer.join().unwrap() else { return };
        assert!(!transfer.is_done());
        writer.write_all(b"late").unwrap();
        let (n, data) = transfer.wait();
        assert_eq!((n.unwrap(), &data[..]), (4, &b"late"[..]));
    }
}

trait HasRing {
    fn uring_is_there(&self) -> bool;
}

impl HasRing for Manager {
    fn uring_is_there(&self) -> bool {
        matches!(self.file_engine(), FileEngine::Uring { .. })
    }
}

/// A child of fork has no ring: its files work by plain calls, and it does not touch the parent's operations.
#[test]
fn a_child_of_fork_does_not_use_the_ring() {
    let runtime = runtime(Mode::NoThread, true);
    if !has_ring(&runtime) {
        return;
    }
    let _entered = runtime.manager().enter();
    let folder = folder();
    let path = folder.path().join("file");
    std::fs::write(&path, "parent").unwrap();
    let file = fs::File::open(&path).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let pipe = fs::File::from(std::os::fd::OwnedFd::from(reader));
    let transfer = pipe.start_read(vec![0; 4]);
    let [dropped, waited, limited] = [(); 3].map(|()| pipe.start_read(vec![0; 4]));
    // SAFETY: the child makes system calls, allocates at most (glibc's allocator is usable after fork), and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let manager = runtime.manager();
        let by_pool = !has_ring(&runtime);
        let nothing = !manager.poll(pioman::Point::Library);
        let (n, data) = file.start_read_at(vec![0; 6], 0).wait();
        let mut right = n.is_ok_and(|n| n == 6) && data == b"parent" && by_pool && nothing;
        // What the parent has begun is the parent's: the child neither cancels it nor waits for it.
        // SAFETY: no pointers. A child that waits ends.
        unsafe { libc::alarm(60) };
        dropped.cancel();
        drop(dropped);
        right &= waited.is_done() && waited.wait().0.is_err();
        let limit = Instant::now() + Duration::from_secs(1000);
        right &= limited.wait_until(limit).is_ok_and(|(n, _)| n.is_err());
        // SAFETY: ends the child.
        unsafe { libc::_exit(if right { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our child; a writable integer.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
    for cancelled in [dropped, waited, limited] {
        cancelled.cancel();
        assert_eq!(cancelled.wait().0.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
    }
    writer.write_all(b"mine").unwrap();
    assert_eq!(transfer.wait().1, b"mine");
}

const SCENARIO: &str = "PIOMAN_FILES_SCENARIO";

/// Runs in processes that the other tests start.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    if scenario == "seccomp" {
        forbid_uring();
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let runtime = runtime(Mode::Smp, true);
    if scenario == "nofile" {
        // SAFETY: a valid limit.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            limit.rlim_cur = 64;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
        let files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        assert!(files.len() < 64);
        // No descriptor is left, not even for a ring.
        runtime.run(|| {
            let error = fs::File::open("/dev/null").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            let file = fs::File::from(files.into_iter().next().unwrap());
            assert_eq!((&file).write(b"12345").unwrap_err().raw_os_error(), Some(libc::EBADF));
        });
        let engine = runtime.manager().file_engine();
        assert!(matches!(engine, FileEngine::Pool { .. }), "{engine:?}");
        return;
    }
    let FileEngine::Pool { why } = runtime.manager().file_engine() else { panic!("a ring") };
    assert!(why.contains("forbidden"), "{why}");
    let folder = folder();
    runtime.run(|| {
        let path = folder.path().join("file");
        let threads: Vec<_> = (0..20u64)
            .map(|i| {
                let path = path.with_extension(i.to_string());
                marcel::spawn(move || {
                    fs::write(&path, pattern(i, 100_000)).unwrap();
                    assert_eq!(fs::read(&path).unwrap(), pattern(i, 100_000));
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

fn run_child(scenario: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(SCENARIO, scenario)
        .output()
        .unwrap();
    assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
}

/// From now on `io_uring_setup` is answered by `EPERM`, as container engines do it.
fn forbid_uring() {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // the call's number
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a valid program, which the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let done = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program, 0, 0);
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }
}

#[test]
fn where_rings_are_forbidden_the_pool_does_it() {
    run_child("seccomp");
}

/// A thread holds more transfers than the ring has places, ended ones, and makes calls that wait.
#[test]
fn transfers_that_are_held_do_not_hold_up_calls() {
    in_a_child("transfers_that_are_held_do_not_hold_up_calls", Duration::from_secs(60), || {
        let runtime = runtime(Mode::Smp, true);
        let folder = folder();
        let path = folder.path().join("file");
        runtime.run(|| {
            let file = fs::File::create(&path).unwrap();
            let held: Vec<_> = (0..4096).map(|i| file.start_write_at(vec![1], i)).collect();
            while !held.iter().all(|transfer| transfer.is_done()) {
                marcel::yield_now();
            }
            file.sync_data().unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), 4096);
            drop(held);
        });
    });
}

#[test]
fn without_descriptors_errors_come_out() {
    run_child("nofile");
}

#[test]
fn descriptors_are_not_leaked() {
    for (which, runtime) in runtimes() {
        let folder = folder();
        let path = folder.path().join("file");
        runtime.run(|| {
            fs::write(&path, "x").unwrap();
            let first = fs::File::open(&path).unwrap().as_raw_fd();
            for _ in 0..500 {
                fs::File::open(&path).unwrap().close().unwrap();
                drop(fs::File::open(&path).unwrap());
            }
            // Other tests open files too: far fewer.
            let last = fs::File::open(&path).unwrap().as_raw_fd();
            assert!(last < first + 400, "{which}: {first} then {last}");
        });
    }
}
