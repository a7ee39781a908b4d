//! The queue of light tasks, for the benches of the root package (feature `bench-internals`): nothing here is promised
//! to any other user.
//!
//! The popper owns the node that it has taken out, so safe code cannot put it into two queues.

use super::queue::{self, LANES};
use super::stack::Bare;

/// What stands for a task, and is in no queue. Immortal, as tasks' blocks are: dropped, it is lost until the process
/// ends.
#[derive(Debug)]
pub struct Node(&'static Bare);

impl Node {
    /// A new one.
    #[allow(clippy::new_without_default, reason = "it is leaked")]
    pub fn new() -> Node {
        Node(Bare::leak(()))
    }
}

/// The queue of a node of the topology.
pub struct Queue(queue::Queue<Bare>);

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue(lanes {:#b})", self.0.occupied())
    }
}

impl Queue {
    /// An empty one.
    #[allow(clippy::new_without_default, reason = "there is nothing to choose, and one user")]
    pub fn new() -> Queue {
        Queue(queue::Queue::new())
    }

    /// Adds a task to a lane (modulo their number).
    #[inline]
    pub fn push(&self, lane: usize, node: Node) {
        self.0.push(lane % LANES, node.0);
    }

    /// The oldest of a lane (modulo their number).
    #[inline]
    pub fn pop(&self, lane: usize) -> Option<Node> {
        self.0.pop(lane % LANES).map(Node)
    }

    /// What a visit looks at first: whether any lane may hold something.
    #[inline]
    pub fn is_occupied(&self) -> bool {
        self.0.occupied() != 0
    }
}
