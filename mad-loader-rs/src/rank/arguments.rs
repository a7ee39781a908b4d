//! What a program finds on its stack when it starts.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

const AT_NULL: usize = 0;
const AT_PHDR: usize = 3;
const AT_PHNUM: usize = 5;
const AT_BASE: usize = 7;
const AT_ENTRY: usize = 9;
const AT_EXECFN: usize = 31;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The words, with the arguments that they point to.
#[derive(Debug)]
pub(super) struct Arguments {
    #[expect(dead_code, reason = "`words` points into them")]
    texts: Vec<CString>,
    pub(super) words: Vec<usize>,
}

/// The entries of the auxiliary vector that belong to the program.
pub(super) struct Own {
    pub(super) headers: usize,
    pub(super) count: usize,
    pub(super) entry: usize,
    pub(super) path: *const c_char,
}

impl Arguments {
    /// The words for a program that is called with `texts`.
    pub(super) fn new(texts: Vec<CString>, own: &Own) -> Arguments {
        let mut words = vec![texts.len()];
        words.extend(texts.iter().map(|text| text.as_ptr() as usize));
        words.push(0);
        // SAFETY: the C library's array of pointers, with a null at its end. Another thread that changes the
        // environment at this moment would race with every reader.
        unsafe {
            let mut at = environ;
            while !at.is_null() && !(*at).is_null() {
                words.push(*at as usize);
                at = at.add(1);
            }
        }
        words.push(0);
        for (kind, value) in auxiliary() {
            let value = match *kind {
                AT_PHDR => own.headers,
                AT_PHNUM => own.count,
                AT_ENTRY => own.entry,
                AT_EXECFN => own.path as usize,
                AT_BASE => 0,
                _ => *value,
            };
            words.extend([*kind, value]);
        }
        words.extend([AT_NULL, 0]);
        Arguments { texts, words }
    }
}

/// The process's own auxiliary vector.
fn auxiliary() -> &'static [(usize, usize)] {
    static VECTOR: OnceLock<Vec<(usize, usize)>> = OnceLock::new();
    VECTOR.get_or_init(|| {
        let bytes = std::fs::read("/proc/self/auxv").unwrap_or_default();
        let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let pairs = bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
        pairs.take_while(|(kind, _)| *kind != AT_NULL).collect()
    })
}
