//! Files that tests make from others, and keep: what a test compiled is compiled again only when what it is made of has
//! changed, so that a suite that runs many times spends its time on what it tests.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// What a file is made of. The order counts.
#[derive(Default)]
pub struct Inputs(DefaultHasher);

impl Inputs {
    /// Words of a command, and the like.
    pub fn words(mut self, words: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        words.into_iter().for_each(|word| word.as_ref().hash(&mut self.0));
        self
    }

    /// A file, by its name and what is in it. One that does not exist counts as that: a command is found by its name.
    pub fn file(mut self, file: &Path) -> Self {
        (file, std::fs::read(file).ok()).hash(&mut self.0);
        self
    }

    /// A large file, by when it was written.
    pub fn built(mut self, file: &Path) -> Self {
        let about = std::fs::metadata(file).ok();
        (file, about.map(|about| (about.len(), about.modified().ok()))).hash(&mut self.0);
        self
    }

    /// The files of a folder, with one of these extensions if there are any, and of the folders in it.
    pub fn folder(self, folder: &Path, extensions: &[&str]) -> Self {
        let entries = std::fs::read_dir(folder).expect("a folder of sources");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths.into_iter().fold(self, |inputs, path| {
            let extension = path.extension().unwrap_or_default().to_string_lossy();
            match () {
                () if path.is_dir() => inputs.folder(&path, extensions),
                () if extensions.is_empty() || extensions.contains(&&*extension) => {
                    inputs.file(&path)
                }
                () => inputs,
            }
        })
    }

    /// Calls `make` unless what is at `place` was made of the same. Tests that want the same at once wait for each other: what one
    /// of them runs is not replaced by what another one makes.
    pub fn make(self, place: &Path, make: impl FnOnce()) {
        let mut lock = place.as_os_str().to_owned();
        lock.push(".lock");
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
        let lock = std::fs::File::create(lock).expect("a lock's file");
        lock.lock().expect("a lock");
        let mut stamp = place.as_os_str().to_owned();
        stamp.push(".made-of");
        let stamp = Path::new(&stamp);
        let inputs = self.0.finish().to_string();
        let kept = std::fs::read_to_string(stamp).is_ok_and(|earlier| earlier == inputs);
        if !(kept && place.exists()) {
            // A `make` that fails half-way, or is interrupted, leaves nothing that counts as made.
            let _ = std::fs::remove_file(stamp);
            make();
            std::fs::write(stamp, inputs).expect("a stamp");
        }
    }
}
