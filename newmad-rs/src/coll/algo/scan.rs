//! Each rank gets what it and those before it have, combined; or those before it alone.

use crate::coll::plan::Side;
use crate::coll::recorder::Recorder;

/// In round k one gets from the rank 2^k before what it has gathered, and puts it in front of one's own (Hillis and
/// Steele). The order of ranks is kept.
pub(super) fn doubling(rec: &mut Recorder, len: usize, inclusive: bool) {
    let input = rec.input(0, len);
    let result = rec.output(0, len);
    // Of the ranks up to this one, as many as have been heard of.
    let sum = if inclusive { result } else { rec.scratch(len) };
    rec.copy(input, sum);
    let buffers = [rec.scratch(len), rec.scratch(len)];
    let mut first = true;
    let mut distance = 1;
    let mut round = 0;
    while distance < rec.size {
        if rec.rank + distance < rec.size {
            rec.send(rec.rank + distance, sum);
        }
        if let Some(from) = rec.rank.checked_sub(distance) {
            let buffer = buffers[round % 2];
            rec.recv(from, buffer);
            if !inclusive {
                // The same without this rank's own.
                if first {
                    rec.copy(buffer, result);
                } else {
                    rec.combine(buffer, result, Side::Right);
                }
                first = false;
            }
            if rec.rank + 2 * distance < rec.size || inclusive {
                rec.combine(buffer, sum, Side::Right);
            }
        }
        distance *= 2;
        round += 1;
    }
}
