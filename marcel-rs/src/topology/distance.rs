//! Distances between cores, and the order of stealing that follows from them.

use super::tree::Topology;

impl Topology {
    /// The distance of two cores: 0 for the same core, else the height of their lowest common ancestor.
    ///
    /// The distance is the same in both directions. A core that is not in the tree is at the largest distance from
    /// all others.
    pub fn distance(&self, a: usize, b: usize) -> usize {
        let height = |node: usize| self.height() - self.depth_of(node);
        let (Some(mut a), Some(mut b)) = (self.leaf_of(a), self.leaf_of(b)) else {
            return height(0);
        };
        if a == b {
            return 0;
        }
        while a != b {
            // The deeper node goes up. At equal depth either may, since the other follows.
            let lower = if self.depth_of(a) >= self.depth_of(b) { &mut a } else { &mut b };
            match self.nodes()[*lower].parent {
                Some(parent) => *lower = parent,
                None => break,
            }
        }
        height(a)
    }

    /// The order in which virtual processor `index` steals from the others: the nearest first.
    ///
    /// `core_of_vp` has the core of each. Equally distant ones are in the order of their numbers, from `index` on, so
    /// that thieves do not all start at virtual processor 0.
    pub fn steal_order(&self, core_of_vp: &[usize], index: usize) -> Vec<usize> {
        let n = core_of_vp.len();
        let Some(&own) = core_of_vp.get(index) else { return Vec::new() };
        let mut others: Vec<usize> = (1..n).map(|step| (index + step) % n).collect();
        others.sort_by_cached_key(|&other| self.distance(own, core_of_vp[other]));
        others
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::object::Object;
    use super::super::shape::Shape;
    use super::*;

    fn machine(text: &str) -> Topology {
        Topology::synthetic(&text.parse().unwrap(), &[])
    }

    #[test]
    fn the_nearest_come_first_and_everybody_starts_elsewhere() {
        let topology = machine("numa:2 core:4");
        let vps: Vec<usize> = topology.cores().to_vec();
        assert_eq!(topology.steal_order(&vps, 0), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.steal_order(&vps, 2), [3, 0, 1, 4, 5, 6, 7]);
        assert_eq!(topology.steal_order(&vps, 7), [4, 5, 6, 0, 1, 2, 3]);
        assert_eq!(topology.steal_order(&vps, 8), []);
        assert_eq!(topology.steal_order(&[0], 0), []);
    }

    #[test]
    fn distance_counts_levels_to_the_common_ancestor() {
        let topology = machine("package:2 l3:2 core:2 pu:2");
        let distance = |b| topology.distance(0, b);
        assert_eq!([0, 1, 2, 4, 8, 99].map(distance), [0, 1, 2, 3, 4, 4]);
    }

    /// Any machine: levels in their order, each with a small number.
    fn shapes() -> impl Strategy<Value = Shape> {
        let level = |name: &'static str| prop::option::of((1..4usize).prop_map(move |n| (name, n)));
        let outer = (level("package"), level("numa"), level("l3"), level("l2"), any::<bool>());
        (outer, 1..5usize, level("pu")).prop_map(|((package, numa, l3, l2, swap), cores, pu)| {
            let (first, second) = if swap { (numa, package) } else { (package, numa) };
            let words = [first, second, l3, l2, Some(("core", cores)), pu];
            let words: Vec<String> =
                words.into_iter().flatten().map(|(name, n)| format!("{name}:{n}")).collect();
            words.join(" ").parse().unwrap()
        })
    }

    proptest! {
        #[test]
        fn a_machine_is_read_as_it_is_printed(shape in shapes()) {
            prop_assert_eq!(shape.to_string().parse::<Shape>(), Ok(shape.clone()));
            let topology = Topology::synthetic(&shape, &[]);
            prop_assert_eq!(topology.cores().len(), shape.cores());
            for node in topology.nodes() {
                let object = Object { level: node.level, id: node.id };
                prop_assert_eq!(object.to_string().parse::<Object>().unwrap(), object);
                prop_assert_eq!(&topology.cores_of(object).unwrap(), &node.cpus);
            }
            let mut places = topology.places();
            places.sort_unstable();
            prop_assert_eq!(&places, topology.cores());
        }

        #[test]
        fn no_text_panics(text in "\\PC*", words in "(numa|core|pu|l3|cache|x)(:[0-9]{0,5})?( (core|pu|l2):[0-9]{1,4}){0,3}") {
            let _ = text.parse::<Shape>();
            let _ = text.parse::<Object>();
            let _ = words.parse::<Object>();
            if let Ok(shape) = words.parse::<Shape>() {
                prop_assert_eq!(shape.to_string().parse::<Shape>(), Ok(shape));
            }
        }

        #[test]
        fn everybody_else_is_visited_once_and_never_a_farther_one_before_a_nearer(
            shape in shapes(),
            vps in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        ) {
            let topology = Topology::synthetic(&shape, &[]);
            let cores = topology.cores();
            let vps: Vec<usize> = vps.iter().map(|at| cores[at.index(cores.len())]).collect();
            for index in 0..vps.len() {
                let order = topology.steal_order(&vps, index);
                let far: Vec<usize> =
                    order.iter().map(|&other| topology.distance(vps[index], vps[other])).collect();
                prop_assert!(far.is_sorted(), "{:?}", far);
                let mut all = order.clone();
                all.push(index);
                all.sort_unstable();
                prop_assert_eq!(all, (0..vps.len()).collect::<Vec<_>>());
            }
        }

        #[test]
        fn distance_is_that_of_a_tree(shape in shapes(), at in prop::array::uniform3(any::<prop::sample::Index>())) {
            let topology = Topology::synthetic(&shape, &[]);
            let cores = topology.cores();
            let [a, b, c] = at.map(|at| cores[at.index(cores.len())]);
            prop_assert_eq!(topology.distance(a, b), topology.distance(b, a));
            prop_assert_eq!(topology.distance(a, b) == 0, a == b);
            let detour = topology.distance(a, b).max(topology.distance(b, c));
            prop_assert!(topology.distance(a, c) <= detour);
        }
    }
}
