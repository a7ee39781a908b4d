# What kind each argument is, and how Fortran declares it. `index` is the number of the parameter in F's list.

# Whether a call changes an argument which C has a pointer to. Other such arguments are results.
function changes(i) {
    if (name[i] ~ /^(position|dims|buflen|pset_len)$/ || name[i] == "message" && F ~ /^I?[Mm]recv(_c)?$/) return 1
    return (handle[i] || name[i] ~ /keyval$/) &&
        F ~ /^(.*_(free|disconnect|close|free_keyval)|Keyval_free|Session_finalize|Start|Wait|Test|Type_commit)$/
}

# Calls that return before they are done with their buffers, or past which the program's accesses to memory must not move.
function is_asynchronous() {
    return F ~ /^(I[a-z]+|.*_init|R(put|get|accumulate|get_accumulate)|Put|Get|Accumulate|Get_accumulate)(_c)?$/ ||
        F ~ /^(Fetch_and_op|Compare_and_swap|Win_(create|attach|detach)|Buffer_attach|(Comm|Session)_buffer_attach)(_c)?$/ ||
        F ~ /^((Comm|Session)_attach_buffer|Ineighbor_.*|Ireduce_.*|Isendrecv_replace|Get_address|Free_mem)(_c)?$/ ||
        F ~ /^File_((iread|iwrite).*|.*_(begin|end))(_c)?$/
}

# The kind of an argument: `Procedure` of the program that MPI calls back, `Value` of an attribute or what callbacks get,
# `Memory` that a call gives, `Detached` buffer, choice `Buffer`, `Status`, `Handle`, array of `Handles`, `Text` that a
# call reads, `TextOut` that it writes, array of `Texts`, `Codes` of programs that are started, `Weights` of a graph's
# edges, `Count` of the `Places` that follow, `Place` of a request in an array, `Absent` in Fortran; else `Number`s.
function kind(i) {
    if ((name[i] == "argc" || name[i] == "argv") && F != "Comm_spawn") return "Absent"
    if (type[i] ~ /_function(_c)?$/) return "Procedure"
    if (name[i] == "extra_state" || name[i] == "attribute_val") return "Value"
    if (name[i] == "baseptr") return "Memory"
    if (name[i] == "buffer_addr") return "Detached"
    if (type[i] == "void") return "Buffer"
    if (type[i] == "MPI_Status") return "Status"
    if (handle[i]) return array[i] ? "Handles" : "Handle"
    if (type[i] == "char" && (array[i] && !const[i] || stars[i] > 1)) return "Texts"
    if (type[i] == "char") return const[i] ? "Text" : "TextOut"
    if (name[i] == "array_of_errcodes") return "Codes"
    if (name[i] ~ /^(sourceweights|destweights|weights)$/) return "Weights"
    if (name[i] == "outcount" && stars[i]) return "Count"
    if (name[i] == "indx" && stars[i]) return "Place"
    if (name[i] == "array_of_indices") return "Places"
    return "Number"
}

function is_value(i) { return !stars[i] && !array[i] }

# in, out or inout.
function intent(i) {
    # C has pointers to these without a `const`.
    if (is_value(i) || const[i] || name[i] == "ranges" || F == "Cancel") return "in"
    if (kind(i) == "Handles") return name[i] == "array_of_datatypes" ? "out" : "inout"
    return changes(i) ? "inout" : "out"
}

# Its name in Fortran.
function called(i) { return name[i] == "indx" ? "index" : name[i] }

function integer(type) {
    if (type == "MPI_Aint") return "integer(kind=MPI_ADDRESS_KIND)"
    if (type == "MPI_Count") return "integer(kind=MPI_COUNT_KIND)"
    if (type == "MPI_Offset") return "integer(kind=MPI_OFFSET_KIND)"
    return "integer"
}

function choice(i, attributes) {
    return "!GCC$ ATTRIBUTES NO_ARG_CHECK :: " name[i] "\n      type(*), dimension(*)" attributes " :: " name[i]
}

# Its declaration in a module. `f08`: in mpi_f08, where handles have types of their own. `pointer`: memory that a call gives
# is a C pointer, not an address.
function declaration(i, f08, pointer,    what, in_only, shape) {
    what = kind(i)
    in_only = const[i] ? ", intent(in)" : ""
    if (what == "Procedure") return f08 ? "procedure(" type[i] ") :: " name[i] : "external :: " name[i]
    if (what == "Value") {
        shape = F ~ /^(Attr|Keyval)_/ ? "integer" : integer("MPI_Aint")
        return shape ", intent(" (F ~ /_get|_Get/ && name[i] == "attribute_val" ? "out" : "in") ") :: " name[i]
    }
    if (what == "Memory" || what == "Detached" && f08)
        return (f08 || pointer ? "type(madmpi_c_ptr)" : integer("MPI_Aint")) ", intent(out) :: " name[i]
    if (what == "Detached") return choice(i, "")
    # gfortran takes it that a call forgets the address of an argument, unless that is a target. So variables that the
    # program has not declared ASYNCHRONOUS are read again after the wait, too.
    if (what == "Buffer") return choice(i, in_only (is_asynchronous() ? ", asynchronous, target" : ""))
    if (what == "Status") {
        shape = name[i] == "array_of_statuses"
        if (f08) return "type(MPI_Status)" in_only " :: " name[i] (shape ? "(*)" : "")
        return "integer" in_only " :: " name[i] "(MPI_STATUS_SIZE" (shape ? ",*)" : ")")
    }
    if (what == "Texts")
        return "character(len=*), intent(in) :: " name[i] (name[i] == "array_of_argv" ? "(count,*)" : "(*)")
    if (what ~ /^Text/) return "character(len=*), intent(" (what == "Text" ? "in" : "out") ") :: " name[i]
    if (what == "Codes") return "integer :: " name[i] "(*)"
    if (what == "Weights") return "integer" in_only " :: " name[i] "(*)"
    shape = array[i] == "[][3]" ? "(3,*)" : array[i] ? "(*)" : ""
    if (handle[i]) what = f08 ? "type(MPI_" handle[i] ")" : "integer"
    else if (name[i] ~ /^(flag|commute|reorder|high|periods|remain_dims|weighted|is_set)$/) what = "logical"
    else what = integer(type[i])
    return what ", intent(" intent(i) ") :: " called(i) shape
}

# What tells an argument from another in its place, for the compiler. Addresses and counts are of one kind.
function distinct(i,    what) {
    what = kind(i)
    if (what == "Value" || type[i] ~ /^MPI_(Aint|Count|Offset)$/) return "wide"
    return what == "Number" ? type[i] : what
}
