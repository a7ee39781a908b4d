//! The text that describes a synthetic machine: "numa:2 core:4".

use std::fmt;
use std::str::FromStr;

use super::level::Level;

/// Most cores of a synthetic machine: as many as there can be virtual processors.
pub const MOST_CORES: usize = 1024;

/// The format of `MARCEL_TOPOLOGY`, in a sentence.
pub const ACCEPTS: &str = "LEVEL:NUMBER words from the outside in, such as \"numa:2 core:4\": package, numa, \
                           l3 and l2 as wanted, then core, then pu if wanted; at most 1024 cores in all";

/// The shape of a machine in which all objects of a level are alike.
///
/// Levels from the outside in, each with the number of its objects in one object of the level before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<(Level, usize)>);

/// The error of reading a [`Shape`]: the place in the text, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeError {
    /// The word in question, and the character at which it starts (the first is 1); `None` for the end.
    pub word: Option<(usize, String)>,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.word {
            Some((at, word)) => write!(f, "{word:?} at character {at}: {}", self.why),
            None => write!(f, "at the end: {}", self.why),
        }
    }
}

impl std::error::Error for ShapeError {}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (level, count)) in self.0.iter().enumerate() {
            write!(f, "{}{level}:{count}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Shape, ShapeError> {
        let mut levels: Vec<(Level, usize)> = Vec::new();
        let mut cores = 1;
        for (at, word) in words(text) {
            let wrong = |why: String| ShapeError { word: Some((at, word.to_owned())), why };
            let (name, count) = word
                .split_once(':')
                .ok_or_else(|| wrong("no colon between level and number".to_owned()))?;
            let level = name.parse::<Level>().ok().filter(|&level| level != Level::Machine);
            let level = level.ok_or_else(|| wrong(format!("there is no level {name:?}")))?;
            if let Some(outside) = levels.iter().find(|(outer, _)| !may_hold(*outer, level)) {
                return Err(wrong(match outside.0 == level {
                    true => format!("{level} a second time"),
                    false => format!("{level} inside {}", outside.0),
                }));
            }
            if level == Level::Pu && levels.last().is_none_or(|(last, _)| *last != Level::Core) {
                return Err(wrong("pu without a core around it".to_owned()));
            }
            let count =
                count.parse().ok().filter(|n| (1..=MOST_CORES).contains(n)).ok_or_else(|| {
                    wrong(format!("{count:?} is not a number from 1 to {MOST_CORES}"))
                })?;
            cores *= count;
            if cores > MOST_CORES {
                return Err(wrong(format!("that makes {cores} of them, more than {MOST_CORES}")));
            }
            levels.push((level, count));
        }
        if !levels.iter().any(|(level, _)| *level == Level::Core) {
            return Err(ShapeError { word: None, why: "no core:NUMBER".to_owned() });
        }
        Ok(Shape(levels))
    }
}

/// Whether `outer` may hold `inner`. On real machines packages hold NUMA nodes, or NUMA nodes packages.
fn may_hold(outer: Level, inner: Level) -> bool {
    let any_order = |level| level < Level::Core;
    match (outer, inner) {
        (Level::Cache(outer), Level::Cache(inner)) => outer < inner,
        (outer, inner) if outer == inner => false,
        (outer, inner) => any_order(outer) && any_order(inner) || outer < inner,
    }
}

/// The words of a text, each with the number of its first character, from 1.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(|word| {
        let offset = word.as_ptr() as usize - text.as_ptr() as usize;
        (text[..offset].chars().count() + 1, word)
    })
}

impl Shape {
    /// The levels from the outside in, each with the number of its objects in one object of the level before.
    pub fn levels(&self) -> &[(Level, usize)] {
        &self.0
    }

    /// Number of places for virtual processors.
    pub fn cores(&self) -> usize {
        self.0.iter().map(|(_, count)| count).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().unwrap()
    }

    #[test]
    fn wrong_text_says_where_and_why() {
        for (text, at, why) in [
            ("numa:2 cor:4", Some(8), "cor"),
            ("numa:2 core", Some(8), "colon"),
            ("core:x", Some(1), "\"x\""),
            ("core:0", Some(1), "1 to 1024"),
            ("core:-1", Some(1), "1 to 1024"),
            ("core:1025", Some(1), "1 to 1024"),
            ("core:99999999999999999999999", Some(1), "1 to 1024"),
            ("numa:1024 core:2", Some(11), "2048"),
            ("core:4 numa:2", Some(8), "numa inside core"),
            ("l2:2 l3:2 core:1", Some(6), "l3 inside l2"),
            ("numa:2 numa:2 core:1", Some(8), "second time"),
            ("pu:2", Some(1), "without a core"),
            ("  machine:1", Some(3), "machine"),
            ("numa:2", None, "core:"),
            ("", None, "core:"),
            ("é:1 core:2", Some(1), "é"),
            ("core:2 é", Some(8), "colon"),
        ] {
            let error = text.parse::<Shape>().unwrap_err();
            assert_eq!(error.word.as_ref().map(|(at, _)| *at), at, "{text}: {error}");
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn packages_and_nodes_hold_each_other() {
        for text in ["package:2 numa:2 core:1", "numa:2 package:2 core:1", "l3:2 numa:2 core:1"] {
            assert_eq!(shape(text).to_string(), text);
        }
        assert_eq!(shape(" cache:2\tcore:1 ").to_string(), "l3:2 core:1");
    }
}
