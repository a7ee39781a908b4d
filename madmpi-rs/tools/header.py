#!/usr/bin/env python3
"""Writes include/mpi.h from the tables in abi/: run it after a change there (a test compares them)."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HANDLES = "Comm Datatype Errhandler File Group Info Message Op Request Session Win".split()
TOOL_HANDLES = "enum cvar_handle pvar_handle pvar_session event_registration event_instance".split()
HEAD = """\
/* MPI 5.0 in C, by the standard ABI: made by tools/header.py from abi/functions.txt and abi/constants.txt. */
#ifndef MADMPI_MPI_H
#define MADMPI_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Fint;

typedef struct {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;
"""
CALLBACKS = """\
typedef void (MPI_User_function)(void *invec, void *inoutvec, int *len, MPI_Datatype *datatype);
typedef void (MPI_User_function_c)(void *invec, void *inoutvec, MPI_Count *len, MPI_Datatype *datatype);
typedef int (MPI_Grequest_query_function)(void *extra_state, MPI_Status *status);
typedef int (MPI_Grequest_free_function)(void *extra_state);
typedef int (MPI_Grequest_cancel_function)(void *extra_state, int complete);
typedef int (MPI_Datarep_extent_function)(MPI_Datatype datatype, MPI_Aint *extent, void *extra_state);
typedef int (MPI_Datarep_conversion_function)(void *userbuf, MPI_Datatype datatype, int count, void *filebuf,
                                              MPI_Offset position, void *extra_state);
typedef int (MPI_Datarep_conversion_function_c)(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf,
                                                MPI_Offset position, void *extra_state);
"""
FORTRAN = """\
#if defined(__GNUC__)
#define MPI_ABI_INLINE static __inline__
#else
#define MPI_ABI_INLINE static inline
#endif

/* A status of `mpi_f08`; one of `mpif.h` is MPI_F_STATUS_SIZE numbers. Both have the layout of MPI_Status. */
typedef MPI_Status MPI_F08_status;
/* Of the library of Fortran: a C part that names them is linked by mpifort, or with -lmadmpi_fortran. */
extern MPI_Fint *MPI_F_STATUS_IGNORE;
extern MPI_Fint *MPI_F_STATUSES_IGNORE;
extern MPI_F08_status *MPI_F08_STATUS_IGNORE;
extern MPI_F08_status *MPI_F08_STATUSES_IGNORE;

MPI_ABI_INLINE int MPI_ABI_Status_copy(const void *from, void *to) {
    int place;
    if (!from || !to) return MPI_ERR_ARG;
    for (place = 0; place < MPI_F_STATUS_SIZE; place++) ((int *)to)[place] = ((const int *)from)[place];
    return MPI_SUCCESS;
}
"""
C, F, F08 = ("MPI_Status", "c_status"), ("MPI_Fint", "f_status"), ("MPI_F08_status", "f08_status")
STATUSES = [("c2f", C, F), ("f2c", F, C), ("c2f08", C, F08), ("f082c", F08, C), ("f2f08", F, F08), ("f082f", F08, F)]
TOOL = """\
typedef enum MPI_T_cb_safety {
    MPI_T_CB_REQUIRE_NONE = 0x00,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED = 0x03,
    MPI_T_CB_REQUIRE_THREAD_SAFE = 0x0F,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE = 0x3F
} MPI_T_cb_safety;
typedef enum MPI_T_source_order {
    MPI_T_SOURCE_ORDERED = 1,
    MPI_T_SOURCE_UNORDERED = 2
} MPI_T_source_order;
typedef void (MPI_T_event_cb_function)(MPI_T_event_instance event_instance,
                                       MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                       void *user_data);
typedef void (MPI_T_event_free_cb_function)(MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                            void *user_data);
typedef void (MPI_T_event_dropped_cb_function)(MPI_Count count, MPI_T_event_registration event_registration,
                                               int source_index, MPI_T_cb_safety cb_safety, void *user_data);
"""


def rows(name):
    for line in (ROOT / "abi" / name).read_text().splitlines():
        if line and not line.startswith("#"):
            yield line


def callbacks():
    out = [CALLBACKS]
    for kind, handle in (("", "MPI_Comm"), ("Comm_", "MPI_Comm"), ("Type_", "MPI_Datatype"), ("Win_", "MPI_Win")):
        copy, delete = (f"MPI_{kind}{what}" for what in
                        (("copy_attr_function", "delete_attr_function") if kind else ("Copy_function", "Delete_function")))
        arg = "datatype" if kind == "Type_" else handle[4:].lower()
        out.append(f"typedef int ({copy})({handle} {arg}, int keyval, void *extra_state, void *attribute_val_in,\n"
                   f"    void *attribute_val_out, int *flag);\n")
        out.append(f"typedef int ({delete})({handle} {arg}, int keyval, void *attribute_val, void *extra_state);\n")
    for handle in ("Comm", "File", "Win", "Session"):
        out.append(f"typedef void (MPI_{handle}_errhandler_function)(MPI_{handle} *{handle.lower()}, int *error_code, ...);\n")
        out.append(f"typedef MPI_{handle}_errhandler_function MPI_{handle}_errhandler_fn;\n")
    return "".join(out)


def constants():
    for line in rows("constants.txt"):
        name, kind, value = line.split()
        if name.startswith(("MPI_T_CB_", "MPI_T_SOURCE_")):
            continue
        if kind == "=":
            yield f"#define {name} {value}\n"
        elif kind == "int":
            yield f"#define {name} {value}\n" if not value.startswith("-") else f"#define {name} ({value})\n"
        else:
            yield f"#define {name} (({kind}){value})\n"


def conversions():
    """Handles and statuses of Fortran, for C. The ABI has no functions of these names, so they are in the header."""
    yield FORTRAN
    for handle in HANDLES:
        kind = "Type" if handle == "Datatype" else handle
        argument = handle.lower()
        yield f"MPI_ABI_INLINE MPI_Fint MPI_{kind}_c2f(MPI_{handle} {argument}) {{ return MPI_{kind}_toint({argument}); }}\n"
        yield f"MPI_ABI_INLINE MPI_{handle} MPI_{kind}_f2c(MPI_Fint {argument}) {{ return MPI_{kind}_fromint({argument}); }}\n"
    for name, source, target in STATUSES:
        (source, given), (target, made) = source, target
        yield (f"MPI_ABI_INLINE int MPI_Status_{name}(const {source} *{given}, {target} *{made}) {{\n"
               f"    return MPI_ABI_Status_copy({given}, {made});\n}}\n")


def main():
    out = [HEAD, "\n"]
    out += [f"typedef struct MPI_ABI_{handle} *MPI_{handle};\n" for handle in HANDLES]
    out += [f"typedef struct MPI_T_{handle}_t *MPI_T_{handle};\n" for handle in TOOL_HANDLES]
    out += ["\n", callbacks(), "\n", TOOL, "\n"]
    out += constants()
    out.append("\n")
    functions = list(rows("functions.txt"))
    out += [f"{function}\n" for function in functions]
    out.append("\n")
    out += [re.sub(r"\bMPI_(\w+)\(", r"PMPI_\1(", function, count=1) + "\n" for function in functions]
    out += ["\n", *conversions(), "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"]
    (ROOT / "include" / "mpi.h").write_text("".join(out))


main()
