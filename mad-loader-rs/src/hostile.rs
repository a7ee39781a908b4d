//! Files that break the format, made from any bytes: for tests and `fuzz/`.

use crate::check::check;
use crate::elf::Elf;
use crate::program;

/// Reads `file` as [`Program::open`](crate::Program::open) and [`inspect`](crate::inspect) do, up to the template of its
/// copies. The result is whether the file would be accepted.
pub fn parse(file: &[u8]) -> bool {
    let Ok(elf) = Elf::parse(file) else { return false };
    let _ = (elf.writable_bytes(), elf.writable_names(file), elf.layout.span());
    let Ok(references) = elf.references(file) else { return false };
    program::rehearse(&elf, file.to_vec(), &references);
    check(&elf, &references, file).is_ok()
}

/// The target: `input` as a file, then as changes of a small program that would be accepted.
///
/// A change has 5 bytes: two of its place, one of how many bytes it writes, two of their value. The first two bytes of
/// the input cut the file.
pub fn run(input: &[u8]) {
    parse(input);
    let mut file = program();
    let number = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let (cut, changes) = input.split_at(input.len().min(2));
    for change in changes.chunks_exact(5) {
        let (at, width) = (number(change) % file.len(), 1 << (change[2] % 4));
        // Numbers around those that the file has, and around the ends of what a word holds.
        let value = match change[2] >> 6 {
            0 => number(&change[3..]) as u64,
            1 => (number(&change[3..]) as u64).wrapping_neg(),
            2 => 1 << (change[3] % 64),
            _ => (1u64 << (change[3] % 64)).wrapping_sub(u64::from(change[4]) % 64),
        };
        let end = file.len().min(at + width);
        file[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
    }
    if let [_, _] = cut
        && number(cut) % 4 == 0
    {
        file.truncate(number(cut) / 4 % 2048);
    }
    parse(&file);
}

/// A program of about 1,400 bytes with something of everything that is read: thread-locals, constructors, copied
/// variables, relocations of each kind, tables of hashes of both kinds. It has no section headers, which are not read.
pub fn program() -> Vec<u8> {
    const TEXT: u64 = 0x200;
    const DATA: u64 = 0x400;
    const END: u64 = 0x580;
    let names = b"\0libc.so.6\0__libc_start_main\0stdout\0own\0local\0a.out\0";
    let name = |text: &[u8]| {
        let at = names.windows(text.len() + 1).position(|w| w[0] == 0 && w[1..] == *text);
        at.map_or(0, |at| at as u64 + 1)
    };
    let mut file = vec![0; END as usize];
    let put = |file: &mut Vec<u8>, at: u64, bytes: &[u8]| {
        file[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    };
    let words = |file: &mut Vec<u8>, at: u64, words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        put(file, at, &bytes);
    };
    put(&mut file, 0, b"\x7fELF\x02\x01\x01");
    // Shared object, x86-64, version; entry, program headers; sizes and numbers of headers.
    words(&mut file, 16, &[3 | 62 << 16 | 1 << 32, TEXT, 64, 0]);
    words(&mut file, 48, &[64 << 32 | 56 << 48, 7]);
    let headers = [
        (1 | 5 << 32, 0, 0, DATA, DATA, 0x1000),
        (1 | 6 << 32, DATA, 0x1000 + DATA, END - DATA, 0x300, 0x1000),
        (2 | 6 << 32, DATA, 0x1000 + DATA, 17 * 16, 17 * 16, 8),
        (3 | 4 << 32, 0x3e0, 0x3e0, 28, 28, 1),
        (7 | 4 << 32, DATA + 0x150, 0x1000 + DATA + 0x150, 4, 8, 8),
        (0x6474_e551 | 6 << 32, 0, 0, 0, 0, 16),
        (0x6474_e552 | 4 << 32, DATA, 0x1000 + DATA, 0x100, 0x100, 1),
    ];
    for (index, (kind, offset, address, in_file, in_memory, alignment)) in (0..).zip(headers) {
        let header = [kind, offset, address, address, in_file, in_memory, alignment];
        words(&mut file, 64 + 56 * index, &header);
    }
    // Names; symbols: none, a function, a copied variable, an own variable, an own thread-local; relocations.
    put(&mut file, TEXT, names);
    let symbol = |text: &[u8], kind: u64, section: u64, value: u64, size: u64| {
        [name(text) | kind << 32 | section << 48, value, size]
    };
    let symbols = [
        [0; 3],
        symbol(b"__libc_start_main", 0x12, 0, 0, 0),
        symbol(b"stdout", 0x11, 1, 0x1600, 8),
        symbol(b"own", 0x11, 1, 0x1608, 8),
        symbol(b"local", 0x16, 1, 4, 4),
    ];
    words(&mut file, TEXT + 0x60, symbols.as_flattened());
    let data = 0x1000 + DATA + 0x110;
    let relocations: [[u64; 3]; 8] = [
        [data, 6 | 1 << 32, 0],
        [0x1600, 5 | 2 << 32, 0],
        [data + 8, 1 | 3 << 32, 4],
        [data + 16, 16 | 4 << 32, 0],
        [data + 24, 17 | 4 << 32, 0],
        [data + 32, 16, 0],
        [data + 40, 8, 0x200],
        [data + 48, 7 | 1 << 32, 0],
    ];
    words(&mut file, TEXT + 0xe0, relocations.as_flattened());
    // Hashes: one bucket, five symbols; one bucket that begins with symbol 2, no filter, the last of three hashes is odd.
    words(&mut file, TEXT + 0x1a0, &[1 | 5 << 32, 1, 0, 0]);
    words(&mut file, TEXT + 0x1c0, &[1 | 2 << 32, 0, 2, 1 << 32]);
    put(&mut file, 0x3e0, b"/lib64/ld-linux-x86-64.so.2\0");
    let dynamic = [
        [1, name(b"libc.so.6")],
        [14, name(b"a.out")],
        [5, TEXT],
        [10, names.len() as u64],
        [6, TEXT + 0x60],
        [7, TEXT + 0xe0],
        [8, 7 * 24],
        [23, TEXT + 0xe0 + 7 * 24],
        [2, 24],
        [12, TEXT],
        [25, data + 40],
        [27, 8],
        [30, 8],
        [0x6fff_fffb, 1],
        [4, TEXT + 0x1a0],
        [0x6fff_fef5, TEXT + 0x1c0],
        [0, 0],
    ];
    words(&mut file, DATA, dynamic.as_flattened());
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::OwnValue;
    use crate::refusal::Refusal;
    use proptest::prelude::*;

    #[test]
    fn the_small_program_would_be_accepted_and_is_read_whole() {
        let file = program();
        let elf = Elf::parse(&file).unwrap();
        let references = elf.references(&file).unwrap();
        check(&elf, &references, &file).unwrap();
        assert!(parse(&file));
        assert_eq!(elf.dynamic.needed, ["libc.so.6"]);
        assert_eq!(elf.interpreter.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(references.pointers.len(), 2);
        assert_eq!(references.own.len(), 3);
        assert_eq!(references.copied[0].name, "stdout");
        assert_eq!(elf.writable_names(&file).unwrap(), ["stdout", "own"]);
        assert_eq!(elf.exports(&file, &["own"]).unwrap().as_deref(), Some("own"));
        assert_eq!(elf.layout.thread_locals().map(|locals| locals.in_memory), Some(8));
    }

    #[test]
    fn either_table_of_hashes_tells_how_many_symbols_there_are() {
        let names = |file: &[u8]| Elf::parse(file).unwrap().writable_names(file);
        let expected = ["stdout", "own"];
        let (hash, gnu_hash) = (0x400 + 14 * 16, 0x400 + 15 * 16);
        let mut file = program();
        file[gnu_hash] = 0; // another tag
        assert_eq!(names(&file).unwrap(), expected);
        file[hash] = 0; // the end
        assert_eq!(names(&file).unwrap(), [""; 0]);
        let mut file = program();
        file[hash] = 0x7f; // another tag
        assert_eq!(names(&file).unwrap(), expected);
        // Buckets, symbols without a hash, words of the filter, a bucket's symbol: more than there are.
        for at in [0x3c0, 0x3c4, 0x3c8, 0x3d0] {
            let mut file = file.clone();
            file[at..at + 4].copy_from_slice(&(1u32 << 30).to_le_bytes());
            assert!(matches!(names(&file), Err(Refusal::Damaged(_))), "{at:#x}");
        }
    }

    #[test]
    fn a_resolver_is_called_in_code_only() {
        let mut file = program();
        let own = 0x260 + 3 * 24;
        file[own + 4] = 0x1a; // a function whose address a resolver chooses
        let elf = Elf::parse(&file).unwrap();
        assert!(matches!(elf.references(&file), Err(Refusal::Damaged(_))), "it is in data");
        file[own + 8..own + 16].copy_from_slice(&0x210u64.to_le_bytes());
        let references = elf.references(&file).unwrap();
        assert!(references.has_resolvers);
        let value = OwnValue::Resolved { resolver: 0x210, addend: 4 };
        assert!(references.own.iter().any(|word| word.value == value), "{:?}", references.own);
        assert!(parse(&file));
    }

    /// The dynamic linker reads the section of the last header, up to its end, from what is mapped last.
    #[test]
    fn what_is_read_is_what_the_dynamic_linker_reads() {
        let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut file = program();
            change(&mut file);
            Elf::parse(&file).err()
        };
        let header = |number: usize| 64 + 56 * number;
        let damaged = |what: &str| Some(Refusal::Damaged(what.into()));
        let second = refusal(&|file| file.copy_within(header(2)..header(3), header(5)));
        assert_eq!(second, damaged("it has several dynamic sections"));
        let short = refusal(&|file| file[header(2) + 32] = 0);
        assert_eq!(short, damaged("its dynamic section has no end"));
        // The first segment reaches into the second one's page.
        let shared = refusal(&|file| {
            file[header(0) + 40..][..8].copy_from_slice(&0x1200u64.to_le_bytes());
        });
        assert_eq!(shared, damaged("its segments overlap, or are out of order"));
    }

    /// Every byte that is read is wrong once, in each of its bits.
    #[test]
    fn each_bit_of_the_small_program_may_be_wrong() {
        let file = program();
        let mut refused = 0;
        for bit in 0..file.len() * 8 {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(!parse(&file));
        }
        assert!(refused > 1000, "{refused} of {} changes are refused", file.len() * 8);
    }

    #[test]
    fn each_cut_of_the_small_program_is_refused_as_damaged() {
        let file = program();
        for len in 4..0x580 {
            let refusal = Elf::parse(&file[..len]).err();
            assert!(matches!(refusal, Some(Refusal::Damaged(_))), "{len}: {refusal:?}");
        }
    }

    fn input() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
        #[test]
        fn any_file_is_read_without_a_panic(input in input()) {
            run(&input);
        }

        #[test]
        fn any_bytes_behind_a_right_beginning_are_read_without_a_panic(rest in input()) {
            let mut file = program();
            file.truncate(64);
            file.extend(rest);
            parse(&file);
        }
    }
}
