//! Random types against an oracle that spells out type maps: lists of (displacement, basic type).

use proptest::collection::vec;
use proptest::prelude::*;

use super::construct::{blocks, extents, vector};
use super::named as basic;
use super::rows::ROWS;
use super::shape::Shape;
use super::shape::{Envelope, Join};
use super::*;

/// Ints at these places.
pub(crate) fn of_ints(places: &[isize]) -> Arc<Datatype> {
    let int = basic::get(MPI_INT).unwrap().shape().clone();
    let shape = blocks(Envelope::by(0, false), &int, places.iter().map(|&at| Ok((1, at))));
    Arc::new(Datatype::new(shape.ok().unwrap(), true, None))
}

/// How a type is made.
#[derive(Clone, Debug)]
enum Plan {
    Basic(usize),
    Dup(Box<Plan>),
    Contiguous(u8, Box<Plan>),
    Vector(u8, u8, i8, Box<Plan>),
    Hvector(u8, u8, i8, Box<Plan>),
    Indexed(Vec<(u8, i8)>, Box<Plan>),
    Hindexed(Vec<(u8, i8)>, Box<Plan>),
    IndexedBlock(u8, Vec<i8>, Box<Plan>),
    Struct(Vec<(u8, i8, Plan)>),
    Resized(i8, i8, Box<Plan>),
}

fn plan() -> impl Strategy<Value = Plan> {
    let leaf = (0..ROWS.len()).prop_map(Plan::Basic);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let old = || inner.clone().prop_map(Box::new);
        let few = || 0u8..4;
        let pairs = || vec((few(), -6i8..12), 0..6);
        prop_oneof![
            old().prop_map(Plan::Dup),
            (few(), old()).prop_map(|(n, old)| Plan::Contiguous(n, old)),
            (few(), few(), -3i8..6, old())
                .prop_map(|(n, len, by, old)| Plan::Vector(n, len, by, old)),
            (few(), few(), -40i8..80, old())
                .prop_map(|(n, len, by, old)| Plan::Hvector(n, len, by, old)),
            (pairs(), old()).prop_map(|(all, old)| Plan::Indexed(all, old)),
            (pairs(), old()).prop_map(|(all, old)| Plan::Hindexed(all, old)),
            (few(), vec(-9i8..15, 0..16), old())
                .prop_map(|(len, all, old)| Plan::IndexedBlock(len, all, old)),
            vec((few(), -60i8..120, inner.clone()), 0..4).prop_map(Plan::Struct),
            (-20i8..20, -30i8..60, old())
                .prop_map(|(lb, extent, old)| Plan::Resized(lb, extent, old)),
        ]
    })
}

/// With the library.
fn make(plan: &Plan) -> Arc<Shape> {
    let by = || Envelope::by(0, false);
    let shape = match plan {
        Plan::Basic(row) => return basic::get(ROWS[*row].handle).unwrap().shape().clone(),
        Plan::Dup(old) => Shape::new(by(), make(old).part.clone()),
        Plan::Contiguous(n, old) => Shape::new(by(), make(old).block((*n).into()).ok().unwrap()),
        Plan::Vector(n, len, stride, old) => {
            let old = make(old);
            let stride = extents((*stride).into(), &old).ok().unwrap();
            vector(by(), &old, (*n).into(), (*len).into(), stride)
        }
        Plan::Hvector(n, len, stride, old) => {
            vector(by(), &make(old), (*n).into(), (*len).into(), (*stride).into())
        }
        Plan::Indexed(all, old) => {
            let old = make(old);
            let pairs = all.iter().map(|&(len, at)| Ok((len.into(), extents(at.into(), &old)?)));
            blocks(by(), &old, pairs)
        }
        Plan::Hindexed(all, old) => {
            blocks(by(), &make(old), all.iter().map(|&(len, at)| Ok((len.into(), at.into()))))
        }
        Plan::IndexedBlock(len, all, old) => {
            let old = make(old);
            let pairs = all.iter().map(|&at| Ok(((*len).into(), extents(at.into(), &old)?)));
            blocks(by(), &old, pairs)
        }
        Plan::Struct(all) => {
            let mut join = Join::default();
            for (len, at, old) in all {
                let part = make(old).block((*len).into()).ok().unwrap();
                assert!(join.add((*at).into(), &part).is_ok());
            }
            Shape::new(by(), join.finish())
        }
        Plan::Resized(lb, extent, old) => {
            let part = make(old).part.clone().marked((*lb).into(), (*extent).into());
            Shape::new(by(), part.ok().unwrap())
        }
    };
    shape.ok().unwrap()
}

/// A type, spelled out.
#[derive(Clone, Default, Debug)]
struct Map {
    /// Displacement, bytes and alignment of every basic element.
    data: Vec<(isize, usize, usize)>,
    lower: Vec<isize>,
    upper: Vec<isize>,
    /// Bounds of the types that it is made of.
    padded: Vec<(isize, isize)>,
}

impl Map {
    fn of(plan: &Plan) -> Map {
        let mut map = Map::default();
        match plan {
            Plan::Basic(row) => match ROWS[*row].basic {
                Basic::Pair(value) => {
                    let size = |handle| ROWS.iter().find(|row| row.handle == handle).unwrap().size;
                    let (one, two) = value.pair();
                    map.data.push((0, size(one), size(one)));
                    map.data.push((size(one).max(size(two)) as isize, size(two), size(two)));
                }
                _ => map.data.push((0, ROWS[*row].size, ROWS[*row].align)),
            },
            Plan::Dup(old) => map = Map::of(old),
            Plan::Contiguous(n, old) => map.block(&Map::of(old), 0, *n),
            Plan::Vector(n, len, stride, old) => {
                let old = Map::of(old);
                let stride = isize::from(*stride) * old.extent();
                (0..*n).for_each(|i| map.block(&old, isize::from(i) * stride, *len));
            }
            Plan::Hvector(n, len, stride, old) => {
                let old = Map::of(old);
                (0..*n).for_each(|i| map.block(&old, isize::from(i) * isize::from(*stride), *len));
            }
            Plan::Indexed(all, old) => {
                let old = Map::of(old);
                all.iter()
                    .for_each(|&(len, at)| map.block(&old, isize::from(at) * old.extent(), len));
            }
            Plan::Hindexed(all, old) => {
                let old = Map::of(old);
                all.iter().for_each(|&(len, at)| map.block(&old, at.into(), len));
            }
            Plan::IndexedBlock(len, all, old) => {
                let old = Map::of(old);
                all.iter().for_each(|&at| map.block(&old, isize::from(at) * old.extent(), *len));
            }
            Plan::Struct(all) => {
                all.iter().for_each(|(len, at, old)| map.block(&Map::of(old), (*at).into(), *len));
            }
            Plan::Resized(lb, extent, old) => {
                map.data = Map::of(old).data;
                map.lower.push((*lb).into());
                map.upper.push(isize::from(*lb) + isize::from(*extent));
            }
        }
        map
    }

    fn block(&mut self, old: &Map, at: isize, len: u8) {
        for i in 0..isize::from(len) {
            let by = at + i * old.extent();
            self.data.extend(old.data.iter().map(|&(at, size, align)| (at + by, size, align)));
            self.lower.extend(old.lower.iter().map(|at| at + by));
            self.upper.extend(old.upper.iter().map(|at| at + by));
            if !old.data.is_empty() {
                self.padded.push((old.lb() + by, old.lb() + old.extent() + by));
            }
        }
    }

    fn true_bounds(&self) -> (isize, isize) {
        let low = self.data.iter().map(|entry| entry.0).min().unwrap_or(0);
        (low, self.data.iter().map(|entry| entry.0 + entry.1 as isize).max().unwrap_or(0))
    }

    fn lb(&self) -> isize {
        let low = self.padded.iter().map(|bounds| bounds.0).min();
        self.lower.iter().min().copied().unwrap_or(low.unwrap_or(self.true_bounds().0))
    }

    fn extent(&self) -> isize {
        match self.upper.iter().max() {
            Some(upper) => upper - self.lb(),
            None => {
                let align = self.data.iter().map(|entry| entry.2).max().unwrap_or(1);
                let high = self.padded.iter().map(|bounds| bounds.1).max();
                let high = high.unwrap_or(self.true_bounds().1);
                ((high - self.lb()) as usize).next_multiple_of(align) as isize
            }
        }
    }

    /// Displacements of the bytes of so many elements, in their order.
    fn bytes(&self, count: usize) -> Vec<isize> {
        let mut all = Vec::new();
        for i in 0..count as isize {
            for &(at, size, _) in &self.data {
                all.extend((0..size as isize).map(|byte| i * self.extent() + at + byte));
            }
        }
        all
    }
}

/// Memory around an address, filled with different bytes.
struct Room {
    memory: Vec<u8>,
    low: isize,
}

impl Room {
    fn around(places: &[isize], seed: usize) -> Room {
        let low = places.iter().min().copied().unwrap_or(0);
        let high = places.iter().max().map_or(0, |high| high + 1);
        let bytes = (0..(high - low) as usize).map(|at| (at * 31 + at / 7 + seed) as u8);
        Room { memory: bytes.collect(), low }
    }

    /// The address that displacements count from.
    fn base(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_offset(-self.low)
    }

    fn at(&mut self, place: isize) -> &mut u8 {
        &mut self.memory[(place - self.low) as usize]
    }
}

/// The data of a message, seen as newmad does.
fn seen(data: &Data) -> Vec<u8> {
    let slice = |at: *const u8, len: usize| match len {
        0 => Vec::new(),
        // SAFETY: of a room that lives.
        _ => unsafe { std::slice::from_raw_parts(at, len) }.to_vec(),
    };
    match data.memory() {
        newmad::raw::Memory::Whole(at, len) => slice(at, len),
        newmad::raw::Memory::Pieces { list, count, .. } => (0..count)
            // SAFETY: inside the list.
            .map(|index| unsafe { *list.add(index) })
            .flat_map(|piece| slice(piece.iov_base.cast(), piece.iov_len))
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_type_is_its_type_map(plan in plan(), count in 0usize..4) {
        let (shape, map) = (make(&plan), Map::of(&plan));
        prop_assume!(map.data.len() < 3000);
        prop_assert_eq!(shape.part.true_bounds(), map.true_bounds());
        prop_assert_eq!(shape.lb, map.lb());
        prop_assert_eq!(shape.extent, map.extent());
        let places = map.bytes(count);
        let datatype = Datatype::new(shape, true, None);
        prop_assert_eq!(datatype.size * count, places.len());

        // Where the bytes are, and between which.
        let mut room = Room::around(&places, 0);
        let expected: Vec<u8> = places.iter().map(|&at| *room.at(at)).collect();
        let mut packed = vec![0; places.len()];
        // SAFETY: the room has all the bytes of the elements.
        unsafe { datatype.pack(room.base(), count, packed.as_mut_ptr()) };
        prop_assert_eq!(&packed, &expected);
        if let (Some(low), Some(high)) = (places.iter().min(), places.iter().max()) {
            prop_assert_eq!(datatype.span(count), (*low, (high - low + 1) as usize));
        }
        // SAFETY: as above.
        let data = unsafe { Data::outgoing(room.base().cast(), count as i64, &datatype) };
        let data = data.ok().unwrap();
        prop_assert_eq!(data.len(), expected.len());
        prop_assert_eq!(seen(&data), expected);
    }

    #[test]
    fn what_is_unpacked_is_what_came(plan in plan(), count in 1usize..4, part in 0.0f64..=1.0) {
        let map = Map::of(&plan);
        prop_assume!(map.data.len() < 3000);
        let datatype = Datatype::new(make(&plan), true, None);
        let places = map.bytes(count);
        let came = (places.len() as f64 * part) as usize;
        let packed: Vec<u8> = (0..came).map(|at| (at * 13 + 5) as u8).collect();
        let mut expected = Room::around(&places, 1);
        for (&place, &byte) in places.iter().zip(&packed) {
            *expected.at(place) = byte;
        }
        let mut room = Room::around(&places, 1);
        // SAFETY: the room has all the bytes of the elements.
        unsafe { datatype.unpack(packed.as_ptr(), came, room.base(), count) };
        prop_assert_eq!(&room.memory, &expected.memory);
    }

    #[test]
    fn elements_are_counted(plan in plan(), bytes in 0usize..4000) {
        let map = Map::of(&plan);
        prop_assume!(map.data.len() < 3000);
        let datatype = Datatype::new(make(&plan), true, None);
        let sizes: Vec<usize> = map.data.iter().map(|entry| entry.1).collect();
        if sizes.is_empty() {
            prop_assert_eq!(datatype.elements(bytes), (bytes == 0).then_some(0));
            return Ok(());
        }
        let (mut left, mut count) = (bytes, 0);
        for size in sizes.iter().cycle() {
            if left < *size {
                break;
            }
            left -= size;
            count += 1;
        }
        prop_assert_eq!(datatype.elements(bytes), (left == 0).then_some(count));
        prop_assert_eq!(datatype.bytes(count), Some(bytes - left));
    }
}

#[test]
fn a_description_is_as_large_as_what_was_said() {
    let double = basic::get(MPI_DOUBLE).unwrap().shape().clone();
    let made = || Envelope::by(0, false);
    // A vector of a million blocks, a vector of those, and an indexed type that is regular.
    let column = vector(made(), &double, 1_000_000, 1, 800).ok().unwrap();
    let columns = vector(made(), &column, 1_000_000, 1, 8).ok().unwrap();
    assert_eq!(columns.part.size, 8_000_000_000_000);
    let regular = blocks(made(), &double, (0..1000).map(|at| Ok((2, at * 48)))).ok().unwrap();
    for shape in [&column, &columns, &regular] {
        assert!(format!("{:?}", shape.part.flat).len() < 600, "{:?}", shape.part.flat);
    }
    // Contiguous ones are one run, however they are nested.
    let mut nested = double;
    for _ in 0..20 {
        nested = vector(made(), &nested, 2, 1, nested.extent).ok().unwrap();
    }
    assert_eq!(nested.part.flat.single(), Some((0, 8 << 20)));
}

#[test]
fn what_no_memory_holds_is_refused() {
    let double = basic::get(MPI_DOUBLE).unwrap().shape().clone();
    let made = || Envelope::by(0, false);
    assert!(vector(made(), &double, i64::MAX, 1, 8).is_err());
    assert!(vector(made(), &double, 1 << 40, 1, 1 << 40).is_err());
    assert!(vector(made(), &double, 3, -1, 8).is_err());
    assert!(extents(i64::MAX, &double).is_err());
    let far = [(1, isize::MIN), (1, isize::MAX - 8)];
    assert!(blocks(made(), &double, far.into_iter().map(Ok)).is_err());
    assert!(double.part.clone().marked(isize::MAX, 1).is_err());
}

#[test]
fn deep_trees_are_dropped() {
    let mut shape = basic::get(MPI_INT).unwrap().shape().clone();
    for _ in 0..200_000 {
        shape = Shape::new(Envelope::by(0, false).of(&shape), shape.part.clone()).ok().unwrap();
    }
    drop(shape);
}

#[test]
fn buffers_and_counts_are_checked() {
    let int = basic::get(MPI_INT).unwrap();
    let null = std::ptr::null();
    let class = |result: Result<Data, Fault>| result.err().map(|fault| fault.class);
    assert_eq!(class(Data::of(null, 1, int)), Some(MPI_ERR_BUFFER));
    assert_eq!(class(Data::of(null, 0, int)), None);
    assert_eq!(class(Data::of(null, -1, int)), Some(MPI_ERR_COUNT));
    assert_eq!(class(Data::of(null, i64::MAX, int)), Some(MPI_ERR_COUNT));
    let mut value = 7;
    let address = (&raw mut value) as isize;
    let shape =
        blocks(Envelope::by(0, false), int.shape(), [Ok((1, address))].into_iter()).ok().unwrap();
    let fresh = Datatype::new(shape.clone(), false, None);
    assert_eq!(class(Data::of(null, 1, &fresh)), Some(MPI_ERR_TYPE));
    let absolute = Datatype::new(shape, true, None);
    let data = Data::of(null, 1, &absolute).ok().unwrap();
    assert_eq!(seen(&data), 7i32.to_ne_bytes());
}

#[test]
fn a_freed_type_has_a_handle_while_it_is_needed() {
    let kept = of_ints(&[0, 8]);
    let handle = with_handle(&kept, |handle| {
        assert_eq!(get(handle).ok().unwrap().size, 8);
        handle
    });
    assert!(get(handle).is_err());
    let int = basic::get(MPI_INT).unwrap();
    assert_eq!(with_handle(int, |handle| handle), MPI_INT);
}
