//! Datatypes: functions that make them, ask about them, and pack with them.

mod make;
mod packing;
mod query;
