//! The points at which events are looked for.

use std::fmt;

/// Where the manager looks for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// An idle virtual processor.
    Idle,
    /// A context switch.
    Switch,
    /// The tick of a busy virtual processor.
    Tick,
    /// The background watcher, which blocks.
    Block,
    /// A wait.
    Wait,
    /// A call into a library, such as a test.
    Library,
    /// A dedicated kernel thread.
    Dedicated,
    /// A signal by which a peer has interrupted a busy virtual processor.
    Interrupt,
}

impl Point {
    /// All points, in the order of their counters.
    pub const ALL: [Point; 8] = [
        Point::Idle,
        Point::Switch,
        Point::Tick,
        Point::Block,
        Point::Wait,
        Point::Library,
        Point::Dedicated,
        Point::Interrupt,
    ];
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Point::Idle => "idle",
            Point::Switch => "switch",
            Point::Tick => "tick",
            Point::Block => "block",
            Point::Wait => "wait",
            Point::Library => "library",
            Point::Dedicated => "dedicated",
            Point::Interrupt => "interrupt",
        })
    }
}

/// Which of the switchable points are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Points {
    /// Idle virtual processors poll.
    pub idle: bool,
    /// Context switches poll.
    pub switch: bool,
    /// Ticks poll.
    pub tick: bool,
    /// The background watcher and pool threads block on behalf of requests.
    pub block: bool,
    /// Peers interrupt busy virtual processors, where the policy wants that and the source can. Only with ticks, whose
    /// handler it is.
    pub interrupt: bool,
}

impl Points {
    /// Every point.
    pub const ALL: Points =
        Points { idle: true, switch: true, tick: true, block: true, interrupt: true };
    /// None: progress only inside calls.
    pub const NONE: Points =
        Points { idle: false, switch: false, tick: false, block: false, interrupt: false };
}
