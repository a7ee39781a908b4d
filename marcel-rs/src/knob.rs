//! Knobs: the environment variables that tune the libraries.
//!
//! Each crate declares its knobs as [`Knob`]s in a table `KNOBS` and reads the variables through them. `mad knobs`
//! prints the tables, so the documentation cannot drift from the code. A value that does not parse is an
//! error that names the knob, the value and the accepted values, never a silent default.

use std::fmt;

/// The values that a knob accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `1`/`0`, `true`/`false`, `yes`/`no`, `on`/`off`.
    Bool,
    /// An integer between the two bounds, both included.
    Int(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A comma-separated subset of these words; `none` is the empty set.
    Set(&'static [&'static str]),
    /// Text in a format of its own.
    Format {
        /// The format, in a sentence.
        accepts: &'static str,
        /// Says where a text deviates from the format, and how.
        check: fn(&str) -> Result<(), String>,
    },
    /// Any text.
    Text,
}

/// One environment variable: its name, accepted values, default, unit and meaning.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Accepted values.
    pub kind: Kind,
    /// Value when the variable is unset, as a user would write it. Empty: decided at run time.
    pub default: &'static str,
    /// Unit of the value, or the empty string.
    pub unit: &'static str,
    /// What the knob does, in one sentence.
    pub meaning: &'static str,
}

/// The error for a variable whose value its knob does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobError {
    /// Name of the knob.
    pub name: &'static str,
    /// The variable's value.
    pub value: String,
    /// The accepted values, in a sentence.
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
            Kind::Format { accepts, .. } => f.write_str(accepts),
            Kind::Text => f.write_str("text"),
        }
    }
}

impl Knob {
    /// The variable's value, or `None` when it is unset or empty.
    ///
    /// # Errors
    /// The value is not valid UTF-8.
    pub fn raw(&self) -> Result<Option<String>, KnobError> {
        match std::env::var(self.name) {
            Ok(value) if value.trim().is_empty() => Ok(None),
            Ok(value) => Ok(Some(value.trim().to_owned())),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(value)) => Err(self.error(&value.to_string_lossy())),
        }
    }

    /// The text in force: the variable's value if it is set, else the default.
    ///
    /// # Errors
    /// The knob does not accept the variable's value.
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

    /// Checks that the knob accepts `value`.
    ///
    /// # Errors
    /// The knob does not accept `value`; the error names the knob and what it accepts.
    pub fn check(&self, value: &str) -> Result<(), KnobError> {
        let fits = match self.kind {
            Kind::Bool => parse_bool(value).is_some(),
            Kind::Int(lo, hi) => value.parse::<i64>().is_ok_and(|v| (lo..=hi).contains(&v)),
            Kind::Word(words) => words.contains(&value),
            Kind::Set(words) => {
                value == "none" || value.split(',').all(|word| words.contains(&word.trim()))
            }
            Kind::Format { check, .. } => {
                return check(value).map_err(|why| {
                    let accepts = format!("{}; {why}", self.kind);
                    KnobError { accepts, ..self.error(value) }
                });
            }
            Kind::Text => true,
        };
        if fits { Ok(()) } else { Err(self.error(value)) }
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
