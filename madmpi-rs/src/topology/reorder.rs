//! Which process of a communicator has which place of a grid, so that neighbours of the grid are near each other.
//!
//! Processes that share something (a machine, a package, memory, a cache, a process) get a block of the grid: the outermost
//! groups divide the grid into blocks of equal shape, of which the one is taken whose faces are smallest, and each group
//! divides its block among the groups in it. Where groups are unequal, or the grid has no such blocks, the places of a
//! block are filled in order. What comes out is taken only if it is better than the order that there was: fewer neighbours on
//! different machines, or as many of these and fewer in different packages, and so on.
//!
//! Every process computes the same from the same places.

use super::Cart;

/// The levels at which processes are near each other or not: machine, package, NUMA node, outermost cache, core, process.
pub(crate) const LEVELS: usize = 6;

/// Where a process is: at each level the number of what it is in.
pub(crate) type Place = [u64; LEVELS];

/// The process of each place of the grid, by their numbers in `places`; `None`: their order is as good as any that is known.
pub(crate) fn reorder(cart: &Cart, places: &[Place]) -> Option<Vec<u32>> {
    let members: Vec<u32> = (0..places.len() as u32).collect();
    let mut layout = Layout { cart, places, member_at: vec![0; places.len()] };
    let whole = Block { first: vec![0; cart.dims.len()], dims: cart.dims.clone() };
    layout.fill(&whole, members.clone(), 0);
    let better = apart(cart, places, &layout.member_at) < apart(cart, places, &members);
    better.then_some(layout.member_at)
}

/// A part of the grid: the coordinates of its first place, and its extents.
struct Block {
    first: Vec<u32>,
    dims: Vec<u32>,
}

impl Block {
    /// The block with that number, of those with extents `dims` that divide this one.
    fn part(&self, number: u32, dims: &[u32]) -> Block {
        let mut rest = number;
        let mut first = self.first.clone();
        for axis in (0..dims.len()).rev() {
            let count = self.dims[axis] / dims[axis];
            first[axis] += rest % count * dims[axis];
            rest /= count;
        }
        Block { first, dims: dims.to_vec() }
    }
}

struct Layout<'a> {
    cart: &'a Cart,
    places: &'a [Place],
    /// The result, by ranks of the grid.
    member_at: Vec<u32>,
}

impl Layout<'_> {
    /// Gives the places of a block to as many members, which are all in the same things above `level`.
    fn fill(&mut self, block: &Block, members: Vec<u32>, level: usize) {
        if level == LEVELS || members.len() == 1 {
            return self.fill_in_order(block, &members);
        }
        let groups = self.groups(members, level);
        let size = groups[0].len();
        if groups.iter().any(|group| group.len() != size) {
            return self.fill_in_order(block, &groups.concat());
        }
        let Some(dims) = self.best_parts(block, size as u32) else {
            return self.fill_in_order(block, &groups.concat());
        };
        for (number, group) in groups.into_iter().enumerate() {
            self.fill(&block.part(number as u32, &dims), group, level + 1);
        }
    }

    /// The members that are in the same thing at a level, in the order of the first of each.
    fn groups(&self, members: Vec<u32>, level: usize) -> Vec<Vec<u32>> {
        let mut groups: Vec<(u64, Vec<u32>)> = Vec::new();
        for member in members {
            let thing = self.places[member as usize][level];
            match groups.iter_mut().find(|group| group.0 == thing) {
                Some(group) => group.1.push(member),
                None => groups.push((thing, vec![member])),
            }
        }
        groups.into_iter().map(|group| group.1).collect()
    }

    fn fill_in_order(&mut self, block: &Block, members: &[u32]) {
        let single = vec![1; block.dims.len()];
        for (number, &member) in members.iter().enumerate() {
            let at = block.part(number as u32, &single).first;
            let at: Vec<_> = at.into_iter().map(|coordinate| coordinate as i32).collect();
            let rank = self.cart.rank(&at).expect("a place of the grid");
            self.member_at[rank as usize] = member;
        }
    }

    /// The extents of parts of `size` places that divide a block with the fewest neighbours in different parts.
    fn best_parts(&self, block: &Block, size: u32) -> Option<Vec<u32>> {
        let mut best: Option<(u64, Vec<u32>)> = None;
        let mut dims = vec![1; block.dims.len()];
        self.try_parts(block, size, 0, &mut dims, &mut best);
        best.map(|(_, dims)| dims)
    }

    fn try_parts(
        &self,
        block: &Block,
        size: u32,
        axis: usize,
        dims: &mut Vec<u32>,
        best: &mut Option<(u64, Vec<u32>)>,
    ) {
        if axis == dims.len() {
            let faces = self.faces(block, dims);
            if size == 1 && best.as_ref().is_none_or(|best| faces < best.0) {
                *best = Some((faces, dims.clone()));
            }
            return;
        }
        for dim in 1..=block.dims[axis].min(size) {
            if block.dims[axis].is_multiple_of(dim) && size.is_multiple_of(dim) {
                dims[axis] = dim;
                self.try_parts(block, size / dim, axis + 1, dims, best);
            }
        }
        dims[axis] = 1;
    }

    /// How many pairs of neighbours are in different parts.
    fn faces(&self, block: &Block, dims: &[u32]) -> u64 {
        let all = block.dims.iter().map(|&dim| u64::from(dim)).product::<u64>();
        let along = |axis: usize| {
            let parts = block.dims[axis] / dims[axis];
            let closed = self.cart.periods[axis] && block.dims[axis] == self.cart.dims[axis];
            let cuts = if closed && parts > 1 { parts } else { parts - 1 };
            all / u64::from(block.dims[axis]) * u64::from(cuts)
        };
        (0..dims.len()).map(along).sum()
    }
}

/// How many pairs of neighbours are not in the same thing, by levels.
fn apart(cart: &Cart, places: &[Place], member_at: &[u32]) -> [u64; LEVELS] {
    let mut apart = [0; LEVELS];
    for (rank, &member) in member_at.iter().enumerate() {
        for axis in 0..cart.dims.len() {
            let Ok(next) = usize::try_from(cart.shifted(rank as u32, axis, 1)) else { continue };
            let (one, other) = (&places[member as usize], &places[member_at[next] as usize]);
            let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
            apart[same..].iter_mut().for_each(|count| *count += 1);
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Processes in groups of `sizes`, from the outermost level on.
    fn machine(count: u32, sizes: &[u32]) -> Vec<Place> {
        let place = |member: u32| {
            let mut place = [0; LEVELS];
            place.iter_mut().zip(sizes).for_each(|(number, size)| *number = (member / size).into());
            place
        };
        (0..count).map(place).collect()
    }

    fn grid(dims: &[i32], periods: &[i32]) -> Cart {
        Cart::new(dims, periods).ok().unwrap()
    }

    #[test]
    fn four_machines_of_four_get_a_square_each() {
        let (cart, places) = (grid(&[4, 4], &[0, 0]), machine(16, &[4]));
        let order = reorder(&cart, &places).unwrap();
        assert_eq!(order, [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]);
        assert_eq!(apart(&cart, &places, &order)[0], 8);
    }

    #[test]
    fn packages_divide_the_block_of_their_machine() {
        let (cart, places) = (grid(&[4, 8], &[0, 0]), machine(32, &[16, 4]));
        let order = reorder(&cart, &places).unwrap();
        // A machine has 4 x 4 places, a package 2 x 2.
        assert_eq!(apart(&cart, &places, &order)[..2], [4, 4 + 2 * 8]);
    }

    #[test]
    fn an_order_that_is_good_stays() {
        assert_eq!(reorder(&grid(&[4, 2], &[0, 0]), &machine(8, &[4])), None);
        assert_eq!(reorder(&grid(&[8], &[1]), &machine(8, &[2])), None);
        assert_eq!(reorder(&grid(&[], &[]), &machine(1, &[1])), None);
        // A machine has three processes, the other five.
        let mut places = machine(8, &[3]);
        places[6..].iter_mut().for_each(|place| place[0] = 1);
        assert_eq!(reorder(&grid(&[2, 4], &[0, 0]), &places), None);
    }

    #[test]
    fn processes_that_were_dealt_out_are_gathered() {
        // Two machines, dealt to in turns.
        let places: Vec<Place> = (0..8).map(|member| [member % 2, 0, 0, 0, 0, member]).collect();
        let cart = grid(&[8], &[0]);
        let order = reorder(&cart, &places).unwrap();
        assert_eq!(order, [0, 2, 4, 6, 1, 3, 5, 7]);
    }

    proptest! {
        #[test]
        fn each_process_has_one_place_and_no_order_gets_worse(
            dims in proptest::collection::vec((1..6i32, 0..2i32), 0..4),
            numbers in proptest::collection::vec(proptest::array::uniform6(0..3u64), 125),
        ) {
            let (dims, periods): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let cart = grid(&dims, &periods);
            let count = dims.iter().product::<i32>() as usize;
            let places = &numbers[..count];
            let before: Vec<u32> = (0..count as u32).collect();
            if let Some(order) = reorder(&cart, places) {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(&sorted, &before);
                prop_assert!(apart(&cart, places, &order) < apart(&cart, places, &before));
            }
        }
    }
}
