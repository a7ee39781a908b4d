//! Makes the constants of the ABI from their table, and names the shared library as the ABI wants it.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=abi/constants.txt");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    let table = fs::read_to_string("abi/constants.txt").expect("the table of constants");
    let mut out = String::new();
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let mut fields = row.split_whitespace();
        let (Some(name), Some(kind), Some(value)) = (fields.next(), fields.next(), fields.next())
        else {
            panic!("abi/constants.txt: {row:?} is not a name, a type and a value");
        };
        let handle = kind.starts_with("MPI_") && !kind.contains('*');
        let line = match kind {
            "=" => continue,
            "int" => format!("pub(crate) const {name}: core::ffi::c_int = {value};"),
            "MPI_Offset" => format!("pub(crate) const {name}: MPI_Offset = {value};"),
            _ if handle && !kind.starts_with("MPI_T_") => {
                format!("pub(crate) const {name}: {kind} = {kind}({value});")
            }
            _ => format!("pub(crate) const {name}: usize = {value};"),
        };
        writeln!(out, "{line}").expect("a string takes everything");
    }
    let path = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("constants.rs");
    fs::write(path, out).expect("writing the constants");
}
