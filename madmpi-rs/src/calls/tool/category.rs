//! Categories: the crates that variables belong to. The list never changes.

use core::ffi::{c_char, c_int};

use super::face::{Answer, CRATES, at, give, name, text, tool};
use super::{cvar, pvar};
use crate::abi::*;
use crate::args::{ArrayMut, InOut, Out, Text, array_mut};

/// The indices of a category's control variables.
fn cvars(category: usize) -> Vec<c_int> {
    let all = cvar::all().into_iter().enumerate();
    all.filter(|(_, (of, _))| *of == category).map(|(index, _)| index as c_int).collect()
}

/// The indices of a category's performance variables.
fn pvars(category: usize) -> Vec<c_int> {
    let all = pvar::all().into_iter().enumerate();
    all.filter(|(_, it)| it.category == category).map(|(index, _)| index as c_int).collect()
}

/// Gives the program as many indices as it has room for.
fn some(all: &[c_int], len: c_int, indices: ArrayMut<c_int>) -> Answer {
    let count = all.len().min(usize::try_from(len).map_err(|_| MPI_T_ERR_INVALID)?);
    let indices = array_mut!(indices[count as i64]).map_err(|_| MPI_T_ERR_INVALID)?;
    indices.copy_from_slice(&all[..count]);
    Ok(())
}

fn known(category: c_int) -> Result<usize, c_int> {
    at(&CRATES, category).map(|_| category as usize)
}

/// The events of a category: all are newmad's.
fn events(category: usize) -> Vec<c_int> {
    let all = newmad::raw::EventKind::ALL.len() as c_int;
    if CRATES[category].0 == "newmad" { (0..all).collect() } else { Vec::new() }
}

tool! {
    fn MPI_T_category_get_num(num_cat: Out<c_int>) { give(num_cat, CRATES.len() as c_int) }

    fn MPI_T_category_get_index(name_: Text, cat_index: Out<c_int>) {
        let name = name(name_)?;
        let index = CRATES.iter().position(|(known, _)| known.as_bytes() == name);
        give(cat_index, index.ok_or(MPI_T_ERR_INVALID_NAME)? as c_int)
    }

    fn MPI_T_category_get_info(
        cat_index: c_int, name: ArrayMut<c_char>, name_len: InOut<c_int>, desc: ArrayMut<c_char>,
        desc_len: InOut<c_int>, num_cvars: Out<c_int>, num_pvars: Out<c_int>, num_categories: Out<c_int>,
    ) {
        let (known_as, meaning) = at(&CRATES, cat_index)?;
        text(known_as, name, name_len);
        text(meaning, desc, desc_len);
        num_cvars.put(cvars(cat_index as usize).len() as c_int);
        num_pvars.put(pvars(cat_index as usize).len() as c_int);
        num_categories.put(0);
        Ok(())
    }

    fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: ArrayMut<c_int>) {
        some(&cvars(known(cat_index)?), len, indices)
    }

    fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: ArrayMut<c_int>) {
        some(&pvars(known(cat_index)?), len, indices)
    }

    fn MPI_T_category_get_categories(cat_index: c_int, len: c_int, indices: ArrayMut<c_int>) {
        known(cat_index)?;
        some(&[], len, indices)
    }

    fn MPI_T_category_get_events(cat_index: c_int, len: c_int, indices: ArrayMut<c_int>) {
        some(&events(known(cat_index)?), len, indices)
    }

    fn MPI_T_category_get_num_events(cat_index: c_int, num_events: Out<c_int>) {
        give(num_events, events(known(cat_index)?).len() as c_int)
    }

    fn MPI_T_category_changed(update_number: Out<c_int>) { give(update_number, 0) }
}
