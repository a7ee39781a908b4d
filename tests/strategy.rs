//! Strategies, as users meet them: the example of one's own.

mod common;

use std::process::Command;

use common::{err, example, out};

#[test]
fn a_strategy_of_one_s_own_is_asked() {
    let output = Command::new(example("my_strategy")).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    let asked = text.strip_prefix("300 messages; the strategy was asked ");
    let asked = asked.and_then(|rest| rest.split(' ').next()).and_then(|count| count.parse().ok());
    assert!(asked.is_some_and(|asked: u32| asked > 0), "{text}");
}
