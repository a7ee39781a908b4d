# Writes wrappers.c from functions.txt: the C functions that Fortran calls, without those that special.c has.

# Whether a table cannot say what is to be done with the arguments.
function is_special(    i) {
    if (F ~ /^Comm_idup/) return 1
    for (i = 1; i <= N; i++) {
        if (kind(i) ~ /^(Procedure|Value|Detached|Texts|Codes|Absent)$/ || name[i] ~ /^(buflen|pset_len)$/) return 1
        if (name[i] == "valuelen" && F != "Info_get_valuelen") return 1
    }
    return 0
}

function to_c(i) { return "MPI_" (handle[i] == "Datatype" ? "Type" : handle[i]) "_fromint" }
function to_fortran(i) { return "MPI_" (handle[i] == "Datatype" ? "Type" : handle[i]) "_toint" }
function null(i) { return "MPI_" toupper(handle[i]) "_NULL" }

# The parameter of the C function.
function takes(i,    what) {
    what = kind(i)
    if (what ~ /^(Buffer|Memory)$/) return "void *" name[i]
    if (what == "Status") return "MPI_Status *" name[i]
    if (what ~ /^Text/) return "char *" name[i]
    what = handle[i] || type[i] == "int" ? "MPI_Fint" : type[i]
    return array[i] == "[][3]" ? what " (*" name[i] ")[3]" : what " *" name[i]
}

# How many handles an array has.
function elements(i,    j, side, which) {
    for (j = 1; j <= N; j++) if (name[j] ~ /^(count|incount|max_datatypes)$/) return "*" name[j]
    side = name[i] == "sendtypes"
    which = F !~ /eighbor/ ? "MEMBERS" : side ? "DESTINATIONS" : "SOURCES"
    return (side ? "IS_IN_PLACE(sendbuf) ? 0 : " : "") "madmpi_members(MPI_Comm_fromint(*comm), " which ")"
}

# What stands before the call. `c` is the argument as C has it.
function before(i, c,    what, start) {
    what = kind(i)
    start = intent(i) == "out" ? null(i) : to_c(i)
    if (what == "Handle" && !is_value(i))
        return "MPI_" handle[i] " " c " = " start (intent(i) == "out" ? "" : "(*" name[i] ")") ";"
    if (what == "Handles")
        return "HANDLES(MPI_" handle[i] ", " c ", " elements(i) ");\n    for (MPI_Count at = 0; at < " c "_count; at++) " \
            c "[at] = " start (intent(i) == "out" ? "" : "(" name[i] "[at])") ";"
    # Blanks at the end are no part of a string; in info objects, nor are those at its start.
    if (what == "Text")
        return "char *" c " = madmpi_c_string(" name[i] ", " name[i] "_length, " \
            (F ~ /^Info_/ ? "BOTH_ENDS" : "THE_END") ");"
    if (what == "TextOut") return "char " c "[MPI_MAX_" longest(i) "] = \"\";"
    if (what ~ /^(Count|Place)$/) return "int " c " = MPI_UNDEFINED;"
    return ""
}

# The longest string that C may write.
function longest(i) {
    if (name[i] ~ /^(comm|type|win)_name$/) return "OBJECT_NAME"
    if (name[i] == "string") return "ERROR_STRING"
    if (name[i] == "version") return "LIBRARY_VERSION_STRING"
    if (name[i] == "name") return "PROCESSOR_NAME"
    if (name[i] == "key") return "INFO_KEY"
    if (name[i] == "port_name") return "PORT_NAME"
    if (name[i] == "datarep") return "DATAREP_STRING"
    stop("wrappers.awk: how long is " name[i] " of MPI_" F "?")
}

# What the call is given.
function passed(i, c,    what) {
    what = kind(i)
    if (what == "Buffer") return "BUFFER(" name[i] ")"
    if (what == "Weights") return "WEIGHTS(" name[i] ")"
    if (what == "Status") {
        if (const[i] || F ~ /_set_/) return name[i]
        return (name[i] == "array_of_statuses" ? "STATUSES(" : "STATUS(") name[i] ")"
    }
    if (what == "Handle") return is_value(i) ? to_c(i) "(*" name[i] ")" : "&" c
    if (what ~ /^(Handles|Text|TextOut)$/) return c
    if (what ~ /^(Count|Place)$/) return "&" c
    return what == "Number" && is_value(i) ? "*" name[i] : name[i]
}

# What stands after the call.
function after(i, c,    what, store, text) {
    what = kind(i)
    if (what == "Count") return "*" name[i] " = " c ";"
    # Fortran counts places from 1. MPI_UNDEFINED, which is negative, stays as it is.
    if (what == "Place") return "*" name[i] " = " c " < 0 ? " c " : " c " + 1;"
    if (what == "Places") return "for (int at = 0; at < outcount_c; at++) " name[i] "[at]++;"
    if (what == "Text") return "free(" c ");"
    if (what == "TextOut") {
        text = "if (code == MPI_SUCCESS) madmpi_f_string(" name[i] ", " name[i] "_length, " c ");"
        if (name[i + 1] == "resultlen")
            text = text "\n    if (code == MPI_SUCCESS) CLIP(resultlen, " name[i] "_length);"
        return text
    }
    if (what == "Handle" && !is_value(i))
        return (is_settled(i) ? "SETTLE(*" name[i] ", " c ");\n    " : "") "*" name[i] " = " to_fortran(i) "(" c ");"
    if (what == "Handles") {
        if (const[i]) return "RELEASE(" c ");"
        store = name[i] "[at] = " to_fortran(i) "(" c "[at]);"
        if (intent(i) == "out") store = "if (" c "[at] != " null(i) ") " store
        else if (is_settled(i)) store = "{ SETTLE(" name[i] "[at], " c "[at]); " store " }"
        return "for (MPI_Count at = 0; at < " c "_count; at++) " store "\n    RELEASE(" c ");"
    }
    return ""
}

# Whether the call may end a request, which owes Fortran a handle (settle.c).
function is_settled(i) { return handle[i] == "Request" && intent(i) == "inout" && F != "Request_free" }

# Another name of the function: what the modules' procedures are called.
function also(ending) { print "ALSO(" tolower(F) ", " ending ")" >out }

function wrapper(    i, c, call, parameters, lengths, first, last, text, memory) {
    for (i = 1; i <= N; i++) {
        c = name[i] "_c"
        parameters = parameters takes(i) ", "
        if (kind(i) ~ /^Text/) lengths = lengths ", size_t " name[i] "_length"
        if (text = before(i, c)) first = first "    " text "\n"
        call = call (i > 1 ? ", " : "") passed(i, c)
        if (text = after(i, c)) last = last "    " text "\n"
        if (kind(i) == "Memory") memory = 1
    }
    print "\nvoid NAME(" tolower(F) ")(" parameters "MPI_Fint *ierror" lengths ") {" >out
    printf "%s", first >out
    print "    int code = MPI(" F ")(" call ");" >out
    printf "%s", last >out
    print "    if (ierror) *ierror = code;\n}" >out
    also("_f08")
    if (memory) {
        also("_address")
        also("_cptr")
    }
}

BEGIN {
    out = folder "/wrappers.c"
    print "#include \"binding.h\"" >out
}

/^#/ || !NF || !read_function($0) || is_special() { next }

{ wrapper() }
