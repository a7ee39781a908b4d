//! Finds circles of modules: two or more modules of one crate that import each other, directly or through others.
//!
//! `cargo run -q -p layers` checks the crates of the workspace and exits with 1 if there is a circle; `-- --order`
//! prints each crate's parts from top to bottom instead; `-- --why CRATE A B` prints the imports of part A from part B.
//!
//! Two graphs have to be without circles. The first has a node for each *file*. The second has, at each folder, a node
//! for each *part* (a file with the folder beneath it), so that two folders do not lean on each other by different
//! files.
//!
//! An import is a path in a `use`, in an expression, in a type or in the arguments of a macro. It leads to the file
//! that defines the item: a re-export is followed, and is an import itself only where the file also uses the name. Code
//! for tests, models and fuzzing is left out, and so are declarations of modules.
//!
//! Not seen: methods and fields (a value of a type can be used without its path).

mod graph;
mod tree;

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use graph::Graph;
use tree::Crate;

/// The roots of the checked crates: every `src/lib.rs` and `src/main.rs` of the workspace's folders.
fn roots(top: &Path) -> Vec<(String, std::path::PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    let entries = std::fs::read_dir(top).expect("the workspace's folder can be read");
    folders.extend(
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("Cargo.toml").exists()),
    );
    folders.push(top.join("ci/layers"));
    folders.sort();
    for folder in folders {
        let name = match folder.strip_prefix(top) {
            Ok(rest) if rest.as_os_str().is_empty() => "mad".to_owned(),
            Ok(rest) => rest.display().to_string(),
            Err(_) => continue,
        };
        for root in ["src/lib.rs", "src/main.rs"] {
            let path = folder.join(root);
            if path.exists() {
                found.push((name.clone(), path));
            }
        }
    }
    found
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let top = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders down");
    let mut circles = 0;
    for (name, root) in roots(top) {
        let krate = Crate::read(&root);
        let files = krate.imports();
        match arguments.first().map(String::as_str) {
            Some("--order") => {
                println!("{name}");
                for (level, parts) in Graph::of_parts(&files, "").levels().iter().enumerate() {
                    println!("  {level}: {}", parts.join(" · "));
                }
            }
            Some("--why") if arguments.len() == 4 => {
                if name == arguments[1] {
                    explain(&files, &arguments[2], &arguments[3]);
                }
            }
            Some(other) => {
                eprintln!(
                    "layers: {other} is not understood; --order, --why CRATE A B, or nothing"
                );
                return ExitCode::from(2);
            }
            None => circles += report(&name, &files),
        }
    }
    if circles > 0 {
        println!(
            "\n{circles} circles. Move what both sides need below both, or hand it down as a value or a small trait."
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Imports by file: the importing module, the module that defines the item, the items' names.
type Imports = BTreeMap<(String, String), Vec<String>>;

fn explain(files: &Imports, from: &str, to: &str) {
    let inside =
        |module: &str, part: &str| module == part || module.starts_with(&format!("{part}::"));
    for ((a, b), names) in files {
        if inside(a, from) && inside(b, to) {
            println!("  {a} -> {b}: {}", names.join(", "));
        }
    }
}

/// Prints the circles of one crate; their number.
fn report(name: &str, files: &Imports) -> usize {
    let mut count = 0;
    for circle in Graph::of_files(files).circles() {
        count += 1;
        println!("{name}: a circle of {} files", circle.len());
        for ((a, b), names) in files {
            if circle.contains(a) && circle.contains(b) {
                println!("  {a} -> {b}: {}", names.join(", "));
            }
        }
    }
    let mut folders: Vec<&str> = files
        .keys()
        .flat_map(|(a, b)| [a, b])
        .flat_map(|module| module.match_indices("::").map(|(at, _)| &module[..at]))
        .collect();
    folders.push("");
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        for circle in Graph::of_parts(files, folder).circles() {
            count += 1;
            let place = if folder.is_empty() { "the crate" } else { folder };
            println!(
                "{name}: in {place}, a circle of {} parts: {}",
                circle.len(),
                circle.join(", ")
            );
        }
    }
    count
}
