# The tables of the ABI. For each function of C the other files find in these variables:
#
# F         its name without MPI_
# N         how many parameters it has; for each i of them, as C declares it:
# name[i]   its name
# type[i]   its type, without const and stars
# const[i], stars[i], array[i]   whether it is const, how many stars, and "", "[]" or "[][3]"
# handle[i] Comm for an MPI_Comm, and so on; "" for what is not a handle

BEGIN {
    handles = "Comm Datatype Errhandler File Group Info Message Op Request Session Win"
    handle_count = split(handles, handle_kinds, " ")
    for (i in handle_kinds) is_handle["MPI_" handle_kinds[i]] = 1
    split("a b c d e f", digits, " ")
    for (i in digits) digit[digits[i]] = i + 9
    for (i = 0; i < 10; i++) digit[i] = i
}

# The number that a decimal or hexadecimal text says.
function number(text,    value, at) {
    if (text !~ /^0x/) return text + 0
    value = 0
    for (at = 3; at <= length(text); at++) value = value * 16 + digit[tolower(substr(text, at, 1))]
    return value
}

# Reads a function's line; whether Fortran has the function. It has no tool interface, no handles as numbers, which its
# handles are, and what does not return an error code is written by hand.
function read_function(line,    open, inside, count, texts, i) {
    open = index(line, "(")
    if (line !~ /^int MPI_/ || line ~ /^int MPI_(T_|Pcontrol)/ || line ~ /_(to|from)int\(/) return 0
    F = substr(line, 9, open - 9)
    inside = substr(line, open + 1, length(line) - open - 2)
    N = 0
    count = inside == "void" ? 0 : split(inside, texts, ", ")
    for (i = 1; i <= count; i++) read_parameter(texts[i], ++N)
    return 1
}

function read_parameter(text, i,    bracket) {
    const[i] = sub(/^const /, "", text)
    array[i] = ""
    if (bracket = index(text, "[")) {
        array[i] = substr(text, bracket)
        text = substr(text, 1, bracket - 1)
    }
    stars[i] = gsub(/\*/, "", text)
    if (text !~ /^[A-Za-z_0-9]+ [A-Za-z_0-9]+$/) stop("functions.txt: \"" text "\" is not understood")
    type[i] = substr(text, 1, index(text, " ") - 1)
    name[i] = substr(text, index(text, " ") + 1)
    handle[i] = type[i] in is_handle ? substr(type[i], 5) : ""
}

function stop(message) {
    print "fortran/generate: " message | "cat 1>&2"
    exit 1
}
