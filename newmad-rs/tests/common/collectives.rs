//! Every operation of a group, blocking and not, against what a sequential program says.

use newmad::Error;
use newmad::coll::{Group, Op};

/// What rank `rank` has at `index`.
pub(crate) fn value(rank: usize, index: usize) -> u64 {
    ((rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64).rotate_left(17)
}

pub(crate) fn values(rank: usize, count: usize) -> Vec<u64> {
    (0..count).map(|index| value(rank, index)).collect()
}

/// Composition of affine maps: associative, not commutative.
pub(crate) fn compose(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0].wrapping_mul(b[0]), a[1].wrapping_mul(b[0]).wrapping_add(b[1])]
}

fn pairs(rank: usize, count: usize) -> Vec<[u64; 2]> {
    (0..count).map(|index| [value(rank, index) | 1, value(rank, index + 7)]).collect()
}

/// Elements `index` of ranks `from..to`, composed in order.
fn composed(from: usize, to: usize, count: usize) -> Vec<[u64; 2]> {
    let compose_all = |index: usize| {
        (from..to).map(|rank| pairs(rank, count)[index]).reduce(compose).unwrap_or([0; 2])
    };
    (0..count).map(compose_all).collect()
}

fn summed(size: usize, count: usize) -> Vec<u64> {
    let sum = |index| (0..size).fold(0u64, |sum, rank| sum.wrapping_add(value(rank, index)));
    (0..count).map(sum).collect()
}

/// Calls everything once, with vectors of about that length.
pub(crate) fn all_operations(group: &Group, count: usize, seed: usize) -> Result<(), Error> {
    let (me, size) = (group.rank() as usize, group.size() as usize);
    let root = seed % size;
    let (root32, ranks) = (root as u32, 0..size);
    let (sum, order) = (Op::<u64>::sum(), Op::ordered(compose));
    let counts: Vec<usize> =
        (0..size).map(|rank| (count * (rank + seed) / 3) % (count + 1)).collect();
    let all: Vec<u64> = ranks.clone().flat_map(|rank| values(rank, count)).collect();
    let total: usize = counts.iter().sum();
    let all_v: Vec<u64> = ranks.clone().flat_map(|rank| values(rank, counts[rank])).collect();

    group.barrier().wait()?;
    group.barrier().start()?.wait()?;

    let mut data = if me == root { values(root, count) } else { vec![0; count] };
    group.bcast(root32, &mut data).wait()?;
    assert_eq!(data, values(root, count), "bcast");
    let data = if me == root { values(root, count) } else { vec![0; count] };
    assert_eq!(group.bcast(root32, data).start()?.wait()?, values(root, count), "bcast started");

    let mut data = values(me, count);
    group.reduce(root32, &mut data, &sum).wait()?;
    let expected = if me == root { summed(size, count) } else { values(me, count) };
    assert_eq!(data, expected, "reduce");
    assert_eq!(
        group.reduce(root32, values(me, count), &sum).start()?.wait()?,
        expected,
        "reduce started"
    );

    let mut data = values(me, count);
    group.allreduce(&mut data, &sum).wait()?;
    assert_eq!(data, summed(size, count), "allreduce");
    let small = count.min(300);
    let data = group.allreduce(pairs(me, small), &order).start()?.wait()?;
    assert_eq!(data, composed(0, size, small), "allreduce started in the order of ranks");

    let mut data = pairs(me, small);
    group.scan(&mut data, &order).wait()?;
    assert_eq!(data, composed(0, me + 1, small), "scan");
    let data = group.exclusive_scan(pairs(me, small), &order).start()?.wait()?;
    let expected = if me == 0 { pairs(0, small) } else { composed(0, me, small) };
    assert_eq!(data, expected, "exclusive_scan started");

    let mut into = vec![0; if me == root { size * count } else { 0 }];
    group.gather(root32, &values(me, count), &mut into).wait()?;
    assert!(me != root || into == all, "gather");
    let into = vec![0; if me == root { total } else { 0 }];
    let into = group.gatherv(root32, values(me, counts[me]), into, &counts).start()?.wait()?;
    assert_eq!(into, if me == root { all_v.clone() } else { vec![] }, "gatherv started");

    let from = if me == root { all.clone() } else { vec![] };
    let mut own = vec![0; count];
    group.scatter(root32, &from, &mut own).wait()?;
    assert_eq!(own, values(me, count), "scatter");
    let from = if me == root { all_v.clone() } else { vec![] };
    let own = group.scatterv(root32, from, &counts, vec![0; counts[me]]).start()?.wait()?;
    assert_eq!(own, values(me, counts[me]), "scatterv started");

    let mut into = vec![0; size * count];
    group.allgather(&values(me, count), &mut into).wait()?;
    assert_eq!(into, all, "allgather");
    let into = group.allgatherv(values(me, counts[me]), vec![0; total], &counts).start()?.wait()?;
    assert_eq!(into, all_v, "allgatherv started");

    let part = count / size + 1;
    let expected: Vec<u64> = ranks
        .clone()
        .flat_map(|from| values(from, size * part)[me * part..(me + 1) * part].to_vec())
        .collect();
    let mut into = vec![0; size * part];
    group.alltoall(&values(me, size * part), &mut into).wait()?;
    assert_eq!(into, expected, "alltoall");
    let amount = |from: usize, to: usize| (from * 7 + to * 3 + seed) % 5 * (part % 50);
    let sends: Vec<usize> = ranks.clone().map(|to| amount(me, to)).collect();
    let recvs: Vec<usize> = ranks.clone().map(|from| amount(from, me)).collect();
    let expected: Vec<u64> = ranks
        .clone()
        .flat_map(|from| {
            let before: usize = (0..me).map(|to| amount(from, to)).sum();
            let whole: usize = ranks.clone().map(|to| amount(from, to)).sum();
            values(from, whole)[before..before + amount(from, me)].to_vec()
        })
        .collect();
    let into = vec![0; recvs.iter().sum()];
    let into =
        group.alltoallv(values(me, sends.iter().sum()), &sends, into, &recvs).start()?.wait()?;
    assert_eq!(into, expected, "alltoallv started");

    let before: usize = counts[..me].iter().sum();
    let own = group
        .reduce_scatterv(values(me, total), vec![0; counts[me]], &counts, &sum)
        .start()?
        .wait()?;
    assert_eq!(own, summed(size, total)[before..before + counts[me]], "reduce started_scatterv");
    let mut own = vec![[0; 2]; 5];
    group.reduce_scatter(&pairs(me, 5 * size), &mut own, &order).wait()?;
    assert_eq!(own, composed(0, size, 5 * size)[me * 5..me * 5 + 5], "reduce_scatter");
    Ok(())
}
