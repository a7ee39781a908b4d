//! Flat descriptions of layouts: which bytes, in which order, as loops around runs.
//!
//! ```text
//!   vector of 1000 blocks of 3 doubles           { at 0, 1000 times, every stride: run of 24 }
//!   two columns of a matrix, in a structure      { at 0, n times: run of 8 } { at 8 k, n times: run of 8 }
//!   a vector of those                            { at 0, m times, every extent: the list above }
//! ```
//! Runs that touch are one, regular ones become a loop, and a loop is never spelled out: a description is as large as what
//! the program has said, not as its data. It is made with the type, from those of its parts, which it shares.
//!
//! Every run has a *kind*: the row of its basic type. A description for moving bytes joins runs whatever their kinds
//! ([`MIXED`]); one for conversions and for counting elements keeps them apart.
//!
//! Depth: a loop that repeats something doubles the bytes at least, so there are fewer than 64 of them around each other;
//! lists that are shared without being repeated stop at [`DEEPEST`], from where on they are copied.

use std::sync::Arc;

/// The kind of runs whose basic types do not matter.
pub(crate) const MIXED: u8 = u8::MAX;
/// Lists that are longer are shared rather than copied, up to this depth.
const SHORT: usize = 8;
const DEEPEST: usize = 64;

/// A loop around a run or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Where it begins, from the beginning of the element.
    at: isize,
    count: usize,
    stride: isize,
    /// Bytes of data of one iteration.
    size: usize,
    body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    /// That many bytes (of `size`), of basic types of that kind.
    Run(u8),
    List(Flat),
}

/// A flat description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flat {
    nodes: Arc<[Node]>,
    /// Runs that it says.
    runs: usize,
    depth: usize,
}

/// A flat description that is being made of several.
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

    /// The single run that it is.
    fn single(&self) -> Option<(isize, usize, u8)> {
        match self.body {
            Body::Run(kind) if self.count == 1 => Some((self.at, self.size, kind)),
            _ => None,
        }
    }

    fn runs(&self) -> usize {
        match &self.body {
            Body::Run(_) => self.count,
            Body::List(list) => self.count.saturating_mul(list.runs),
        }
    }

    fn depth(&self) -> usize {
        match &self.body {
            Body::Run(_) => 1,
            Body::List(list) => list.depth + 1,
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
        Flat { nodes: nodes.into(), runs, depth }
    }

    /// How many runs it says. Two that touch across the iterations of a loop count as two.
    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    /// The single run that it is: where, and how long.
    pub(crate) fn single(&self) -> Option<(isize, usize)> {
        match &*self.nodes {
            [node] => node.single().map(|(at, len, _)| (at, len)),
            _ => None,
        }
    }

    /// This, `count` times (at least once), `stride` apart; `size` are its bytes.
    pub(crate) fn repeat(&self, count: usize, stride: isize, size: usize) -> Flat {
        if count == 1 || self.nodes.is_empty() {
            return self.clone();
        }
        let node = match &*self.nodes {
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
        self.nodes.iter().map(|node| node.size * node.count).sum()
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
        if let [Node { at, count: 1, size, body: Body::Run(kind), .. }] = *self.nodes {
            // Elements of one run are a strip together.
            let node = Node { at, count, stride: extent, size, body: Body::Run(kind) };
            return walk(&node, 0, &mut left, &mut show);
        }
        for element in 0..count {
            if left == 0 {
                break;
            }
            for node in &*self.nodes {
                walk(node, extent.wrapping_mul(element as isize), &mut left, &mut show);
            }
        }
    }
}

impl List {
    /// Appends one, moved by so many bytes. `kinds`: they matter.
    pub(crate) fn add(&mut self, by: isize, flat: &Flat, kinds: bool) {
        if flat.nodes.len() > SHORT && flat.depth < DEEPEST {
            let body = Body::List(flat.clone());
            self.0.push(Node { at: by, count: 1, stride: 0, size: flat.size(), body });
            return;
        }
        for node in &*flat.nodes {
            push(&mut self.0, Node { at: node.at.wrapping_add(by), ..node.clone() }, kinds);
        }
    }

    /// The same, without kinds.
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
            return Flat::of(list.nodes.iter().map(moved).collect());
        }
        Flat::of(regular(self.0))
    }
}

/// Shows the strips of a node, up to `left` bytes, which it takes off.
fn walk(node: &Node, base: isize, left: &mut usize, show: &mut impl FnMut(Strip)) {
    let at = base.wrapping_add(node.at);
    match &node.body {
        Body::Run(kind) => {
            let strip =
                Strip { at, count: node.count, stride: node.stride, len: node.size, kind: *kind };
            let whole = (*left / node.size).min(node.count);
            if whole > 0 {
                show(Strip { count: whole, ..strip });
                *left -= whole * node.size;
            }
            if whole < node.count && *left > 0 {
                let at = at.wrapping_add(node.stride.wrapping_mul(whole as isize));
                show(Strip { at, count: 1, len: *left, ..strip });
                *left = 0;
            }
        }
        Body::List(list) => {
            for iteration in 0..node.count {
                if *left == 0 {
                    return;
                }
                let at = at.wrapping_add(node.stride.wrapping_mul(iteration as isize));
                for node in &*list.nodes {
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

/// Runs of one length at equal distances become a loop, if there are three of them or more.
fn regular(all: Vec<Node>) -> Vec<Node> {
    if all.len() < 3 {
        return all;
    }
    let mut out: Vec<Node> = Vec::with_capacity(all.len());
    let mut rest = &all[..];
    while let [first, ..] = rest {
        let alike = alike(rest);
        let taken = if alike >= 3 { alike } else { 1 };
        let stride = if taken > 1 { rest[1].at.wrapping_sub(first.at) } else { first.stride };
        let count = if taken > 1 { taken } else { first.count };
        out.push(Node { count, stride, ..first.clone() });
        rest = &rest[taken..];
    }
    out.shrink_to_fit();
    out
}

/// How many of the first nodes are single runs like the first one, as far apart as the first two.
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
