# Writes what the modules say of procedures, from functions.txt: interfaces.f90 and names.f90 for mpi; interfaces_f08.f90
# and names_f08.f90 for mpi_f08.

# One procedure with its arguments.
function interface_of(procedure, f08, pointer,    i, text, line, count, declarations) {
    line = "    subroutine " procedure "("
    for (i = 1; i <= N; i++) {
        if (kind(i) == "Absent") continue
        # A line of Fortran is not longer than 132.
        if (length(line) + length(called(i)) > 116) {
            sub(/ $/, "", line)
            text = text line " &\n"
            line = "        "
        }
        line = line called(i) ", "
        declarations = declarations "      " declaration(i, f08, pointer) "\n"
    }
    return text line "ierror)\n      import\n" declarations \
        "      integer, " (f08 ? "optional, " : "") "intent(out) :: ierror\n    end subroutine"
}

# One name for several procedures, and its PMPI_ twin.
function generic(short, procedures, file,    count, all, i, p) {
    count = split(procedures, all, " ")
    for (p = 0; p < 2; p++) {
        print "  interface " (p ? "PMPI_" : "MPI_") short >file
        for (i = 1; i <= count; i++) print "    procedure " (p ? "PMPI_" : "MPI_") all[i] >file
        print "  end interface" >file
    }
}

function twin(procedure, file) { print "  procedure(MPI_" procedure ") :: PMPI_" procedure >file }

function for_mpi(    interfaces, names, i, pointer) {
    interfaces = folder "/interfaces.f90"
    names = folder "/names.f90"
    for (i = 1; i <= N; i++) if (kind(i) == "Memory") pointer = 1
    if (!pointer) {
        print interface_of("MPI_" F, 0, 0) >interfaces
        twin(F, names)
        return
    }
    # Memory is an address or a C pointer, as the program declares it.
    print interface_of("MPI_" F "_address", 0, 0) >interfaces
    print interface_of("MPI_" F "_cptr", 0, 1) >interfaces
    twin(F "_address", names)
    twin(F "_cptr", names)
    generic(F, F "_address " F "_cptr", names)
}

function for_f08(    i) {
    print interface_of("MPI_" F "_f08", 1, 0) >(folder "/interfaces_f08.f90")
    twin(F "_f08", folder "/names_f08.f90")
    kinds[F] = ""
    for (i = 1; i <= N; i++) kinds[F] = kinds[F] " " distinct(i)
    all_names[++name_count] = F
}

/^#/ || !NF || !read_function($0) { next }

!/_c\(/ { for_mpi() }

# The calls that MPI-2 deprecated are not in mpi_f08.
F !~ /^(Attr_(delete|get|put)|Keyval_(create|free))$/ { for_f08() }

# In mpi_f08 a call and its form for large counts have one name, if the compiler can tell them apart by their arguments.
# These two have names of their own by the standard.
function has_own_name(short) { return short == "Op_create_c" || short == "Register_datarep_c" }

END {
    for (i = 1; i <= name_count; i++) {
        F = all_names[i]
        large = F "_c"
        if (F ~ /_c$/ && !has_own_name(F)) continue
        if (large in kinds && !has_own_name(large) && kinds[large] != kinds[F]) procedures = F "_f08 " large "_f08"
        else procedures = F "_f08"
        generic(F, procedures, folder "/names_f08.f90")
    }
}
