//! The number of symbols, which the dynamic linker's tables of hashes imply.
//!
//! The dynamic section gives the address of the table of symbols, not its length. Section headers give both, but the
//! dynamic linker does not read them, and a file may have none.

use super::bytes::Bytes;
use super::dynamic::Dynamic;
use super::layout::Layout;
use crate::refusal::Refusal;

/// How many symbols the dynamic linker may find in the file. Zero without a table of hashes: it finds none then.
pub(super) fn count(bytes: Bytes<'_>, layout: &Layout, dynamic: &Dynamic) -> Result<u64, Refusal> {
    // The dynamic linker, too, reads the other one only where this is missing.
    match (dynamic.gnu_hash, dynamic.hash) {
        (Some(table), _) => count_of_gnu(bytes, layout, table),
        (None, Some(table)) => bytes.u32(layout.offset_of(table, 8)? + 4).map(u64::from),
        (None, None) => Ok(0),
    }
}

/// `DT_GNU_HASH`: numbers of buckets, of the first symbol that has a hash, of words of a filter; then the filter, the
/// buckets, and the hashes. A bucket has the number of its first symbol, or 0. The last hash of a bucket is odd.
fn count_of_gnu(bytes: Bytes<'_>, layout: &Layout, table: u64) -> Result<u64, Refusal> {
    let header = layout.offset_of(table, 16)?;
    let [buckets, first, filter] = [0, 4, 8].map(|at| bytes.u32(header + at).map(u64::from));
    let (buckets, first, filter) = (buckets?, first?, filter?);
    let after = |len: u64| {
        table.checked_add(len).ok_or_else(|| {
            Refusal::Damaged("a table of hashes is outside the address space".into())
        })
    };
    let at_buckets = 16 + 8 * filter;
    let start = layout.offset_of(after(at_buckets)?, 4 * buckets)?;
    let mut last = 0;
    for bucket in 0..buckets {
        last = last.max(u64::from(bytes.u32(start + 4 * bucket)?));
    }
    // Symbols without a hash come before the others.
    let Some(mut index) = last.checked_sub(first).filter(|_| last > 0) else { return Ok(first) };
    loop {
        let hash = after(at_buckets + 4 * buckets + 4 * index)?;
        index += 1;
        if bytes.u32(layout.offset_of(hash, 4)?)? & 1 == 1 {
            return Ok(first + index);
        }
    }
}
