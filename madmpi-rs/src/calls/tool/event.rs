//! Events, and their one source: newmad. [`crate::events`] calls the callbacks.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use newmad::raw::{Event, EventKind};

use super::face::{Answer, at, give, name, text, tool};
use crate::abi::*;
use crate::args::{ArrayMut, InOut, Out, Text, array_mut, read};
use crate::events::{
    self, Callback, DroppedHandler, FreeCallback, Handle, Instance, LEVELS, Registered,
    Registration,
};
use crate::info::{self, Entries};

/// A kind of event, and what a tool may read of one.
struct Description {
    name: &'static str,
    meaning: &'static str,
    elements: &'static [Element],
}

/// A part of an event.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    Rank,
    Tag,
    Length,
}
use Element::*;

impl Element {
    fn datatype(self) -> MPI_Datatype {
        match self {
            Rank => MPI_INT,
            Tag => MPI_UINT64_T,
            Length => MPI_COUNT,
        }
    }

    /// Where it lies in what `MPI_T_event_copy` writes.
    fn place(self) -> usize {
        match self {
            Rank => 0,
            Tag => 8,
            Length => 16,
        }
    }

    fn bytes(self, event: &Event) -> Vec<u8> {
        match self {
            Rank => (event.rank as c_int).to_ne_bytes().to_vec(),
            // As the program has it: the upper bits are madmpi's.
            Tag => (event.tag & 0x7fff_ffff).to_ne_bytes().to_vec(),
            Length => event.len.to_ne_bytes().to_vec(),
        }
    }
}

const ALL: [Description; EventKind::ALL.len()] = [
    Description {
        name: "newmad_unexpected",
        meaning: "a message came, or was announced, and no receive was there: its sender in MPI_COMM_WORLD, its tag, its bytes",
        elements: &[Rank, Tag, Length],
    },
    Description {
        name: "newmad_rendezvous",
        meaning: "a receive has matched an announced message, whose data begin to move: sender, tag, bytes",
        elements: &[Rank, Tag, Length],
    },
    Description {
        name: "newmad_failed",
        meaning: "a process has failed: its rank in MPI_COMM_WORLD",
        elements: &[Rank],
    },
];

fn registration(registration: Handle) -> Result<Arc<Registration>, c_int> {
    events::get(registration).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

fn level(safety: c_int) -> Result<usize, c_int> {
    LEVELS.iter().position(|&level| level == safety).ok_or(MPI_T_ERR_INVALID)
}

/// The event of an instance.
fn event<'a>(instance: Instance) -> Result<&'a Event, c_int> {
    // SAFETY: an instance is what a callback was given, and the tool uses it during that call only.
    unsafe { instance.cast::<Event>().as_ref() }.ok_or(MPI_T_ERR_INVALID_HANDLE)
}

fn elements(event: &Event) -> &'static [Element] {
    ALL[event.kind as usize].elements
}

/// Copies bytes into a tool's buffer.
fn copy(bytes: &[u8], buffer: *mut u8, place: usize) -> Answer {
    if buffer.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    // SAFETY: the tool's buffer has room for the event, or for the element.
    unsafe { buffer.add(place).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// An info object without entries.
fn empty(place: Out<MPI_Info>) -> Answer {
    give(place, info::handle(Entries::default()).map_err(|_| MPI_T_ERR_MEMORY)?)
}

/// The clock of the events, in nanoseconds.
fn now() -> MPI_Count {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

tool! {
    fn MPI_T_event_get_num(num_events: Out<c_int>) { give(num_events, ALL.len() as c_int) }

    fn MPI_T_event_get_index(name_: Text, event_index: Out<c_int>) {
        let name = name(name_)?;
        let index = ALL.iter().position(|event| event.name.as_bytes() == name);
        give(event_index, index.ok_or(MPI_T_ERR_INVALID_NAME)? as c_int)
    }

    fn MPI_T_event_get_info(
        event_index: c_int, name: ArrayMut<c_char>, name_len: InOut<c_int>, verbosity: Out<c_int>,
        array_of_datatypes: ArrayMut<MPI_Datatype>, array_of_displacements: ArrayMut<MPI_Aint>,
        num_elements: InOut<c_int>, enumtype: Out<usize>, info: Out<MPI_Info>, desc: ArrayMut<c_char>,
        desc_len: InOut<c_int>, bind: Out<c_int>,
    ) {
        let event = at(&ALL, event_index)?;
        text(event.name, name, name_len);
        text(event.meaning, desc, desc_len);
        verbosity.put(MPI_T_VERBOSITY_USER_DETAIL);
        if let Ok(room) = read(num_elements, "num_elements") {
            let room = i64::from(room).clamp(0, event.elements.len() as i64);
            if let Ok(datatypes) = array_mut!(array_of_datatypes[room]) {
                datatypes.iter_mut().zip(event.elements).for_each(|(place, of)| *place = of.datatype());
            }
            if let Ok(places) = array_mut!(array_of_displacements[room]) {
                places.iter_mut().zip(event.elements).for_each(|(place, of)| *place = of.place() as MPI_Aint);
            }
        }
        Out::from(num_elements).put(event.elements.len() as c_int);
        enumtype.put(MPI_T_ENUM_NULL);
        info.put(MPI_INFO_NULL);
        bind.put(MPI_T_BIND_NO_OBJECT);
        Ok(())
    }

    fn MPI_T_event_handle_alloc(
        event_index: c_int, _obj_handle: *mut c_void, _info: MPI_Info, event_registration: Out<Handle>,
    ) {
        let kind = *at(&EventKind::ALL, event_index)?;
        give(event_registration, 0)?;
        give(event_registration, events::register(kind).ok_or(MPI_T_ERR_OUT_OF_HANDLES)?)
    }

    fn MPI_T_event_handle_free(
        event_registration: Handle, user_data: *mut c_void, free_cb_function: Option<FreeCallback>,
    ) {
        registration(event_registration)?;
        events::remove(event_registration);
        if let Some(function) = free_cb_function {
            // SAFETY: the tool gave it as such a function.
            unsafe { function(event_registration, MPI_T_CB_REQUIRE_NONE, user_data) };
        }
        Ok(())
    }

    fn MPI_T_event_handle_get_info(event_registration: Handle, info_used: Out<MPI_Info>) {
        registration(event_registration)?;
        empty(info_used)
    }

    fn MPI_T_event_handle_set_info(event_registration: Handle, _info: MPI_Info) {
        registration(event_registration).map(drop)
    }

    fn MPI_T_event_register_callback(
        event_registration: Handle, cb_safety: c_int, _info: MPI_Info, user_data: *mut c_void,
        event_cb_function: Option<Callback>,
    ) {
        let level = level(cb_safety)?;
        let registered = event_cb_function
            .map(|function| Registered { function, data: user_data.expose_provenance() });
        registration(event_registration)?.set(level, registered);
        Ok(())
    }

    fn MPI_T_event_callback_get_info(event_registration: Handle, cb_safety: c_int, info_used: Out<MPI_Info>) {
        level(cb_safety)?;
        registration(event_registration)?;
        empty(info_used)
    }

    fn MPI_T_event_callback_set_info(event_registration: Handle, cb_safety: c_int, _info: MPI_Info) {
        level(cb_safety)?;
        registration(event_registration).map(drop)
    }

    fn MPI_T_event_set_dropped_handler(
        event_registration: Handle, dropped_cb_function: Option<DroppedHandler>,
    ) {
        *registration(event_registration)?.dropped.lock() = dropped_cb_function;
        Ok(())
    }

    fn MPI_T_event_read(event_instance: Instance, element_index: c_int, buffer: *mut u8) {
        let event = event(event_instance)?;
        let element = at(elements(event), element_index)?;
        copy(&element.bytes(event), buffer, 0)
    }

    fn MPI_T_event_copy(event_instance: Instance, buffer: *mut u8) {
        let event = event(event_instance)?;
        elements(event).iter().try_for_each(|element| copy(&element.bytes(event), buffer, element.place()))
    }

    fn MPI_T_event_get_timestamp(event_instance: Instance, event_timestamp: Out<MPI_Count>) {
        give(event_timestamp, event(event_instance)?.when as MPI_Count)
    }

    fn MPI_T_event_get_source(event_instance: Instance, source_index: Out<c_int>) {
        event(event_instance)?;
        give(source_index, 0)
    }

    fn MPI_T_source_get_num(num_sources: Out<c_int>) { give(num_sources, 1) }

    fn MPI_T_source_get_info(
        source_index: c_int, name: ArrayMut<c_char>, name_len: InOut<c_int>, desc: ArrayMut<c_char>,
        desc_len: InOut<c_int>, ordering: Out<c_int>, ticks_per_second: Out<MPI_Count>,
        max_ticks: Out<MPI_Count>, info: Out<MPI_Info>,
    ) {
        at(&[()], source_index)?;
        text("newmad", name, name_len);
        text("messages and peers, in the order in which they came", desc, desc_len);
        ordering.put(MPI_T_SOURCE_ORDERED);
        ticks_per_second.put(1_000_000_000);
        max_ticks.put(MPI_Count::MAX);
        info.put(MPI_INFO_NULL);
        Ok(())
    }

    fn MPI_T_source_get_timestamp(source_index: c_int, timestamp: Out<MPI_Count>) {
        at(&[()], source_index)?;
        give(timestamp, now())
    }
}
