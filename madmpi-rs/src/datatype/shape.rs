//! Shapes: datatypes without a handle and a name.
//!
//! A shape is the tree of how the program made it (for `MPI_Type_get_contents`), its bounds, and its flat description.
//! A shape never changes. Types that are made of it share it, so freeing a type changes nothing for them.
//!
//! # Bounds
//! Data have true bounds. A shape with resized parts has bounds of its own, the outermost of theirs, which hide those
//! of the data: the markers of MPI-1, set today only by `MPI_Type_create_resized` and the arrays. Otherwise the bounds
//! are those of the parts, rounded up to the alignment of the basic types. The standard's formula rounds once, at the
//! end. Here, as in Open MPI, each part brings its own padding, so a type is never shorter than its elements.

use core::ffi::c_int;
use std::sync::{Arc, OnceLock};

use super::flat::{Flat, List};
use super::rows::{ROWS, Row};
use crate::abi::*;
use crate::error::Fault;

/// The shape of a datatype.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) made: Envelope,
    pub(crate) part: Part,
    pub(crate) lb: isize,
    pub(crate) extent: isize,
    /// The row of the predefined type that all elements are of, pairs included.
    element: Option<u8>,
    /// The handle of a shape whose handle is never freed.
    pub(crate) fixed: OnceLock<MPI_Datatype>,
}

/// How a type was made: combiner and arguments, as `MPI_Type_get_contents` reports them.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    pub(crate) combiner: c_int,
    pub(crate) integers: Vec<c_int>,
    pub(crate) addresses: Vec<MPI_Aint>,
    pub(crate) counts: Vec<MPI_Count>,
    pub(crate) types: Vec<Arc<Shape>>,
    /// Made by a function for large counts, which reports counts as large ones.
    large: bool,
}

/// Places and types of data: of a shape, or of a piece under construction.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Bytes of data.
    pub(crate) size: usize,
    /// Number of basic elements.
    pub(crate) elements: usize,
    /// The alignment of elements.
    pub(crate) align: usize,
    /// The offset of the first byte of data and of the one after the last, if there are data.
    data: Option<(isize, isize)>,
    /// The same with the padding of its parts.
    padded: Option<(isize, isize)>,
    /// Bounds that the program has set.
    marks: Option<(isize, isize)>,
    pub(crate) flat: Flat,
    pub(crate) kinds: Kinds,
}

/// The basic types of the data.
#[derive(Clone, Debug)]
pub(crate) enum Kinds {
    Nothing,
    /// One type: the flat description tells it.
    One(u8),
    /// Several types: this description keeps them apart.
    Many(Flat),
}

#[cold]
fn too_large() -> Fault {
    Fault::new(
        MPI_ERR_COUNT,
        "the type would have more bytes, or a larger extent, than addresses reach",
    )
}

fn add(a: isize, b: isize) -> Result<isize, Fault> {
    a.checked_add(b).ok_or_else(too_large)
}

/// The outermost of two bounds, either of which may be absent.
fn outermost(a: Option<(isize, isize)>, b: Option<(isize, isize)>) -> Option<(isize, isize)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, None) | (None, one) => one,
    }
}

/// Bounds after repetition.
fn spread(
    bounds: Option<(isize, isize)>,
    count: usize,
    stride: isize,
) -> Result<Option<(isize, isize)>, Fault> {
    let Some((low, high)) = bounds else { return Ok(None) };
    let last = isize::try_from(count - 1).ok().and_then(|last| last.checked_mul(stride));
    let last = last.ok_or_else(too_large)?;
    let bounds = (add(low, last.min(0))?, add(high, last.max(0))?);
    // The distance from one bound to the other has to fit, too.
    bounds.1.checked_sub(bounds.0).ok_or_else(too_large)?;
    Ok(Some(bounds))
}

impl Part {
    pub(crate) fn empty() -> Part {
        Part {
            size: 0,
            elements: 0,
            align: 1,
            data: None,
            padded: None,
            marks: None,
            flat: Flat::empty(),
            kinds: Kinds::Nothing,
        }
    }

    /// One element of a basic type.
    pub(crate) fn basic(row: &Row, kind: u8) -> Part {
        Part {
            size: row.size,
            elements: 1,
            align: row.align,
            data: Some((0, row.size as isize)),
            padded: Some((0, row.size as isize)),
            marks: None,
            flat: Flat::run(0, row.size, kind),
            kinds: Kinds::One(kind),
        }
    }

    /// Whether it has no effect on a type that it is put into.
    fn is_nothing(&self) -> bool {
        self.data.is_none() && self.marks.is_none()
    }

    /// Its bounds: lower and upper.
    pub(crate) fn bounds(&self) -> Result<(isize, isize), Fault> {
        match (self.marks, self.padded) {
            (Some(bounds), _) => Ok(bounds),
            (None, Some((low, high))) => {
                let extent = high.checked_sub(low).ok_or_else(too_large)? as usize;
                let extent = extent.next_multiple_of(self.align);
                Ok((low, add(low, isize::try_from(extent).map_err(|_| too_large())?)?))
            }
            (None, None) => Ok((0, 0)),
        }
    }

    /// The bounds of its data; 0 and 0 without data.
    pub(crate) fn true_bounds(&self) -> (isize, isize) {
        self.data.unwrap_or((0, 0))
    }

    /// Sets other bounds.
    pub(crate) fn marked(self, lb: isize, extent: isize) -> Result<Part, Fault> {
        Ok(Part { marks: Some((lb, add(lb, extent)?)), ..self })
    }

    /// Repeats this `count` times, `stride` apart.
    pub(crate) fn repeat(self, count: usize, stride: isize) -> Result<Part, Fault> {
        if count == 0 {
            return Ok(Part::empty());
        }
        if count == 1 || self.is_nothing() {
            return Ok(self);
        }
        let size = self.size.checked_mul(count).filter(|&size| size <= isize::MAX as usize);
        let kinds = match self.kinds {
            Kinds::Many(typed) => Kinds::Many(typed.repeat(count, stride, self.size)),
            same => same,
        };
        Ok(Part {
            size: size.ok_or_else(too_large)?,
            elements: self.elements * count,
            align: self.align,
            data: spread(self.data, count, stride)?,
            padded: spread(self.padded, count, stride)?,
            marks: spread(self.marks, count, stride)?,
            flat: self.flat.repeat(count, stride, self.size),
            kinds,
        })
    }

    /// The flat description in which kinds matter.
    pub(crate) fn typed(&self) -> &Flat {
        match &self.kinds {
            Kinds::Many(typed) => typed,
            _ => &self.flat,
        }
    }

    /// The number of basic elements in the first `bytes` of repetitions of this. `None`: the last one is not whole.
    pub(crate) fn elements_of(&self, bytes: usize) -> Option<usize> {
        if self.size == 0 {
            return (bytes == 0).then_some(0);
        }
        let mut elements = bytes / self.size * self.elements;
        let mut whole = true;
        self.typed().strips(1, 0, bytes % self.size, |strip| {
            let size = size_of_kind(strip.kind);
            elements += strip.count * (strip.len / size);
            whole &= strip.len.is_multiple_of(size);
        });
        whole.then_some(elements)
    }

    /// The number of bytes of the first basic elements of repetitions of this. `None`: it has none, or too many.
    pub(crate) fn bytes_of(&self, elements: usize) -> Option<usize> {
        if self.elements == 0 {
            return (elements == 0).then_some(0);
        }
        let bytes = (elements / self.elements).checked_mul(self.size)?;
        let (mut left, mut more) = (elements % self.elements, 0);
        if left > 0 {
            self.typed().strips(1, 0, usize::MAX, |strip| {
                let size = size_of_kind(strip.kind);
                let taken = left.min(strip.count * (strip.len / size));
                (left, more) = (left - taken, more + taken * size);
            });
        }
        bytes.checked_add(more)
    }
}

/// Bytes of a basic element.
fn size_of_kind(kind: u8) -> usize {
    ROWS.get(usize::from(kind)).map_or(1, |row| row.size)
}

/// Joins parts, one after the other.
#[derive(Default)]
pub(crate) struct Join {
    size: usize,
    elements: usize,
    align: usize,
    data: Option<(isize, isize)>,
    padded: Option<(isize, isize)>,
    marks: Option<(isize, isize)>,
    typed: List,
    /// The description without kinds, once there are several.
    bytes: Option<List>,
    kind: Option<u8>,
}

impl Join {
    /// Appends a part, moved by so many bytes.
    ///
    /// # Errors
    /// The result is too large.
    pub(crate) fn add(&mut self, by: isize, part: &Part) -> Result<(), Fault> {
        let moved = |bounds: Option<(isize, isize)>| match bounds {
            Some((low, high)) => Ok::<_, Fault>(Some((add(low, by)?, add(high, by)?))),
            None => Ok(None),
        };
        self.data = outermost(self.data, moved(part.data)?);
        self.padded = outermost(self.padded, moved(part.padded)?);
        self.marks = outermost(self.marks, moved(part.marks)?);
        for (low, high) in [self.data, self.padded, self.marks].into_iter().flatten() {
            high.checked_sub(low).ok_or_else(too_large)?;
        }
        if part.size == 0 {
            return Ok(());
        }
        self.align = self.align.max(part.align);
        self.size = self.size.checked_add(part.size).ok_or_else(too_large)?;
        isize::try_from(self.size).map_err(|_| too_large())?;
        self.elements += part.elements;
        let same = match part.kinds {
            Kinds::One(kind) => *self.kind.get_or_insert(kind) == kind,
            _ => false,
        };
        if !same && self.bytes.is_none() {
            self.bytes = Some(self.typed.mixed());
        }
        self.typed.add(by, part.typed(), true);
        if let Some(bytes) = &mut self.bytes {
            bytes.add(by, &part.flat, false);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Part {
        let Join { size, elements, align, data, padded, marks, typed, bytes, kind } = self;
        let typed = typed.finish();
        let (flat, kinds) = match (bytes, kind) {
            (Some(bytes), _) => (bytes.finish(), Kinds::Many(typed)),
            (None, Some(kind)) => (typed, Kinds::One(kind)),
            (None, None) => (typed, Kinds::Nothing),
        };
        Part { size, elements, align: align.max(1), data, padded, marks, flat, kinds }
    }
}

impl Shape {
    pub(crate) fn new(made: Envelope, part: Part) -> Result<Arc<Shape>, Fault> {
        let element = made.element().or(match part.kinds {
            Kinds::One(kind) if made.types.is_empty() => Some(kind),
            _ => None,
        });
        Shape::of(made, part, element)
    }

    /// The shape of the predefined type in that row.
    pub(super) fn predefined(number: usize, part: Part) -> Result<Arc<Shape>, Fault> {
        Shape::of(Envelope::by(MPI_COMBINER_NAMED, false), part, Some(number as u8))
    }

    /// The row of the predefined type that all elements are of, with its number.
    pub(crate) fn element(&self) -> Option<(u8, &'static Row)> {
        let number = self.element?;
        Some((number, ROWS.get(usize::from(number))?))
    }

    fn of(made: Envelope, mut part: Part, element: Option<u8>) -> Result<Arc<Shape>, Fault> {
        let (lb, ub) = part.bounds()?;
        part.padded = part.data.map(|_| (lb, ub));
        let extent = ub.checked_sub(lb).ok_or_else(too_large)?;
        Ok(Arc::new(Shape { made, part, lb, extent, element, fixed: OnceLock::new() }))
    }

    /// `count` elements in a row.
    pub(crate) fn block(&self, count: usize) -> Result<Part, Fault> {
        self.part.clone().repeat(count, self.extent)
    }
}

impl Drop for Shape {
    /// Drops types iteratively, not recursively: trees may be deep.
    fn drop(&mut self) {
        let mut rest = std::mem::take(&mut self.made.types);
        while let Some(shape) = rest.pop() {
            if let Some(mut shape) = Arc::into_inner(shape) {
                rest.append(&mut shape.made.types);
            }
        }
    }
}

impl Envelope {
    /// The row that all elements of its types are of, if it is the same. Where there are no elements, that of a type.
    fn element(&self) -> Option<u8> {
        let sized = || self.types.iter().enumerate().filter(|(_, shape)| shape.part.size > 0);
        let mut of_data = sized().filter(|&(block, _)| self.has_elements(block));
        let Some((_, first)) = of_data.next() else { return sized().next()?.1.element };
        let first = first.element?;
        of_data.all(|(_, shape)| shape.element == Some(first)).then_some(first)
    }

    /// Whether the block of that type has elements: those of a struct have lengths, which follow the number of blocks.
    fn has_elements(&self, block: usize) -> bool {
        if self.combiner != MPI_COMBINER_STRUCT {
            return true;
        }
        match self.large {
            true => self.counts.get(block + 1).is_some_and(|&len| len > 0),
            false => self.integers.get(block + 1).is_some_and(|&len| len > 0),
        }
    }

    /// Begins the envelope of a combiner, made by a function for large counts or not.
    pub(crate) fn by(combiner: c_int, large: bool) -> Envelope {
        Envelope { combiner, large, ..Envelope::default() }
    }

    /// Adds an argument that is always an `int`.
    pub(crate) fn integer(mut self, value: c_int) -> Envelope {
        self.integers.push(value);
        self
    }

    pub(crate) fn integers(mut self, values: &[c_int]) -> Envelope {
        self.integers.extend_from_slice(values);
        self
    }

    /// Adds a count: an `int`, or one of the large counts.
    pub(crate) fn number(mut self, value: i64) -> Envelope {
        if self.large {
            self.counts.push(value);
        } else {
            self.integers.push(value as c_int);
        }
        self
    }

    pub(crate) fn numbers(self, values: impl IntoIterator<Item = i64>) -> Envelope {
        values.into_iter().fold(self, Envelope::number)
    }

    /// Adds a displacement in bytes: an address, or one of the large counts.
    pub(crate) fn address(mut self, value: i64) -> Envelope {
        if self.large {
            self.counts.push(value);
        } else {
            self.addresses.push(value as MPI_Aint);
        }
        self
    }

    pub(crate) fn addresses(self, values: impl IntoIterator<Item = i64>) -> Envelope {
        values.into_iter().fold(self, Envelope::address)
    }

    pub(crate) fn of(mut self, shape: &Arc<Shape>) -> Envelope {
        self.types.push(shape.clone());
        self
    }
}
