//! Knobs: the environment variables that tune the libraries.
//!
//! Each crate declares its knobs as [`Knob`]s in a table `KNOBS` and reads the variables through them. `mad knobs`
//! prints the tables, so the documentation cannot drift from the code. A value that does not parse is an
//! error that names the knob, the value and the accepted values, never a silent default. A variable that has a crate's
//! prefix and is no knob is probably misspelt: [`warn_of_unknown`] says so, once.

use std::fmt;
use std::sync::Mutex;

use strsim::normalized_damerau_levenshtein as similarity;

use crate::os::stderr::to_stderr;

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

/// A variable of the environment that looks like a knob and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Name of the variable.
    pub name: String,
    /// The knob with the most similar name, if one is similar.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the environment is ignored: no knob has this name", self.name)?;
        match self.nearest {
            Some(nearest) => write!(f, "; is {nearest} meant? (`mad knobs` lists every knob)"),
            None => f.write_str(" (`mad knobs` lists every knob)"),
        }
    }
}

/// Variable by which a process tells its children which unknown names it has warned of: names, separated by commas.
pub const WARNED: &str = "MAD_WARNED";

/// Similarity of two names without their prefixes, from 0 to 1, from which on one may be meant by the other.
const SIMILAR: f64 = 0.6;

/// The name without its prefix.
fn base(name: &str) -> &str {
    name.split_once('_').map_or(name, |(_, base)| base)
}

/// The variables of the environment that begin with one of `prefixes` and are neither knobs of `tables` nor named in
/// `others`, sorted by name. Names that contain `_TEST_` belong to tests.
pub fn unknown(prefixes: &[&str], tables: &[&[Knob]], others: &[&str]) -> Vec<Unknown> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown_of(names, prefixes, tables, others)
}

fn unknown_of(
    names: impl Iterator<Item = String>,
    prefixes: &[&str],
    tables: &[&[Knob]],
    others: &[&str],
) -> Vec<Unknown> {
    let knobs = || tables.iter().copied().flatten().map(|knob| knob.name);
    let mut found: Vec<Unknown> = names
        .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| name != WARNED && !name.contains("_TEST_"))
        .filter(|name| !others.contains(&name.as_str()) && !knobs().any(|knob| knob == name))
        .map(|name| {
            let nearest = knobs()
                .filter(|knob| similarity(base(&name), base(knob)) >= SIMILAR)
                .max_by(|a, b| similarity(&name, a).total_cmp(&similarity(&name, b)));
            Unknown { name, nearest }
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Warns on standard error of what [`unknown`] finds. A name is warned of once in a process, and not in processes that
/// inherit it in [`WARNED`]. The names that were found, warned of now or before.
pub fn warn_of_unknown(prefixes: &[&str], tables: &[&[Knob]], others: &[&str]) -> Vec<String> {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let found = unknown(prefixes, tables, others);
    if found.is_empty() {
        return Vec::new();
    }
    let inherited = std::env::var(WARNED).unwrap_or_default();
    let mut told = TOLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for unknown in &found {
        if inherited.split(',').any(|name| name == unknown.name) || told.contains(&unknown.name) {
            continue;
        }
        to_stderr(|out| writeln!(out, "warning: {unknown}"));
        told.push(unknown.name.clone());
    }
    found.into_iter().map(|unknown| unknown.name).collect()
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
    fn a_misspelt_name_is_found_with_the_nearest_knob() {
        let of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned());
            unknown_of(names, &["MAD_"], &[&[PERIOD]], &["MAD_JOB"])
        };
        assert_eq!(of(&["MAD_JOB", "MAD_WARNED", "MAD_TEST_PERIOD", "MAD_TEST_X", "HOME"]), []);
        let (far, near) = ("MAD_Q".to_owned(), "MAD_TETS_PERIODS".to_owned());
        let wanted = [
            Unknown { name: far, nearest: None },
            Unknown { name: near, nearest: Some("MAD_TEST_PERIOD") },
        ];
        assert_eq!(of(&["MAD_TETS_PERIODS", "MAD_Q"]), wanted);
    }

    #[test]
    fn sets_are_checked_word_by_word() {
        let knob = Knob { kind: Kind::Set(&["idle", "tick"]), ..PERIOD };
        assert!(knob.check("idle, tick").is_ok());
        assert!(knob.check("none").is_ok());
        assert!(knob.check("idle,tock").is_err());
    }
}
