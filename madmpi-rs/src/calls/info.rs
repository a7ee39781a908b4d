//! Info objects.

use core::ffi::{c_char, c_int};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{
    Array, ArrayMut, InOut, Out, Text, TextOut, array, array_mut, not_negative, out, read, write,
};
use crate::error::Fault;
use crate::info::{self, Entries, env, get, handle, own};

fn key<'a>(key: Text<'a>) -> Result<&'a [u8], Fault> {
    let key = key.bytes_below(MPI_MAX_INFO_KEY, MPI_ERR_INFO_KEY, "key")?;
    if key.is_empty() {
        return Err(Fault::argument(MPI_ERR_INFO_KEY, "key", "empty", "it has characters"));
    }
    Ok(key)
}

mpi! {
    anytime fn MPI_Info_create(info: Out<MPI_Info>) {
        info.made("info", MPI_INFO_NULL, || handle(Entries::default()))
    }

    anytime fn MPI_Info_dup(info: MPI_Info, newinfo: Out<MPI_Info>) {
        let entries = get(info)?.entries().clone();
        newinfo.made("newinfo", MPI_INFO_NULL, || handle(entries))
    }

    anytime fn MPI_Info_free(info: InOut<MPI_Info>) {
        let freed = read(info, "info")?;
        info::free(freed)?;
        out(info, "info", MPI_INFO_NULL)
    }

    anytime fn MPI_Info_set(info: MPI_Info, key_: Text, value: Text) {
        let (info, key) = (own(info)?, key(key_)?);
        let value = value.bytes_below(MPI_MAX_INFO_VAL, MPI_ERR_INFO_VALUE, "value")?;
        info.entries().set(key, value);
        Ok(())
    }

    anytime fn MPI_Info_delete(info: MPI_Info, key_: Text) {
        let (info, key) = (own(info)?, key(key_)?);
        if info.entries().delete(key) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(key);
        Err(Fault::argument(MPI_ERR_INFO_NOKEY, "key", name, "the info object has no such key"))
    }

    anytime fn MPI_Info_get(
        info: MPI_Info, key_: Text, valuelen: c_int, value: ArrayMut<c_char>, flag: Out<c_int>,
    ) {
        let (info, key) = (get(info)?, key(key_)?);
        not_negative(MPI_ERR_ARG, "valuelen", valuelen)?;
        let entries = info.entries();
        let found = entries.get(key);
        out(flag, "flag", c_int::from(found.is_some()))?;
        if let Some(text) = found {
            write(text, array_mut!(value[i64::from(valuelen) + 1])?);
        }
        Ok(())
    }

    anytime fn MPI_Info_get_valuelen(
        info: MPI_Info, key_: Text, valuelen: Out<c_int>, flag: Out<c_int>,
    ) {
        let (info, key) = (get(info)?, key(key_)?);
        let entries = info.entries();
        let found = entries.get(key);
        out(flag, "flag", c_int::from(found.is_some()))?;
        found.map_or(Ok(()), |text| out(valuelen, "valuelen", text.len() as c_int))
    }

    /// `buflen` holds the room that the program has, with the terminating zero, and takes the room that is needed.
    anytime fn MPI_Info_get_string(
        info: MPI_Info, key_: Text, buflen: InOut<c_int>, value: ArrayMut<c_char>, flag: Out<c_int>,
    ) {
        let (info, key) = (get(info)?, key(key_)?);
        let room = read(buflen, "buflen")?;
        not_negative(MPI_ERR_ARG, "buflen", room)?;
        let entries = info.entries();
        let found = entries.get(key);
        out(flag, "flag", c_int::from(found.is_some()))?;
        let Some(text) = found else { return Ok(()) };
        if room > 0 {
            write(text, array_mut!(value[room])?);
        }
        out(buflen, "buflen", text.len() as c_int + 1)
    }

    anytime fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: Out<c_int>) {
        out(nkeys, "nkeys", get(info)?.entries().len() as c_int)
    }

    anytime fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: TextOut<{ MPI_MAX_INFO_KEY }>) {
        let info = get(info)?;
        let entries = info.entries();
        let found = usize::try_from(n).ok().and_then(|n| entries.key(n));
        let found = found.ok_or_else(|| {
            let why = format!("the info object has {} keys, and the first is number 0", entries.len());
            Fault::argument(MPI_ERR_ARG, "n", n, &why)
        })?;
        key.put(found, "key").map(drop)
    }

    /// The keys of `MPI_INFO_ENV`, for the arguments of the call.
    anytime fn MPI_Info_create_env(argc: c_int, argv: Array<Text>, info: Out<MPI_Info>) {
        out(info, "info", MPI_INFO_NULL)?;
        let arguments = match argc {
            1.. if argv.address() != 0 => {
                let given = array!(argv[argc])?.iter();
                given.map_while(|text| text.bytes()).map(<[u8]>::to_vec).collect()
            }
            _ => env::arguments(),
        };
        out(info, "info", handle(env::entries(&arguments))?)
    }
}
