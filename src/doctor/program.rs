//! Whether a program can run as ranks of one process.

use std::path::Path;

use mad_bench::out::Exit;
use mad_loader::{Inspection, SharedData};

use super::finding::Finding;

/// What stands in the way, or what its ranks would share.
pub(super) fn findings(program: &Path) -> Result<Vec<Finding>, Exit> {
    let Inspection { refusal, shared, parted, .. } = mad_loader::inspect(program)
        .map_err(|error| Exit::Failed(format!("doctor: {}: {error}", program.display())))?;
    let mut findings = vec![match refusal {
        None => Finding::ok("ranks_as_threads", "it can run several times in one process"),
        Some(why) => Finding::lacking("ranks_as_threads", why.reason(), why.way_out()),
    }];
    findings.extend(shared.iter().map(|data| {
        let advice = "all ranks of a process use the same: see to it that the library is made for \
                      threads, or run the ranks as processes";
        Finding::limited("shared_data", describe(data), advice)
    }));
    if !parted.is_empty() {
        let advice = "each rank has copies, which the library does not see: set them by the library's \
                      functions, or run the ranks as processes";
        findings.push(Finding::limited("parted_data", parted.join(", "), advice));
    }
    Ok(findings)
}

fn describe(data: &SharedData) -> String {
    let names = match &data.names[..] {
        [] => "none of them exported".to_owned(),
        names => names.join(", "),
    };
    format!(
        "{} ({}) has {} bytes of variables: {names}",
        data.library,
        data.path.display(),
        data.bytes
    )
}
