//! Whether what can be measured was measured on this machine.

use mad_bench::knobs::choices::{Origin, choices};

use super::finding::Finding;

const CHECK: &str = "measured choices";

/// What sessions would choose by, in short; `mad knobs --explain` says it at length.
pub(super) fn measured() -> Finding {
    let choices = match choices() {
        Ok(choices) => choices,
        Err(error) => {
            let advice =
                "`mad sample` writes a new file; `mad knobs` names what is wrong with a knob";
            return Finding::limited(CHECK, error.to_string(), advice);
        }
    };
    let measurable = choices.iter().filter(|choice| choice.can_be_measured);
    let of = |from: &Origin| match from {
        Origin::User(_) => "set",
        Origin::Cache(_) => "measured",
        Origin::AtOpening => "measured at opening",
        _ => "built in",
    };
    let found: Vec<String> = measurable
        .clone()
        .map(|choice| format!("{} {} ({})", choice.what, choice.value, of(&choice.from)))
        .collect();
    let guessed = measurable.filter(|choice| choice.from == Origin::BuiltIn).count();
    let advice = "built-in figures are those of another machine: `mad sample` measures this one, once; `mad knobs --explain` \
                  says what follows";
    Finding::enough(guessed == 0, CHECK, found.join("; "), advice)
}
