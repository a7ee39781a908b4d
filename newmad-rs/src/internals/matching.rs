//! The tables of matching, with receives that are there beforehand: what is measured is the tables' part of a message.

use std::ptr::NonNull;

use crate::matching::Matching;
use crate::matching::pool::Content;
use crate::request::tag::EXACT;
use crate::request::{ANY_SOURCE, Place, Ref, Request};
use crate::{Error, Tag};

/// Tables, and receives that may be posted in them.
pub struct Tables {
    matching: Matching,
    requests: Box<[Request]>,
}

impl Tables {
    /// With these receives, none of which is posted: sources (`None`: any) and tags.
    ///
    /// # Errors
    /// [`Error::BadTag`].
    pub fn new(receives: impl IntoIterator<Item = (Option<u32>, Tag)>) -> Result<Tables, Error> {
        let nothing: *mut [u8] = std::ptr::slice_from_raw_parts_mut(std::ptr::dangling_mut(), 0);
        let request = |(from, tag): (Option<u32>, Tag)| {
            let (tag, mask) = if tag.mask == EXACT { (tag.value, EXACT) } else { tag.checked()? };
            // SAFETY: nothing is ever received into it.
            let request = unsafe { Request::recv(from.unwrap_or(ANY_SOURCE), tag, nothing, false) };
            Ok(request.masked(mask))
        };
        let requests = receives.into_iter().map(request).collect::<Result<_, Error>>()?;
        Ok(Tables { matching: Matching::new(1, 0, usize::MAX), requests })
    }

    #[inline]
    fn request(&self, receive: usize) -> Ref {
        // SAFETY: boxed as long as the tables are; its cells are touched through the tables only.
        unsafe { Ref::new(NonNull::from(&self.requests[receive])) }
    }

    /// A receive: takes the unexpected message that it matches (its number), or is posted.
    ///
    /// # Panics
    /// It is posted already.
    #[inline]
    pub fn receive(&mut self, receive: usize) -> Option<u64> {
        let request = self.request(receive);
        assert!(request.place.get() == Place::Nowhere, "receive {receive} is posted already");
        let found = self.matching.find_unexpected(0, request.peer, request.tag, request.mask);
        let Some(cell) = found else {
            self.matching.post(request);
            return None;
        };
        self.matching.remove_unexpected(cell);
        let number = self.matching.pool.get(cell).number;
        self.matching.pool.put(cell);
        Some(number)
    }

    /// A message: the receive that takes it, or none, and it is unexpected.
    #[inline]
    pub fn arrive(&mut self, source: u32, tag: u64, number: u64) -> Option<usize> {
        if let Some(request) = self.matching.take_posted(0, source, tag) {
            let at = &raw const *request as usize - self.requests.as_ptr() as usize;
            return Some(at / size_of::<Request>());
        }
        let pool = &mut self.matching.pool;
        let index = loop {
            match pool.take(0) {
                Some(index) => break index,
                None => assert!(pool.grow(), "as many cells as can be counted"),
            }
        };
        let cell = pool.get_mut(index);
        (cell.source, cell.tag, cell.len, cell.got) = (source, tag, 0, 0);
        (cell.content, cell.number) = (Content::Eager, number);
        self.matching.add_unexpected(index);
        None
    }
}
