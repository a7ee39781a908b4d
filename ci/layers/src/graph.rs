//! A graph of imports: its circles, and its levels from top to bottom.

use std::collections::{BTreeMap, BTreeSet};

/// Which node imports which.
pub(crate) struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn new(edges: impl Iterator<Item = (String, String)>) -> Self {
        let mut graph = Self { edges: BTreeMap::new() };
        for (from, to) in edges {
            graph.edges.entry(to.clone()).or_default();
            let targets = graph.edges.entry(from.clone()).or_default();
            if from != to {
                targets.insert(to);
            }
        }
        graph
    }

    /// One node for each file. The crate's root is left out: it only says what is public.
    pub(crate) fn of_files(imports: &super::Imports) -> Self {
        Self::new(imports.keys().filter(|(from, to)| !from.is_empty() && !to.is_empty()).cloned())
    }

    /// One node for each child of the module `folder`, with all that is beneath it.
    pub(crate) fn of_parts(imports: &super::Imports, folder: &str) -> Self {
        let part = |module: &str| -> Option<String> {
            let rest = if folder.is_empty() {
                module
            } else {
                module.strip_prefix(folder)?.strip_prefix("::")?
            };
            let first = rest.split("::").next()?;
            (!first.is_empty()).then(|| first.to_owned())
        };
        Self::new(imports.keys().filter_map(|(from, to)| Some((part(from)?, part(to)?))))
    }

    /// The strongly connected components with more than one node (Tarjan's algorithm), sorted.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        self.components().into_iter().filter(|component| component.len() > 1).collect()
    }

    /// Nodes by their height: level 0 imports nothing, the others import lower levels. Top first. The nodes of a circle
    /// share a level.
    pub(crate) fn levels(&self) -> Vec<Vec<String>> {
        let components = self.components();
        let mut height: BTreeMap<&str, usize> = BTreeMap::new();
        for component in &components {
            let below = component
                .iter()
                .flat_map(|node| &self.edges[node])
                .filter(|target| !component.contains(target));
            let level = below.map(|target| height[target.as_str()] + 1).max().unwrap_or(0);
            height.extend(component.iter().map(|node| (node.as_str(), level)));
        }
        let top = height.values().max().map_or(0, |top| top + 1);
        let mut levels = vec![Vec::new(); top];
        for (node, level) in height {
            levels[top - 1 - level].push(node.to_owned());
        }
        levels
    }

    /// The strongly connected components, each after those that it imports.
    fn components(&self) -> Vec<Vec<String>> {
        let mut search = Search {
            graph: self,
            order: BTreeMap::new(),
            low: BTreeMap::new(),
            stack: Vec::new(),
            found: Vec::new(),
        };
        for node in self.edges.keys() {
            if !search.order.contains_key(node.as_str()) {
                search.visit(node);
            }
        }
        search.found
    }
}

struct Search<'a> {
    graph: &'a Graph,
    order: BTreeMap<&'a str, usize>,
    low: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    found: Vec<Vec<String>>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, node: &'a str) {
        let number = self.order.len();
        self.order.insert(node, number);
        self.low.insert(node, number);
        self.stack.push(node);
        for target in &self.graph.edges[node] {
            if !self.order.contains_key(target.as_str()) {
                self.visit(target);
                let reached = self.low[target.as_str()].min(self.low[node]);
                self.low.insert(node, reached);
            } else if self.stack.contains(&target.as_str()) {
                let reached = self.order[target.as_str()].min(self.low[node]);
                self.low.insert(node, reached);
            }
        }
        if self.low[node] == number {
            let at = self
                .stack
                .iter()
                .position(|&other| other == node)
                .expect("the node is on the stack until here");
            let mut component: Vec<String> =
                self.stack.split_off(at).into_iter().map(str::to_owned).collect();
            component.sort();
            self.found.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        Graph::new(edges.iter().map(|&(from, to)| (from.to_owned(), to.to_owned())))
    }

    #[test]
    fn a_circle_is_found_and_a_diamond_is_none() {
        assert!(graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]).circles().is_empty());
        let circles = graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]).circles();
        assert_eq!(circles, [["b", "c"]]);
    }

    #[test]
    fn levels_put_importers_above() {
        let levels = graph(&[("api", "engine"), ("engine", "wire"), ("api", "wire")]).levels();
        assert_eq!(levels, [["api"], ["engine"], ["wire"]]);
    }

    #[test]
    fn parts_gather_what_is_beneath_them() {
        let imports = [("a::x", "b::y"), ("b::z", "a::w")]
            .map(|(from, to)| ((from.to_owned(), to.to_owned()), Vec::new()))
            .into_iter()
            .collect();
        assert!(Graph::of_files(&imports).circles().is_empty());
        assert_eq!(Graph::of_parts(&imports, "").circles(), [["a", "b"]]);
    }
}
