//! Knobs: the environment variables that tune the library, declared in one table per crate.
//!
//! A knob is declared once, as a [`Knob`] in its crate's `KNOBS` table, and read through it; `mad knobs`
//! prints the tables, so the documentation cannot drift from the code. A value that does not parse is an
//! error that names the knob, the value and what would be accepted: never a silent default.

use std::fmt;

use crate::topology::synthetic;

/// What values a knob accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `1`/`0`, `true`/`false`, `yes`/`no`, `on`/`off`.
    Bool,
    /// An integer between the two bounds, both included.
    Int(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A comma-separated subset of these words; `none` is the empty set.
    Set(&'static [&'static str]),
    /// A synthetic machine: see [`crate::topology::synthetic`].
    Topology,
    /// Any text.
    Text,
}

/// One environment variable: its name, what it accepts, its default, its unit and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Accepted values.
    pub kind: Kind,
    /// Value when the variable is unset; written as a user would write it. Empty: decided at run time.
    pub default: &'static str,
    /// Unit of the value, or the empty string.
    pub unit: &'static str,
    /// One sentence on what it does.
    pub meaning: &'static str,
}

/// A knob whose value is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobError {
    /// Name of the knob.
    pub name: &'static str,
    /// The value that was found.
    pub value: String,
    /// What would have been accepted.
    pub accepts: String,
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}={:?} is not acceptable: it takes {} (`mad knobs` lists every knob)",
            self.name, self.value, self.accepts
        )
    }
}

impl std::error::Error for KnobError {}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => f.write_str("1|0"),
            Kind::Int(lo, hi) => write!(f, "an integer from {lo} to {hi}"),
            Kind::Word(words) => f.write_str(&words.join("|")),
            Kind::Set(words) => write!(f, "a comma-separated list of {}, or none", words.join("|")),
            Kind::Topology => f.write_str(synthetic::ACCEPTS),
            Kind::Text => f.write_str("text"),
        }
    }
}

impl Knob {
    /// The variable's value, or `None` when it is unset or empty.
    ///
    /// # Errors
    /// When it is not valid UTF-8.
    pub fn raw(&self) -> Result<Option<String>, KnobError> {
        match std::env::var(self.name) {
            Ok(value) if value.trim().is_empty() => Ok(None),
            Ok(value) => Ok(Some(value.trim().to_owned())),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(value)) => Err(self.error(&value.to_string_lossy())),
        }
    }

    /// The text in force: the variable's value if it is set and acceptable, else the default.
    ///
    /// # Errors
    /// When the variable holds something that the knob does not accept.
    pub fn text(&self) -> Result<String, KnobError> {
        match self.raw()? {
            Some(value) => self.check(&value).map(|()| value),
            None => Ok(self.default.to_owned()),
        }
    }

    /// The knob as an integer; `None` when it is unset and its default is decided at run time.
    ///
    /// # Errors
    /// As [`Knob::text`].
    pub fn int(&self) -> Result<Option<i64>, KnobError> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| self.error(&text))
    }

    /// The knob as a truth value.
    ///
    /// # Errors
    /// As [`Knob::text`].
    pub fn bool(&self) -> Result<bool, KnobError> {
        let text = self.text()?;
        parse_bool(&text).ok_or_else(|| self.error(&text))
    }

    /// The knob as a set of words; the empty vector for `none`.
    ///
    /// # Errors
    /// As [`Knob::text`].
    pub fn set(&self) -> Result<Vec<String>, KnobError> {
        let text = self.text()?;
        if text == "none" || text.is_empty() {
            return Ok(Vec::new());
        }
        Ok(text.split(',').map(|word| word.trim().to_owned()).collect())
    }

    /// Whether `value` is acceptable.
    ///
    /// # Errors
    /// When it is not; the error names the knob and what it accepts.
    pub fn check(&self, value: &str) -> Result<(), KnobError> {
        let fits = match self.kind {
            Kind::Bool => parse_bool(value).is_some(),
            Kind::Int(lo, hi) => value.parse::<i64>().is_ok_and(|v| (lo..=hi).contains(&v)),
            Kind::Word(words) => words.contains(&value),
            Kind::Set(words) => {
                value == "none" || value.split(',').all(|word| words.contains(&word.trim()))
            }
            Kind::Topology => {
                let shape = value.parse::<synthetic::Shape>();
                return shape.map(drop).map_err(|why| self.error_at(value, &why));
            }
            Kind::Text => true,
        };
        if fits { Ok(()) } else { Err(self.error(value)) }
    }

    /// The error that also says where in the value something is wrong.
    pub(crate) fn error_at(&self, value: &str, place: &dyn fmt::Display) -> KnobError {
        KnobError { accepts: format!("{}; {place}", self.kind), ..self.error(value) }
    }

    fn error(&self, value: &str) -> KnobError {
        KnobError { name: self.name, value: value.to_owned(), accepts: self.kind.to_string() }
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Knob = Knob {
        name: "MAD_TEST_PERIOD",
        kind: Kind::Int(1, 10),
        default: "4",
        unit: "µs",
        meaning: "a test",
    };

    #[test]
    fn wrong_values_name_the_knob_and_what_it_takes() {
        let error = PERIOD.check("eleven").unwrap_err();
        assert_eq!(error.name, "MAD_TEST_PERIOD");
        assert!(error.to_string().contains("an integer from 1 to 10"), "{error}");
        assert!(PERIOD.check("11").is_err());
        assert!(PERIOD.check("0").is_err());
        assert!(PERIOD.check("10").is_ok());
    }

    #[test]
    fn unset_gives_the_default() {
        assert_eq!(PERIOD.int().unwrap(), Some(4));
    }

    #[test]
    fn sets_are_checked_word_by_word() {
        let knob = Knob { kind: Kind::Set(&["idle", "tick"]), ..PERIOD };
        assert!(knob.check("idle, tick").is_ok());
        assert!(knob.check("none").is_ok());
        assert!(knob.check("idle,tock").is_err());
    }
}
