//! Categories: the crates that variables belong to. They stay as they are.

use core::ffi::{c_char, c_int};

use super::{CRATES, Said, at, cvar, give, name, pvar, tell, text, tool};
use crate::abi::*;

/// The indices of a category's control variables.
fn cvars(category: usize) -> Vec<c_int> {
    let all = cvar::all().into_iter().enumerate();
    all.filter(|(_, (of, _))| *of == category).map(|(index, _)| index as c_int).collect()
}

/// Those of its performance variables.
fn pvars(category: usize) -> Vec<c_int> {
    let all = pvar::all().into_iter().enumerate();
    all.filter(|(_, it)| it.category == category).map(|(index, _)| index as c_int).collect()
}

/// As many as there is room for.
fn some(all: &[c_int], len: c_int, indices: *mut c_int) -> Said {
    let count = all.len().min(usize::try_from(len).map_err(|_| MPI_T_ERR_INVALID)?);
    if count > 0 && indices.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    for (place, &index) in all[..count].iter().enumerate() {
        // SAFETY: the program's promise that there is room for `len` of them.
        unsafe { indices.add(place).write(index) };
    }
    Ok(())
}

fn known(category: c_int) -> Result<usize, c_int> {
    at(&CRATES, category).map(|_| category as usize)
}

tool! {
    fn MPI_T_category_get_num(num_cat: *mut c_int) { give(num_cat, CRATES.len() as c_int) }

    fn MPI_T_category_get_index(name_: *const c_char, cat_index: *mut c_int) {
        let name = name(name_)?;
        let index = CRATES.iter().position(|(known, _)| known.as_bytes() == name);
        give(cat_index, index.ok_or(MPI_T_ERR_INVALID_NAME)? as c_int)
    }

    fn MPI_T_category_get_info(
        cat_index: c_int, name: *mut c_char, name_len: *mut c_int, desc: *mut c_char, desc_len: *mut c_int,
        num_cvars: *mut c_int, num_pvars: *mut c_int, num_categories: *mut c_int,
    ) {
        let (known_as, meaning) = at(&CRATES, cat_index)?;
        text(known_as, name, name_len);
        text(meaning, desc, desc_len);
        tell(num_cvars, cvars(cat_index as usize).len() as c_int);
        tell(num_pvars, pvars(cat_index as usize).len() as c_int);
        tell(num_categories, 0);
        Ok(())
    }

    fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) {
        some(&cvars(known(cat_index)?), len, indices)
    }

    fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) {
        some(&pvars(known(cat_index)?), len, indices)
    }

    fn MPI_T_category_get_categories(cat_index: c_int, len: c_int, indices: *mut c_int) {
        known(cat_index)?;
        some(&[], len, indices)
    }

    fn MPI_T_category_get_events(cat_index: c_int, len: c_int, indices: *mut c_int) {
        known(cat_index)?;
        some(&[], len, indices)
    }

    fn MPI_T_category_get_num_events(cat_index: c_int, num_events: *mut c_int) {
        known(cat_index)?;
        give(num_events, 0)
    }

    fn MPI_T_category_changed(update_number: *mut c_int) { give(update_number, 0) }
}
