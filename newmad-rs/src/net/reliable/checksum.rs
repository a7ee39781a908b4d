//! Checksums of packets.

use crate::memory::span::Span;
use crate::wire::{Header, LONG};

/// The checksum of a packet: of its header as it is sent, and of its payload.
pub(crate) fn checksum(header: &Header, parts: &[Span]) -> u32 {
    let mut raw = [0; LONG];
    header.encode(&mut raw);
    let mut sum = crc32fast::Hasher::new();
    sum.update(&raw[..header.kind.header_len()]);
    for part in parts {
        // SAFETY: a span is readable, and over the rails that have checksums it is the sender's buffer, which stays as
        // it is, or memory of this process.
        sum.update(unsafe { core::slice::from_raw_parts(part.as_ptr(), part.len()) });
    }
    sum.finalize()
}
