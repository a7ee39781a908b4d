//! Packing: `cargo bench --bench pack`.
//!
//! madmpi's datatypes: `MPI_Pack` and `MPI_Unpack` of 64 KiB that lie in blocks, regular ones (a vector) and
//! irregular ones (indexed), beside `memcpy` of as many bytes, which is the least that any of them can take, and
//! beside the loop that a program would write for that layout. A column of a matrix is one block of 8 bytes per row.
//!
//! newmad's packs: a message of several pieces to oneself and taken apart again, beside one plain message of the same
//! bytes.

use core::ffi::c_int;
use std::hint::black_box;
use std::ptr::null_mut;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use madmpi as _; // the functions below are its
use marcel::Mode;
use pioman::Manager;

const SELF: usize = 0x102;
const BYTE: usize = 0x247;
const BYTES: usize = 64 * 1024;
const COLUMN: usize = 8 * 1024;

unsafe extern "C" {
    safe fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut u8) -> c_int;
    safe fn MPI_Finalize() -> c_int;
    safe fn MPI_Type_vector(
        count: c_int,
        block: c_int,
        stride: c_int,
        old: usize,
        new: &mut usize,
    ) -> c_int;
    fn MPI_Type_create_indexed_block(
        count: c_int,
        block: c_int,
        places: *const c_int,
        old: usize,
        new: &mut usize,
    ) -> c_int;
    safe fn MPI_Type_commit(datatype: &mut usize) -> c_int;
    safe fn MPI_Type_free(datatype: &mut usize) -> c_int;
    fn MPI_Pack(
        from: *const u8,
        count: c_int,
        datatype: usize,
        to: *mut u8,
        room: c_int,
        at: &mut c_int,
        comm: usize,
    ) -> c_int;
    fn MPI_Unpack(
        from: *const u8,
        room: c_int,
        at: &mut c_int,
        to: *mut u8,
        count: c_int,
        datatype: usize,
        comm: usize,
    ) -> c_int;
}

/// Blocks of one length in memory, and the datatype that says so.
struct Layout {
    block: usize,
    places: Vec<usize>,
    datatype: usize,
}

impl Layout {
    fn vector(bytes: usize, block: usize, stride: usize) -> Layout {
        let (count, mut datatype) = (bytes / block, 0);
        let lengths = [count, block, stride].map(|length| length as c_int);
        let code = MPI_Type_vector(lengths[0], lengths[1], lengths[2], BYTE, &mut datatype);
        assert_eq!((code, MPI_Type_commit(&mut datatype)), (0, 0));
        Layout { block, places: (0..count).map(|i| i * stride).collect(), datatype }
    }

    /// Gaps of one to three blocks.
    fn indexed(bytes: usize, block: usize) -> Layout {
        let mut next = 0;
        let place = |i: usize| {
            let place = next;
            next += block * (2 + (i * 7919 / 13) % 3);
            place
        };
        let places: Vec<usize> = (0..bytes / block).map(place).collect();
        let mut datatype = 0;
        let list: Vec<c_int> = places.iter().map(|&place| place as c_int).collect();
        let (count, length) = (list.len() as c_int, block as c_int);
        // SAFETY: so many places are in the list.
        let code = unsafe {
            MPI_Type_create_indexed_block(count, length, list.as_ptr(), BYTE, &mut datatype)
        };
        assert_eq!((code, MPI_Type_commit(&mut datatype)), (0, 0));
        Layout { block, places, datatype }
    }

    fn size(&self) -> usize {
        self.block * self.places.len()
    }

    /// Bytes of memory from the first block to the end of the last.
    fn span(&self) -> usize {
        self.places.last().map_or(0, |last| last + self.block)
    }

    fn pack(&self, from: &[u8], to: &mut [u8]) {
        assert!(from.len() >= self.span());
        let mut at = 0;
        // SAFETY: both are as long as the type says, and told so.
        let code = unsafe {
            let (from, room) = (from.as_ptr(), to.len() as c_int);
            MPI_Pack(from, 1, self.datatype, to.as_mut_ptr(), room, &mut at, SELF)
        };
        assert_eq!((code, at as usize), (0, self.size()));
    }

    fn unpack(&self, from: &[u8], to: &mut [u8]) {
        assert!(to.len() >= self.span());
        let mut at = 0;
        // SAFETY: both are as long as the type says, and told so.
        let code = unsafe {
            let (from, room, to) = (from.as_ptr(), from.len() as c_int, to.as_mut_ptr());
            MPI_Unpack(from, room, &mut at, to, 1, self.datatype, SELF)
        };
        assert_eq!((code, at as usize), (0, self.size()));
    }

    /// What a program would write.
    fn gather(&self, from: &[u8], to: &mut [u8]) {
        for (&place, to) in self.places.iter().zip(to.chunks_exact_mut(self.block)) {
            to.copy_from_slice(&from[place..place + self.block]);
        }
    }

    /// The same, the other way.
    fn scatter(&self, from: &[u8], to: &mut [u8]) {
        for (&place, from) in self.places.iter().zip(from.chunks_exact(self.block)) {
            to[place..place + self.block].copy_from_slice(from);
        }
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        MPI_Type_free(&mut self.datatype);
    }
}

fn datatypes(c: &mut Criterion) {
    assert_eq!(MPI_Init(null_mut(), null_mut()), 0);
    let mut group = c.benchmark_group("pack: datatypes");
    group.throughput(Throughput::Bytes(BYTES as u64));
    let (from, mut to) = (vec![3u8; BYTES], vec![0u8; BYTES]);
    group.bench_function("memcpy", |b| {
        b.iter(|| black_box(&mut to[..]).copy_from_slice(black_box(&from)));
    });
    for block in [8, 32, 64, 512, 4096] {
        both_ways(&mut group, "vector", Layout::vector(BYTES, block, 2 * block));
        both_ways(&mut group, "indexed", Layout::indexed(BYTES, block));
    }
    group.throughput(Throughput::Bytes(COLUMN as u64));
    both_ways(&mut group, "column of 1024 rows of 8 KiB", Layout::vector(COLUMN, 8, 8192));
    group.finish();
    assert_eq!(MPI_Finalize(), 0);
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn both_ways(group: &mut Group, name: &str, layout: Layout) {
    let block = layout.block;
    let memory: Vec<u8> = (0..layout.span()).map(|i| (i % 251) as u8).collect();
    let (mut packed, mut back) = (vec![0; layout.size()], vec![0; layout.span()]);
    let mut bench = |what: &str, pass: &mut dyn FnMut()| {
        group.bench_function(BenchmarkId::new(format!("{name}, {what}"), block), |b| {
            b.iter(&mut *pass);
        });
    };
    bench("gathered by hand", &mut || layout.gather(black_box(&memory), black_box(&mut packed)));
    let expected = packed.clone();
    packed.fill(0);
    bench("packed", &mut || layout.pack(black_box(&memory), black_box(&mut packed)));
    assert_eq!(packed, expected);
    bench("scattered by hand", &mut || layout.scatter(black_box(&packed), black_box(&mut back)));
    let expected = back.clone();
    back.fill(0);
    bench("unpacked", &mut || layout.unpack(black_box(&packed), black_box(&mut back)));
    assert_eq!(back, expected);
}

/// So many express pieces of 8 bytes, to oneself and back, by one kernel thread.
fn packs(c: &mut Criterion) {
    let manager = Manager::builder().mode(Mode::NoThread).build().expect("a manager");
    let session = newmad::Session::builder().manager(manager).open().expect("a session of one");
    let mut group = c.benchmark_group("pack: newmad, pieces of 8 bytes to oneself and back");
    for pieces in [1, 10, 100] {
        group.throughput(Throughput::Bytes(8 * pieces as u64));
        let data = vec![5u8; 8 * pieces];
        let mut copy = vec![0u8; data.len()];
        let mut packed = || -> Result<(), newmad::Error> {
            let mut message = session.pack(0, 1)?;
            for piece in data.chunks(8) {
                message.express(piece);
            }
            message.end()?;
            let mut message = session.unpack(0, 1)?;
            for piece in copy.chunks_mut(8) {
                message.express(piece)?;
            }
            message.end().map(drop)
        };
        group.bench_function(BenchmarkId::new("packed", pieces), |b| {
            b.iter(|| packed().expect("it arrives"));
        });
        assert_eq!(copy, data);
        group.bench_function(BenchmarkId::new("one plain message", pieces), |b| {
            b.iter(|| {
                session.send(0, 1, &data).expect("it leaves");
                let status = session.recv(0, 1, &mut copy).expect("it arrives");
                assert_eq!(status.len, 8 * pieces);
            });
        });
        assert_eq!(copy, data);
    }
    group.finish();
    session.close().expect("a session that can end");
}

criterion_group!(benches, datatypes, packs);
criterion_main!(benches);
