//! Which policy a source gets: `PIOM_POLICY=name[,SOURCE=name…]`.

use std::sync::Arc;

use marcel::plumbing::knob::KnobError;

use crate::knobs;
use crate::progress::policy::contract::Policy;
use crate::progress::policy::named::{NAMES, by_name};

/// Most dedicated kernel threads: more would have nothing to share.
pub(crate) const MOST: usize = 16;

/// How many dedicated kernel threads there are to be, if the user says so, and on which cores (`PIOM_DEDICATED`).
pub(crate) fn dedicated() -> Result<(Option<usize>, Vec<usize>), KnobError> {
    let text = knobs::DEDICATED.text()?;
    let allowed = marcel::topology::allowed_cpus();
    parse_dedicated(&text, &allowed).ok_or_else(|| KnobError {
        name: knobs::DEDICATED.name,
        value: text,
        accepts: format!(
            "a number up to {MOST}, or core:NUMBER[:NUMBER...] of allowed cores, {allowed:?}"
        ),
    })
}

fn parse_dedicated(text: &str, allowed: &[usize]) -> Option<(Option<usize>, Vec<usize>)> {
    let last = || allowed.iter().rev().copied().collect();
    if text.is_empty() {
        return Some((None, last()));
    }
    if let Some(cores) = text.strip_prefix("core:") {
        let cores: Vec<usize> =
            cores.split(':').map(|core| core.trim().parse().ok()).collect::<Option<_>>()?;
        let fits = cores.len() <= MOST && cores.iter().all(|core| allowed.contains(core));
        return fits.then_some((Some(cores.len()), cores));
    }
    let number = text.parse().ok().filter(|number| *number <= MOST)?;
    Some((Some(number), last()))
}

/// The policies of a manager.
pub(crate) struct Selection {
    /// For every source without one of its own.
    pub(crate) default: Arc<dyn Policy>,
    by_source: Vec<(String, Arc<dyn Policy>)>,
}

impl Selection {
    /// The same for every source.
    pub(crate) fn all(policy: Arc<dyn Policy>) -> Selection {
        Selection { default: policy, by_source: Vec::new() }
    }

    /// As the knob says.
    pub(crate) fn from_env() -> Result<Selection, KnobError> {
        let text = knobs::POLICY.text()?;
        Self::parse(&text).ok_or_else(|| KnobError {
            name: knobs::POLICY.name,
            value: text,
            accepts: format!(
                "{} and, after commas, SOURCE=name for single sources",
                NAMES.join("|")
            ),
        })
    }

    fn parse(text: &str) -> Option<Selection> {
        let mut default = None;
        let mut by_source = Vec::new();
        for word in text.split(',').map(str::trim) {
            match word.split_once('=') {
                Some((source, name)) => {
                    by_source.push((source.trim().to_owned(), by_name(name.trim())?));
                }
                None if default.is_none() => default = Some(by_name(word)?),
                None => return None,
            }
        }
        let default = default.or_else(|| by_name(knobs::POLICY.default))?;
        Some(Selection { default, by_source })
    }

    /// The source's.
    pub(crate) fn of(&self, source: &str) -> &Arc<dyn Policy> {
        self.by_source
            .iter()
            .find(|(name, _)| name == source)
            .map_or(&self.default, |(_, policy)| policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dedicated_threads_are_counted_or_named_by_their_cores() {
        let of = |text| parse_dedicated(text, &[0, 2, 5]);
        assert_eq!(of(""), Some((None, vec![5, 2, 0])));
        assert_eq!(of("2"), Some((Some(2), vec![5, 2, 0])));
        assert_eq!(of("core:2"), Some((Some(1), vec![2])));
        assert_eq!(of("core:0:5"), Some((Some(2), vec![0, 5])));
        for wrong in ["-1", "17", "core:", "core:1", "core:0:x", "all"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_source_may_have_another_policy_than_the_process() {
        let of = |text: &str, source: &str| {
            Selection::parse(text).map(|selection| selection.of(source).name().to_owned())
        };
        assert_eq!(of("always-poll", "fd").as_deref(), Some("always-poll"));
        assert_eq!(of("adaptive, fd=always-block", "fd").as_deref(), Some("always-block"));
        assert_eq!(of("adaptive,fd=always-block", "newmad").as_deref(), Some("adaptive"));
        assert_eq!(of("fd=timer-only", "newmad").as_deref(), Some(knobs::POLICY.default));
        for wrong in ["auto", "fd=", "adaptive,always-poll", "adaptive,,", "=always-poll-"] {
            assert_eq!(of(wrong, "fd"), None, "{wrong}");
        }
    }
}
