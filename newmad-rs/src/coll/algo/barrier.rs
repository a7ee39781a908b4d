//! Dissemination: in round k each rank tells the one 2^k further on; after log2(size) rounds all have heard of all.

use crate::coll::recorder::Recorder;

pub(super) fn dissemination(rec: &mut Recorder) {
    let mut distance = 1;
    while distance < rec.size {
        rec.signal(rec.after(distance));
        rec.await_signal(rec.before(distance));
        rec.fence();
        distance *= 2;
    }
}
