//! Flat descriptions of layouts: which bytes, in which order, as loops around runs.
//!
//! ```text
//!   vector of 1000 blocks of 3 doubles           { at 0, 1000 times, every stride: run of 24 }
//!   two columns of a matrix, in a structure      { at 0, n times: run of 8 } { at 8 k, n times: run of 8 }
//!   a vector of those                            { at 0, m times, every extent: the list above }
//! ```
//! Runs that touch are joined. Regular runs become a loop, irregular ones of one length a list of places. A loop is
//! never spelled out: a description is as large as what the program has said, not as its data. It is made with the
//! type, and shares the descriptions of its parts.
//!
//! Every run has a *kind*: the row of its basic type. A description for moving bytes joins runs of all kinds
//! ([`MIXED`]); one for conversions and for counting elements keeps kinds apart.
//!
//! Depth: a loop that repeats something at least doubles the bytes, so fewer than 64 loops are nested. Lists that are
//! shared without being repeated nest up to [`DEEPEST`]; deeper ones are copied.

use std::sync::Arc;

/// The kind of runs whose basic types do not matter.
pub(crate) const MIXED: u8 = u8::MAX;
/// Longer lists are shared rather than copied, up to this depth.
const SHORT: usize = 8;
const DEEPEST: usize = 64;
/// So many regular runs become a loop, and so many irregular ones a list of places.
const LOOP: usize = 8;
const SCATTERED: usize = 4;

/// A loop around a run or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its offset in the element.
    at: isize,
    count: usize,
    stride: isize,
    /// Bytes of data of one iteration.
    size: usize,
    body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    /// `size` bytes of basic types of that kind.
    Run(u8),
    /// Runs of one length at irregular places.
    Places(Arc<Places>),
    List(Flat),
}

#[derive(Debug, PartialEq, Eq)]
struct Places {
    at: Box<[isize]>,
    len: usize,
    kind: u8,
}

/// A flat description. It is one pointer, since every irregular run of a type may be a node that has room for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flat(Arc<Inner>);

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    nodes: Box<[Node]>,
    /// Runs in it.
    runs: usize,
    depth: usize,
}

/// A flat description under construction.
#[derive(Default)]
pub(crate) struct List(Vec<Node>);

/// `count` runs of `len` bytes, `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    pub(crate) at: isize,
    pub(crate) count: usize,
    pub(crate) stride: isize,
    pub(crate) len: usize,
    pub(crate) kind: u8,
}

impl Node {
    fn run(at: isize, len: usize, kind: u8) -> Node {
        Node { at, count: 1, stride: 0, size: len, body: Body::Run(kind) }
    }

    /// Its single run, if it is one.
    fn single(&self) -> Option<(isize, usize, u8)> {
        match self.body {
            Body::Run(kind) if self.count == 1 => Some((self.at, self.size, kind)),
            _ => None,
        }
    }

    fn runs(&self) -> usize {
        match &self.body {
            Body::Run(_) => self.count,
            Body::Places(places) => self.count.saturating_mul(places.at.len()),
            Body::List(list) => self.count.saturating_mul(list.0.runs),
        }
    }

    fn depth(&self) -> usize {
        match &self.body {
            Body::Run(_) | Body::Places(_) => 1,
            Body::List(list) => list.0.depth + 1,
        }
    }
}

impl Flat {
    pub(crate) fn empty() -> Flat {
        Flat::of(Vec::new())
    }

    pub(crate) fn run(at: isize, len: usize, kind: u8) -> Flat {
        Flat::of(vec![Node::run(at, len, kind)])
    }

    fn of(nodes: Vec<Node>) -> Flat {
        let runs = nodes.iter().fold(0usize, |sum, node| sum.saturating_add(node.runs()));
        let depth = nodes.iter().map(Node::depth).max().unwrap_or(0);
        Flat(Arc::new(Inner { nodes: nodes.into(), runs, depth }))
    }

    /// The number of runs. Runs that touch across the iterations of a loop count apart.
    pub(crate) fn runs(&self) -> usize {
        self.0.runs
    }

    /// The offset and length of its single run, if it is one.
    pub(crate) fn single(&self) -> Option<(isize, usize)> {
        match &*self.0.nodes {
            [node] => node.single().map(|(at, len, _)| (at, len)),
            _ => None,
        }
    }

    /// Repeats this `count` times (at least once), `stride` apart; it has `size` bytes.
    pub(crate) fn repeat(&self, count: usize, stride: isize, size: usize) -> Flat {
        if count == 1 || self.0.nodes.is_empty() {
            return self.clone();
        }
        let node = match &*self.0.nodes {
            [node] => match node.single() {
                Some((at, len, kind)) if stride == len as isize => Node::run(at, len * count, kind),
                Some(_) => Node { count, stride, ..node.clone() },
                None if node.stride.checked_mul(node.count as isize) == Some(stride) => {
                    Node { count: node.count * count, ..node.clone() }
                }
                None => Node { at: 0, count, stride, size, body: Body::List(self.clone()) },
            },
            _ => Node { at: 0, count, stride, size, body: Body::List(self.clone()) },
        };
        Flat::of(vec![node])
    }

    fn size(&self) -> usize {
        self.0.nodes.iter().map(|node| node.size * node.count).sum()
    }

    /// Shows the strips of `count` elements that are `extent` apart, up to `limit` bytes, in order.
    #[inline]
    pub(crate) fn strips(
        &self,
        count: usize,
        extent: isize,
        limit: usize,
        mut show: impl FnMut(Strip),
    ) {
        let mut left = limit;
        if count == 0 {
            return;
        }
        if let [Node { at, count: 1, size, body: Body::Run(kind), .. }] = *self.0.nodes {
            // Elements of one run are a strip together.
            let node = Node { at, count, stride: extent, size, body: Body::Run(kind) };
            return walk(&node, 0, &mut left, &mut show);
        }
        for element in 0..count {
            if left == 0 {
                break;
            }
            for node in &*self.0.nodes {
                walk(node, extent.wrapping_mul(element as isize), &mut left, &mut show);
            }
        }
    }
}

impl List {
    /// Appends a description, moved by so many bytes. `kinds`: kinds matter.
    pub(crate) fn add(&mut self, by: isize, flat: &Flat, kinds: bool) {
        if flat.0.nodes.len() > SHORT && flat.0.depth < DEEPEST {
            let body = Body::List(flat.clone());
            self.0.push(Node { at: by, count: 1, stride: 0, size: flat.size(), body });
            return;
        }
        for node in &*flat.0.nodes {
            push(&mut self.0, Node { at: node.at.wrapping_add(by), ..node.clone() }, kinds);
        }
    }

    /// The same list without kinds.
    pub(crate) fn mixed(&self) -> List {
        let mut list = List::default();
        for node in &self.0 {
            push(&mut list.0, node.clone(), false);
        }
        list
    }

    pub(crate) fn finish(self) -> Flat {
        // Alone it needs no list around it.
        if let [Node { at, count: 1, body: Body::List(list), .. }] = &self.0[..] {
            if *at == 0 {
                return list.clone();
            }
            let moved = |node: &Node| Node { at: node.at.wrapping_add(*at), ..node.clone() };
            return Flat::of(list.0.nodes.iter().map(moved).collect());
        }
        Flat::of(irregular(regular(self.0)))
    }
}

/// Shows the strips of a node, up to `left` bytes, and subtracts their length.
fn walk(node: &Node, base: isize, left: &mut usize, show: &mut impl FnMut(Strip)) {
    let at = base.wrapping_add(node.at);
    match &node.body {
        Body::Run(kind) => {
            let strip =
                Strip { at, count: node.count, stride: node.stride, len: node.size, kind: *kind };
            // Nearly always everything fits: a division costs more than the copy of a short run.
            let bytes = node.size * node.count;
            if *left >= bytes {
                show(strip);
                *left -= bytes;
                return;
            }
            let whole = *left / node.size;
            if whole > 0 {
                show(Strip { count: whole, ..strip });
                *left -= whole * node.size;
            }
            if *left > 0 {
                let at = at.wrapping_add(node.stride.wrapping_mul(whole as isize));
                show(Strip { at, count: 1, len: *left, ..strip });
                *left = 0;
            }
        }
        Body::Places(places) => {
            let Places { at: all, len, kind } = &**places;
            let strip = Strip { at, count: 1, stride: 0, len: *len, kind: *kind };
            for iteration in 0..node.count {
                let at = at.wrapping_add(node.stride.wrapping_mul(iteration as isize));
                let whole = if *left >= node.size { all.len() } else { *left / len };
                for place in &all[..whole] {
                    show(Strip { at: at.wrapping_add(*place), ..strip });
                }
                *left -= whole * len;
                if whole < all.len() {
                    if *left > 0 {
                        show(Strip { at: at.wrapping_add(all[whole]), len: *left, ..strip });
                        *left = 0;
                    }
                    return;
                }
            }
        }
        Body::List(list) => {
            for iteration in 0..node.count {
                if *left == 0 {
                    return;
                }
                let at = at.wrapping_add(node.stride.wrapping_mul(iteration as isize));
                for node in &*list.0.nodes {
                    walk(node, at, left, show);
                }
            }
        }
    }
}

/// Appends a node; runs that touch become one.
fn push(all: &mut Vec<Node>, mut node: Node, kinds: bool) {
    if let (false, Body::Run(kind)) = (kinds, &mut node.body) {
        *kind = MIXED;
    }
    if let (Some(last), Some((at, len, kind))) = (all.last_mut(), node.single())
        && let Some((before, size, same)) = last.single()
        && before.checked_add(size as isize) == Some(at)
        && same == kind
    {
        last.size += len;
        return;
    }
    all.push(node);
}

/// Makes loops of runs of one length at equal distances, if there are enough: several short loops take longer than a
/// list of places.
fn regular(mut all: Vec<Node>) -> Vec<Node> {
    let (mut kept, mut at) = (0, 0);
    while at < all.len() {
        let alike = alike(&all[at..]);
        let taken = if alike >= LOOP { alike } else { 1 };
        if taken > 1 {
            let stride = all[at + 1].at.wrapping_sub(all[at].at);
            all[at] = Node { count: taken, stride, ..all[at].clone() };
        }
        all.swap(kept, at);
        (kept, at) = (kept + 1, at + taken);
    }
    all.truncate(kept);
    all
}

/// Makes lists of places of other runs of one length, if there are enough.
fn irregular(mut all: Vec<Node>) -> Vec<Node> {
    let (mut kept, mut at) = (0, 0);
    while at < all.len() {
        let mut taken = 1;
        if let Some((_, len, kind)) = all[at].single() {
            let like =
                |node: &&Node| node.single().is_some_and(|run| run.1 == len && run.2 == kind);
            let alike = all[at..].iter().take_while(like).count();
            if alike >= SCATTERED {
                taken = alike;
                let places = all[at..at + taken].iter().map(|node| node.at).collect();
                let body = Body::Places(Arc::new(Places { at: places, len, kind }));
                all[at] = Node { at: 0, count: 1, stride: 0, size: len * taken, body };
            }
        }
        all.swap(kept, at);
        (kept, at) = (kept + 1, at + taken);
    }
    all.truncate(kept);
    all
}

/// The number of nodes at the beginning that are single runs like the first one, as far apart as the first two.
fn alike(nodes: &[Node]) -> usize {
    let (Some((first, len, kind)), Some(second)) = (nodes[0].single(), nodes.get(1)) else {
        return 1;
    };
    let stride = second.at.wrapping_sub(first);
    let fits = |(index, node): (usize, &Node)| {
        let at = first.wrapping_add(stride.wrapping_mul(index as isize));
        node.single() == Some((at, len, kind))
    };
    nodes.iter().enumerate().take_while(|&pair| fits(pair)).count()
}
