//! What a check found.

use std::borrow::Cow;

use serde::Serialize;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It is there.
    Ok,
    /// It is there, with less than could be had.
    Limited,
    /// It is not there.
    Lacking,
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(super) check: &'static str,
    pub(super) status: Status,
    pub(super) found: String,
    /// What to do about it; what happens without.
    pub(super) advice: Option<Cow<'static, str>>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, status: Status::Ok, found: found.into(), advice: None }
    }

    pub(crate) fn limited(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Finding {
        Finding { check, status: Status::Limited, found: found.into(), advice: Some(advice.into()) }
    }

    /// Fine, or limited if there is not enough of it.
    pub(crate) fn enough(
        enough: bool,
        check: &'static str,
        found: String,
        advice: impl Into<Cow<'static, str>>,
    ) -> Finding {
        if enough { Finding::ok(check, found) } else { Finding::limited(check, found, advice) }
    }

    pub(crate) fn lacking(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Finding {
        Finding { check, status: Status::Lacking, found: found.into(), advice: Some(advice.into()) }
    }
}
