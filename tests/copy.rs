//! The example that copies files: what it copies is equal, and what it cannot copy it explains.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{err, example, out};
use proptest::prelude::*;

/// A folder of this test's, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("mad-copy-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path, args: &[String], env: &[(&str, &str)]) -> Output {
    Command::new(example("copy"))
        .args(args)
        .args([from, to])
        .env_remove("MARCEL_NVP")
        .env_remove("MARCEL_MODE")
        .env_remove("PIOM_URING")
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn copies_are_equal(
        size in prop_oneof![Just(0usize), 1usize..100, 4000usize..70_000, 1_000_000usize..3_000_000],
        seed in any::<u64>(),
        block in prop_oneof![1000u64..5000, Just(4096u64), 100_000u64..2_000_000],
        threads in 1u64..40,
        ring in any::<bool>(),
        mode in prop_oneof![Just("no-thread"), Just("mono"), Just("smp")],
        before in 0usize..10_000,
    ) {
        let folder = Folder::new("equal");
        let (from, to) = (folder.at("from"), folder.at("to"));
        let word = |i: usize| (i as u64).wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let data: Vec<u8> = (0..size).map(|i| word(i) as u8).collect();
        fs::write(&from, &data).unwrap();
        fs::set_permissions(&from, PermissionsExt::from_mode(0o640)).unwrap();
        fs::write(&to, vec![1; before]).unwrap();
        let args = ["--block".into(), block.to_string(), "--threads".into(), threads.to_string(), "--sync".into()];
        let env = [("PIOM_URING", if ring { "1" } else { "0" }), ("MARCEL_MODE", mode)];
        let output = copy(&from, &to, &args, &env);
        prop_assert!(output.status.success(), "{}", err(&output));
        prop_assert!(out(&output).starts_with(&format!("{size} bytes")), "{}", out(&output));
        prop_assert!(fs::read(&to).unwrap() == data, "the copy differs");
        prop_assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

#[test]
fn failures_name_file_and_cause() {
    let folder = Folder::new("failures");
    let from = folder.at("from");
    fs::write(&from, vec![7; 1 << 20]).unwrap();
    for ring in ["0", "1"] {
        let fails = |from: &Path, to: &Path, words: &[&str]| {
            let output = copy(from, to, &[], &[("PIOM_URING", ring)]);
            assert_eq!(output.status.code(), Some(1), "{}", out(&output));
            let said = err(&output);
            assert!(
                words.iter().all(|word| said.contains(word)) && said.lines().count() == 1,
                "{said}"
            );
        };
        fails(&from, Path::new("/dev/full"), &["write /dev/full", "No space left on device"]);
        fails(&folder.at("nobody"), &folder.at("to"), &["open", "nobody", "No such file"]);
        assert!(!folder.at("to").exists());
        fails(&from, &folder.at("no/folder"), &["create", "no/folder", "No such file"]);
        fails(&from, &from, &["are the same file"]);
        fails(&folder.0, &folder.at("to"), &["is not a regular file"]);
        assert_eq!(fs::read(&from).unwrap(), vec![7; 1 << 20]);
    }
    let output = copy(&from, &folder.at("to"), &["--threads".into(), "0".into()], &[]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn into_a_folder_and_quietly() {
    let folder = Folder::new("folder");
    fs::write(folder.at("file"), "text").unwrap();
    fs::create_dir(folder.at("below")).unwrap();
    let output = copy(&folder.at("file"), &folder.at("below"), &["--quiet".into()], &[]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!(fs::read(folder.at("below/file")).unwrap(), b"text");
}
