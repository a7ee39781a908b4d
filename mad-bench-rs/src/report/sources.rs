//! The works that the report cites, each by its key in brackets.

/// Key and work, as in docs/bibliography.md.
pub(super) const WORKS: [(&str, &str); 5] = [
    (
        "Trahay07",
        "F. Trahay, A. Denis, O. Aumage, R. Namyst: Improving Reactivity and Communication Overlap in MPI using a Generic \
         I/O Manager. EuroPVM/MPI 2007",
    ),
    (
        "Trahay09",
        "F. Trahay: De l'interaction des communications et de l'ordonnancement de threads au sein des grappes de machines \
         multi-cœurs. Doctoral thesis, Université Bordeaux 1, 2009",
    ),
    (
        "Didelot14",
        "S. Didelot: Improving memory consumption and performance scalability of HPC applications with multi-threaded \
         network communications. Doctoral thesis, Université de Versailles-Saint-Quentin, 2014",
    ),
    (
        "Mythos16",
        "R. Rotta, V. Nikolov, L. Schubert: Communication in MyThOS. White paper, 19 April 2016",
    ),
    (
        "Goedefroit23",
        "C. Goedefroit: Interruptions en espace utilisateur pour le réseau BXI. Master's thesis (Inria, Atos), 8 August 2023",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::SECTIONS;

    #[test]
    fn a_work_is_called_here_what_the_bibliography_calls_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/bibliography.md");
        let bibliography = std::fs::read_to_string(path).unwrap().replace('*', "");
        for (key, work) in WORKS {
            assert!(bibliography.contains(&format!("| [{key}] | {work}")), "{key}");
        }
    }

    #[test]
    fn a_section_cites_a_work_that_is_listed_and_cites_it_once() {
        for section in SECTIONS {
            let cited: Vec<&str> = section
                .found
                .split('[')
                .skip(1)
                .filter_map(|rest| Some(rest.split_once(']')?.0))
                .collect();
            for (index, key) in cited.iter().enumerate() {
                assert!(WORKS.iter().any(|(known, _)| known == key), "{key}");
                assert!(!cited[..index].contains(key), "{}: {key} twice", section.title);
            }
            assert!(!cited.is_empty() || section.found.starts_with("Not an experiment"));
        }
    }
}
