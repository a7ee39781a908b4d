# Writes the constants, for mpif.h and the modules, from constants.txt: numbers.h (plain numbers), handles.h (predefined
# handles as numbers), handles.f90 (the same with types of their own) and types.f90, operators.f90 (these types).
# The lines of .h files are right in fixed and in free form: from column 7 to 72, without continuation.

function parameter(file, name, value) {
    print "      INTEGER " name >file
    print "      PARAMETER (" name "=" value ")" >file
}

function predefined(name, type, value) {
    parameter(folder "/handles.h", name, value)
    print "  type(MPI_" type "), parameter :: " name " = MPI_" type "(" value ")" >(folder "/handles.f90")
}

/^#/ || !NF { next }

$2 == "int" && $1 !~ /^MPI_(T|F)_/ {
    # A string of Fortran has no end mark, so its lengths are one less.
    parameter(folder "/numbers.h", $1, number($3) - ($1 ~ /^MPI_MAX_/))
}

$2 in is_handle { predefined($1, kind_of[$1] = substr($2, 5), known[$1] = number($3)) }

$2 == "=" && $3 in known { predefined($1, kind_of[$3], known[$3]) }

# The equality of handles.
function comparison(operator, what,    i, type) {
    print "  interface operator(" operator ")" >(folder "/types.f90")
    for (i = 1; i <= handle_count; i++) print "    procedure " what "_" handle_kinds[i] >(folder "/types.f90")
    print "  end interface" >(folder "/types.f90")
    for (i = 1; i <= handle_count; i++) {
        type = handle_kinds[i]
        print "  private :: " what "_" type >(folder "/types.f90")
        print "  elemental logical function " what "_" type "(one, other)" >(folder "/operators.f90")
        print "    type(MPI_" type "), intent(in) :: one, other" >(folder "/operators.f90")
        print "    " what "_" type " = one%MPI_VAL " operator " other%MPI_VAL" >(folder "/operators.f90")
        print "  end function" >(folder "/operators.f90")
    }
}

END {
    for (i = 1; i <= handle_count; i++)
        print "  type, bind(C) :: MPI_" handle_kinds[i] "\n    integer :: MPI_VAL\n  end type" >(folder "/types.f90")
    comparison("==", "equal")
    comparison("/=", "differ")
}
