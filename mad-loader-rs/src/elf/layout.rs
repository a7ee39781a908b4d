//! Header and segments of a file.

use super::bytes::Bytes;
use super::segment::{self, Segment};
use crate::refusal::Refusal;

const EXECUTABLE: u16 = 2;
const SHARED: u16 = 3;

/// Most program headers that are read: a linker makes about ten.
const MOST_HEADERS: u16 = 512;

/// Which parts of a file go where in memory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) entry: u64,
    kind: u16,
    /// File range of the program headers.
    pub(crate) headers: (u64, u64),
    segments: Vec<Segment>,
}

impl Layout {
    pub(super) fn read(bytes: Bytes<'_>) -> Result<Layout, Refusal> {
        let headers = bytes.u64(32)?;
        let (size, count) = (bytes.u16(54)?, bytes.u16(56)?);
        let known = u64::from(size) == segment::SIZE || count == 0;
        if !known || count > MOST_HEADERS {
            return Err(Refusal::Damaged(format!(
                "it has {count} program headers of {size} bytes"
            )));
        }
        let mut layout = Layout {
            entry: bytes.u64(24)?,
            kind: bytes.u16(16)?,
            headers: (headers, u64::from(size) * u64::from(count)),
            segments: Vec::new(),
        };
        bytes.at(layout.headers.0, layout.headers.1)?;
        for index in 0..u64::from(count) {
            layout.segments.push(Segment::read(bytes, headers + index * segment::SIZE)?);
        }
        layout.check_order()?;
        layout.check_thread_locals()?;
        Ok(layout)
    }

    /// Segments in ascending order, on pages of their own: of two that share one, the later would hide the other's bytes.
    /// One dynamic section: of two, the dynamic linker may read the other one.
    fn check_order(&self) -> Result<(), Refusal> {
        let mut end = 0;
        for load in self.loads() {
            if load.address < end {
                return Err(Refusal::Damaged("its segments overlap, or are out of order".into()));
            }
            end = (load.address + load.in_memory).next_multiple_of(segment::PAGE);
        }
        if self.segments.iter().filter(|segment| segment.kind == segment::DYNAMIC).count() > 1 {
            return Err(Refusal::Damaged("it has several dynamic sections".into()));
        }
        Ok(())
    }

    /// Initial values that are in the file, and a size that can be allocated.
    fn check_thread_locals(&self) -> Result<(), Refusal> {
        let Some(locals) = self.thread_locals() else { return Ok(()) };
        let alignment = locals.alignment.max(1);
        if !alignment.is_power_of_two()
            || alignment > segment::PAGE
            || locals.in_memory > 1 << 40
            || locals.in_file > locals.in_memory
        {
            return Err(Refusal::Damaged(format!(
                "its thread-locals have {} bytes with {} of initial values, aligned to {alignment}",
                locals.in_memory, locals.in_file
            )));
        }
        // Without initial values the address matters by its alignment only.
        if locals.in_file > 0 {
            self.offset_of(locals.address, locals.in_file)?;
        }
        Ok(())
    }

    pub(super) fn segment(&self, kind: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    /// The parts that are mapped.
    pub(crate) fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == segment::LOAD)
    }

    /// The file offset of what is at an address.
    pub(super) fn offset_of(&self, address: u64, len: u64) -> Result<u64, Refusal> {
        self.loads().find_map(|load| load.offset_of(address, len)).ok_or_else(|| {
            Refusal::Damaged(format!("{len} bytes at address {address:#x} are in no segment"))
        })
    }

    /// The length in memory.
    pub(crate) fn span(&self) -> u64 {
        self.loads().map(|load| load.address + load.in_memory).max().unwrap_or(0)
    }

    pub(crate) fn is_executable_at_fixed_addresses(&self) -> bool {
        self.kind == EXECUTABLE
    }

    pub(crate) fn is_shared_object(&self) -> bool {
        self.kind == SHARED
    }

    /// The segment from which each thread's thread-locals are made.
    pub(crate) fn thread_locals(&self) -> Option<&Segment> {
        self.segment(segment::THREAD_LOCALS).filter(|locals| locals.in_memory > 0)
    }

    pub(crate) fn needs_executable_stack(&self) -> bool {
        self.segment(segment::STACK).is_some_and(Segment::is_executable)
    }
}
