//! Answers that a rank gets later than it asks, in the words of its version, and what all answers share.

/// The end of a barrier; `why` it can never be complete.
pub(super) fn barrier_out(why: Option<&str>) -> String {
    match why {
        Some(why) => format!("cmd=barrier_out rc=-1 msg={}\n", why.replace(' ', "_")),
        None => "cmd=barrier_out rc=0\n".into(),
    }
}

/// The end of a fence; `why` it can never be complete.
pub(super) fn fence_response(thread: Option<&str>, why: Option<&str>) -> String {
    match why {
        Some(why) => {
            let why = why.replace([' ', ';'], "_");
            response("kvs-fence", thread, &format!("rc=-1;errmsg={why};"))
        }
        None => response("kvs-fence", thread, "rc=0;"),
    }
}

/// An answer of version 2, with its length before it.
pub(super) fn response(cmd: &str, thread: Option<&str>, body: &str) -> String {
    let thread = thread.map_or_else(String::new, |thread| format!("thrid={thread};"));
    let text = format!("cmd={cmd}-response;{thread}{body}");
    format!("{:6}{text}", text.len())
}

/// The beginning of a text that a rank wrote.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
