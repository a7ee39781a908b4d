//! `mad knobs`: every knob of the three crates, its value in force and where that comes from.

use clap::Args;
use marcel::plumbing::knob::Knob;
use serde_json::json;

use mad_bench::knobs as names;
use mad_bench::knobs::choices::{Choice, choices};
use mad_bench::out::{self, Exit, Outcome};

/// What `--oversubscribed` sets, where the user has not set it: one compute virtual processor per process. (Not waits that
/// sleep at once: a wait that polls gives its core to others that want it, which is faster than to be woken.)
pub(crate) const OVERSUBSCRIBED: [(&str, &str); 1] = [("MARCEL_NVP", "1")];

/// Options of `mad knobs`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad knobs
  PIOM_TIMER_PERIOD=1000 mad knobs --json
  mad knobs --markdown > knobs.md
  PIOM_POLICY=adaptive mad knobs --explain

Exit status: 1 when a variable of the environment holds a value that its knob does not accept, or has a knob's prefix
(MARCEL_, PIOM_, NMAD_, MAD_) but no knob's name.")]
pub(crate) struct KnobsArgs {
    /// One JSON object per knob and line
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// A Markdown table of names, values and meanings: the documentation is made of it
    #[arg(long)]
    markdown: bool,
    /// What is chosen by measurement with these knobs, and why: how messages move, with the value, where it comes from and
    /// the figures behind it; then how events would be looked for, with what a wake-up by the kernel costs now
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    explain: bool,
}

/// Where a value comes from, and the value; or what is wrong with it.
fn in_force(knob: &Knob) -> (&'static str, Result<String, String>) {
    match knob.raw() {
        Ok(None) => ("default", Ok(knob.default.to_owned())),
        _ => ("environment", knob.text().map_err(|e| e.to_string())),
    }
}

/// What a manager with these knobs would do. A running program says it of its own by `pioman::Manager::explain`.
fn explain() -> Outcome {
    let manager = pioman::Manager::builder().build().map_err(|e| Exit::Failed(e.to_string()))?;
    let measured = manager.measure_wake_up();
    measured.map_err(|e| Exit::Failed(format!("measuring a wake-up by the kernel: {e}")))?;
    let choices = choices().map_err(|e| Exit::Failed(e.to_string()))?;
    let mut table = out::table(&["chosen", "value", "from", "why"]);
    for Choice { what, value, from, why, .. } in &choices {
        table.add_row([what, value, &from.to_string(), why]);
    }
    out::print(&table.trim_fmt())?;
    out::print(&format!("\n{}", manager.explain()))
}

/// Prints the table.
pub(crate) fn run(args: &KnobsArgs) -> Outcome {
    if args.explain {
        return explain();
    }
    let mut wrong = Vec::new();
    // The command has warned of each.
    let unknown: Vec<String> = names::unknown().into_iter().map(|unknown| unknown.name).collect();
    if !unknown.is_empty() {
        wrong.push(format!("no knobs, but set in the environment: {}", unknown.join(", ")));
    }
    let mut text = String::new();
    let mut table = out::table(&["knob", "value", "from", "accepts", "meaning"]);
    if args.markdown {
        text.push_str("| knob | default | unit | accepts | meaning |\n|---|---|---|---|---|\n");
    }
    for (krate, knob) in names::all() {
        let (from, value) = in_force(knob);
        if let Err(why) = &value {
            wrong.push(why.clone());
        }
        let meaning = knob.meaning.split_whitespace().collect::<Vec<_>>().join(" ");
        let accepts = knob.kind.to_string();
        if args.json {
            let object = json!({
                "crate": krate, "knob": knob.name, "value": value.as_ref().ok(),
                "from": from, "default": knob.default, "unit": knob.unit, "accepts": accepts,
                "meaning": meaning, "error": value.as_ref().err(),
            });
            text.push_str(&format!("{object}\n"));
        } else if args.markdown {
            let default =
                if knob.default.is_empty() { "(decided at run time)" } else { knob.default };
            text.push_str(&format!(
                "| `{}` | {default} | {} | {} | {} |\n",
                knob.name,
                knob.unit,
                accepts.replace('|', "\\|"),
                meaning.replace('|', "\\|"),
            ));
        } else {
            let shown = match &value {
                Ok(value) if value.is_empty() => "(at run time)".to_owned(),
                Ok(value) => format!("{value} {}", if from == "default" { "" } else { "*" }),
                Err(_) => "WRONG".to_owned(),
            };
            let accepts =
                if knob.unit.is_empty() { accepts } else { format!("{accepts} ({})", knob.unit) };
            table.add_row([knob.name, shown.trim_end(), from, &accepts, &meaning]);
        }
    }
    if !args.json && !args.markdown {
        text = table.trim_fmt();
    }
    out::print(&text)?;
    if wrong.is_empty() { Ok(()) } else { Err(Exit::Failed(wrong.join("\nmad: "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_are_acceptable() {
        let mut seen = std::collections::HashSet::new();
        for (_, knob) in names::all() {
            assert!(seen.insert(knob.name), "{} is declared twice", knob.name);
            if !knob.default.is_empty() {
                knob.check(knob.default).unwrap();
            }
        }
    }

    #[test]
    fn the_oversubscribed_switch_sets_knobs_that_exist() {
        for (name, value) in OVERSUBSCRIBED {
            mad_bench::knobs::find(name)
                .unwrap_or_else(|| panic!("{name} is no knob"))
                .check(value)
                .unwrap();
        }
    }
}
