/* The functions behind Fortran whose arguments differ from C's in more than a table says; the others are wrappers.c. */
#include "binding.h"

#include <string.h>

#define RETURN(code) \
    if (ierror) *ierror = (code)

/* What a call returns that has no procedure of C left for one of Fortran. The error handler in charge is called. */
static int none_left(void) { return MPI(Comm_call_errhandler)(MPI_COMM_SELF, MPI_ERR_NO_MEM), MPI_ERR_NO_MEM; }

/* Tells MPI the truth values of this compiler, of the default kind. gfortran's are 1 and 0. */
static void tell_booleans(void) {
    MPI_Fint yes = 1, no = 0;
    PMPI_Abi_set_fortran_booleans(sizeof(MPI_Fint), &yes, &no);
}

void NAME(init)(MPI_Fint *ierror) {
    int code = MPI(Init)(NULL, NULL);
    if (code == MPI_SUCCESS) tell_booleans();
    RETURN(code);
}
ALSO(init, _f08)

void NAME(init_thread)(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror) {
    int code = MPI(Init_thread)(NULL, NULL, *required, provided);
    if (code == MPI_SUCCESS) tell_booleans();
    RETURN(code);
}
ALSO(init_thread, _f08)

double NAME(wtime)(void) { return MPI(Wtime)(); }

double NAME(wtick)(void) { return MPI(Wtick)(); }

MPI_Aint NAME(aint_add)(MPI_Aint *base, MPI_Aint *disp) { return MPI(Aint_add)(*base, *disp); }

MPI_Aint NAME(aint_diff)(MPI_Aint *one, MPI_Aint *other) { return MPI(Aint_diff)(*one, *other); }

/* Info objects and sets of processes: strings of Fortran have no end mark, which C counts. */

void NAME(info_create_env)(MPI_Fint *info, MPI_Fint *ierror) {
    MPI_Info made = MPI_INFO_NULL;
    int code = MPI(Info_create_env)(0, NULL, &made);
    *info = MPI_Info_toint(made);
    RETURN(code);
}
ALSO(info_create_env, _f08)

void NAME(info_get)(MPI_Fint *info, char *key, MPI_Fint *valuelen, char *value, MPI_Fint *flag, MPI_Fint *ierror,
                    size_t key_length, size_t value_length) {
    char *key_c = madmpi_c_string(key, key_length, BOTH_ENDS);
    char *value_c = madmpi_memory(*valuelen < 0 ? 1 : (size_t)*valuelen + 1, 1);
    int code = MPI(Info_get)(MPI_Info_fromint(*info), key_c, *valuelen, value_c, flag);
    if (code == MPI_SUCCESS && *flag) madmpi_f_string(value, value_length, value_c);
    free(value_c);
    free(key_c);
    RETURN(code);
}
ALSO(info_get, _f08)

void NAME(info_get_string)(MPI_Fint *info, char *key, MPI_Fint *buflen, char *value, MPI_Fint *flag, MPI_Fint *ierror,
                           size_t key_length, size_t value_length) {
    char *key_c = madmpi_c_string(key, key_length, BOTH_ENDS);
    int room = *buflen > 0 ? *buflen + 1 : 0;
    char *value_c = madmpi_memory((size_t)room + 1, 1);
    int code = MPI(Info_get_string)(MPI_Info_fromint(*info), key_c, &room, value_c, flag);
    if (code == MPI_SUCCESS && *flag) {
        if (*buflen > 0) madmpi_f_string(value, value_length, value_c);
        *buflen = room - 1;
    }
    free(value_c);
    free(key_c);
    RETURN(code);
}
ALSO(info_get_string, _f08)

void NAME(session_get_nth_pset)(MPI_Fint *session, MPI_Fint *info, MPI_Fint *n, MPI_Fint *pset_len, char *pset_name,
                                MPI_Fint *ierror, size_t pset_name_length) {
    int room = *pset_len > 0 ? *pset_len + 1 : 0;
    char *name = madmpi_memory((size_t)room + 1, 1);
    int code = MPI(Session_get_nth_pset)(MPI_Session_fromint(*session), MPI_Info_fromint(*info), *n, &room, name);
    if (code == MPI_SUCCESS) {
        if (*pset_len > 0) madmpi_f_string(pset_name, pset_name_length, name);
        *pset_len = room - 1;
    }
    free(name);
    RETURN(code);
}
ALSO(session_get_nth_pset, _f08)

/* Buffers that are detached: mpi_f08 alone gets their addresses, since the others have no type for them. */

#define DETACH(function, Function, count, takes, ...)                                        \
    void NAME(function)(takes void *buffer_addr, count *size, MPI_Fint *ierror) {            \
        void *address = NULL;                                                                \
        (void)buffer_addr;                                                                   \
        int code = MPI(Function)(__VA_ARGS__ & address, size);                               \
        RETURN(code);                                                                        \
    }                                                                                        \
    void NAME(function##_f08)(takes void **buffer_addr, count *size, MPI_Fint *ierror) {     \
        int code = MPI(Function)(__VA_ARGS__ buffer_addr, size);                             \
        RETURN(code);                                                                        \
    }
#define COMM MPI_Fint *comm,
#define SESSION MPI_Fint *session,
DETACH(buffer_detach, Buffer_detach, MPI_Fint, , )
DETACH(buffer_detach_c, Buffer_detach_c, MPI_Count, , )
DETACH(comm_detach_buffer, Comm_detach_buffer, MPI_Fint, COMM, MPI_Comm_fromint(*comm), )
DETACH(comm_detach_buffer_c, Comm_detach_buffer_c, MPI_Count, COMM, MPI_Comm_fromint(*comm), )
DETACH(session_detach_buffer, Session_detach_buffer, MPI_Fint, SESSION, MPI_Session_fromint(*session), )
DETACH(session_detach_buffer_c, Session_detach_buffer_c, MPI_Count, SESSION, MPI_Session_fromint(*session), )

/* Duplicates in the background, whose handle C writes at the end. */

void NAME(comm_idup)(MPI_Fint *comm, MPI_Fint *newcomm, MPI_Fint *request, MPI_Fint *ierror) {
    MPI_Request made = MPI_REQUEST_NULL;
    MPI_Comm *handle = madmpi_owe(newcomm);
    int code = MPI(Comm_idup)(MPI_Comm_fromint(*comm), handle, &made);
    madmpi_owe_by(handle, made);
    *request = MPI_Request_toint(made);
    RETURN(code);
}
ALSO(comm_idup, _f08)

void NAME(comm_idup_with_info)(MPI_Fint *comm, MPI_Fint *info, MPI_Fint *newcomm, MPI_Fint *request,
                               MPI_Fint *ierror) {
    MPI_Request made = MPI_REQUEST_NULL;
    MPI_Comm *handle = madmpi_owe(newcomm);
    int code = MPI(Comm_idup_with_info)(MPI_Comm_fromint(*comm), MPI_Info_fromint(*info), handle, &made);
    madmpi_owe_by(handle, made);
    *request = MPI_Request_toint(made);
    RETURN(code);
}
ALSO(comm_idup_with_info, _f08)

/* Procedures of the program. */

#define OPERATOR(function, Function, maker)                                                                      \
    void NAME(function)(madmpi_procedure *user_fn, MPI_Fint *commute, MPI_Fint *op, MPI_Fint *ierror) {          \
        MPI_Op made = MPI_OP_NULL;                                                                               \
        __typeof__(maker(user_fn)) operate = maker(user_fn);                                                     \
        int code = operate ? MPI(Function)(operate, *commute, &made) : none_left();                              \
        *op = MPI_Op_toint(made);                                                                                \
        RETURN(code);                                                                                            \
    }                                                                                                            \
    ALSO(function, _f08)
OPERATOR(op_create, Op_create, madmpi_operator)
OPERATOR(op_create_c, Op_create_c, madmpi_operator_c)

#define ERRHANDLER(kind, Kind)                                                                                    \
    void NAME(kind##_create_errhandler)(madmpi_procedure *function, MPI_Fint *errhandler, MPI_Fint *ierror) {     \
        MPI_Errhandler made = MPI_ERRHANDLER_NULL;                                                                \
        MPI_##Kind##_errhandler_function *handle = madmpi_##kind##_errhandler(function);                          \
        int code = handle ? MPI(Kind##_create_errhandler)(handle, &made) : none_left();                           \
        *errhandler = MPI_Errhandler_toint(made);                                                                 \
        RETURN(code);                                                                                             \
    }                                                                                                             \
    ALSO(kind##_create_errhandler, _f08)
ERRHANDLER(comm, Comm)
ERRHANDLER(file, File)
ERRHANDLER(session, Session)
ERRHANDLER(win, Win)

void NAME(grequest_start)(madmpi_procedure *query, madmpi_procedure *free_, madmpi_procedure *cancel, MPI_Aint *extra,
                          MPI_Fint *request, MPI_Fint *ierror) {
    MPI_Request made = MPI_REQUEST_NULL;
    void *procedures = madmpi_procedures(query, free_, cancel, *extra);
    int code = MPI(Grequest_start)(madmpi_query, madmpi_free, madmpi_cancel, procedures, &made);
    if (code != MPI_SUCCESS) free(procedures);
    *request = MPI_Request_toint(made);
    RETURN(code);
}
ALSO(grequest_start, _f08)

/* A representation stays for the whole program, and so do its procedures. */
#define DATAREP(function, Function, ending, null, null_c)                                                            \
    void NAME(function)(char *datarep, madmpi_procedure *read_fn, madmpi_procedure *write_fn,                        \
                        madmpi_procedure *extent_fn, MPI_Aint *extra, MPI_Fint *ierror, size_t datarep_length) {     \
        char *name = madmpi_c_string(datarep, datarep_length, THE_END);                                              \
        void *procedures = madmpi_procedures(read_fn, write_fn, extent_fn, *extra);                                  \
        int code = MPI(Function)(name, read_fn == null ? null_c : madmpi_read##ending,                               \
                                 write_fn == null ? null_c : madmpi_write##ending, madmpi_extent, procedures);       \
        if (code != MPI_SUCCESS) free(procedures);                                                                   \
        free(name);                                                                                                  \
        RETURN(code);                                                                                                \
    }                                                                                                                \
    ALSO(function, _f08)
DATAREP(register_datarep, Register_datarep, , mpi_conversion_fn_null_, MPI_CONVERSION_FN_NULL)
DATAREP(register_datarep_c, Register_datarep_c, _c, mpi_conversion_fn_null_c_, MPI_CONVERSION_FN_NULL_C)

/* Keys and attributes. */

#define KEYVAL(function, Function, kind, extra_type, integers)                                                     \
    void NAME(function)(madmpi_procedure *copy, madmpi_procedure *delete_, MPI_Fint *keyval, extra_type *extra,    \
                        MPI_Fint *ierror) {                                                                        \
        void *made = madmpi_keyval(copy, delete_, *extra, integers);                                               \
        int code = MPI(Function)(madmpi_##kind##_copy, madmpi_##kind##_delete, keyval, made);                      \
        if (code != MPI_SUCCESS) free(made);                                                                       \
        RETURN(code);                                                                                              \
    }
KEYVAL(comm_create_keyval, Comm_create_keyval, comm, MPI_Aint, ADDRESSES)
KEYVAL(type_create_keyval, Type_create_keyval, type, MPI_Aint, ADDRESSES)
KEYVAL(win_create_keyval, Win_create_keyval, win, MPI_Aint, ADDRESSES)
KEYVAL(keyval_create, Keyval_create, comm, MPI_Fint, INTEGERS)
ALSO(comm_create_keyval, _f08)
ALSO(type_create_keyval, _f08)
ALSO(win_create_keyval, _f08)

/* The value behind what C finds. The standard's attributes are pointers to numbers, but for the base of a window. */
static MPI_Aint value_of(int key, void *found) {
    switch (key) {
    case MPI_TAG_UB:
    case MPI_IO:
    case MPI_HOST:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM:
    case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE:
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL:
        return *(int *)found;
    case MPI_WIN_SIZE:
        return *(MPI_Aint *)found;
    default:
        return madmpi_attribute_value(found);
    }
}

#define ATTRIBUTES(set, Set, get, Get, fromint, value_type)                                                         \
    void NAME(set)(MPI_Fint *object, MPI_Fint *keyval, value_type *value, MPI_Fint *ierror) {                       \
        void *made = madmpi_attribute(*value);                                                                      \
        int code = MPI(Set)(fromint(*object), *keyval, made);                                                       \
        if (code != MPI_SUCCESS) madmpi_attribute_free(made);                                                       \
        RETURN(code);                                                                                               \
    }                                                                                                               \
    void NAME(get)(MPI_Fint *object, MPI_Fint *keyval, value_type *value, MPI_Fint *flag, MPI_Fint *ierror) {       \
        void *found = NULL;                                                                                         \
        int code = MPI(Get)(fromint(*object), *keyval, &found, flag);                                               \
        if (code == MPI_SUCCESS && *flag) *value = (value_type)value_of(*keyval, found);                            \
        RETURN(code);                                                                                               \
    }                                                                                                               \
    ALSO(set, _f08)                                                                                                 \
    ALSO(get, _f08)
ATTRIBUTES(comm_set_attr, Comm_set_attr, comm_get_attr, Comm_get_attr, MPI_Comm_fromint, MPI_Aint)
ATTRIBUTES(type_set_attr, Type_set_attr, type_get_attr, Type_get_attr, MPI_Type_fromint, MPI_Aint)
ATTRIBUTES(win_set_attr, Win_set_attr, win_get_attr, Win_get_attr, MPI_Win_fromint, MPI_Aint)
ATTRIBUTES(attr_put, Attr_put, attr_get, Attr_get, MPI_Comm_fromint, MPI_Fint)

/* Programs that are started. */

/* The arguments of a program: strings of one length up to a blank one, `stride` of them apart. */
static char **arguments(const char *texts, size_t length, size_t stride) {
    size_t count = 0;
    for (int blank = 0; !blank; count += !blank) {
        char *text = madmpi_c_string(texts + count * stride * length, length, THE_END);
        blank = !*text;
        free(text);
    }
    char **made = madmpi_memory(count + 1, sizeof(char *));
    for (size_t at = 0; at < count; at++) made[at] = madmpi_c_string(texts + at * stride * length, length, THE_END);
    return made;
}

static void free_all(char **texts) {
    for (char **text = texts; text && *text; text++) free(*text);
    free(texts);
}

#define ERRCODES(codes) ((codes) == &madmpi_errcodes_ignore_ ? MPI_ERRCODES_IGNORE : (codes))

void NAME(comm_spawn)(char *command, char *argv, MPI_Fint *maxprocs, MPI_Fint *info, MPI_Fint *root, MPI_Fint *comm,
                      MPI_Fint *intercomm, MPI_Fint *errcodes, MPI_Fint *ierror, size_t command_length,
                      size_t argv_length) {
    MPI_Comm made = MPI_COMM_NULL;
    int rank = 0, is_root = MPI(Comm_rank)(MPI_Comm_fromint(*comm), &rank) == MPI_SUCCESS && rank == *root;
    char *program = madmpi_c_string(command, command_length, BOTH_ENDS);
    /* Significant at the root only. */
    int have_words = is_root && argv != &madmpi_argv_null_;
    char **words = have_words ? arguments(argv, argv_length, 1) : MPI_ARGV_NULL;
    int code = MPI(Comm_spawn)(program, words, *maxprocs, MPI_Info_fromint(*info), *root, MPI_Comm_fromint(*comm),
                               &made, ERRCODES(errcodes));
    *intercomm = MPI_Comm_toint(made);
    free_all(words);
    free(program);
    RETURN(code);
}
ALSO(comm_spawn, _f08)

void NAME(comm_spawn_multiple)(MPI_Fint *count, char *commands, char *argvs, MPI_Fint *maxprocs, MPI_Fint *infos,
                               MPI_Fint *root, MPI_Fint *comm, MPI_Fint *intercomm, MPI_Fint *errcodes,
                               MPI_Fint *ierror, size_t commands_length, size_t argvs_length) {
    MPI_Comm made = MPI_COMM_NULL;
    int rank = 0, is_root = MPI(Comm_rank)(MPI_Comm_fromint(*comm), &rank) == MPI_SUCCESS && rank == *root;
    /* The arguments up to the root are significant there only. */
    size_t programs = is_root && *count > 0 ? (size_t)*count : 0;
    int have_words = programs && argvs != &madmpi_argvs_null_;
    char **program = madmpi_memory(programs + 1, sizeof(char *));
    char ***words = madmpi_memory(programs + 1, sizeof(char **));
    MPI_Info *info = madmpi_memory(programs, sizeof(MPI_Info));
    for (size_t at = 0; at < programs; at++) {
        program[at] = madmpi_c_string(commands + at * commands_length, commands_length, BOTH_ENDS);
        if (have_words) words[at] = arguments(argvs + at * argvs_length, argvs_length, programs);
        info[at] = MPI_Info_fromint(infos[at]);
    }
    int code = MPI(Comm_spawn_multiple)(*count, program, have_words ? words : MPI_ARGVS_NULL, maxprocs, info, *root,
                                        MPI_Comm_fromint(*comm), &made, ERRCODES(errcodes));
    *intercomm = MPI_Comm_toint(made);
    for (size_t at = 0; at < programs; at++) free_all(words[at]);
    free(words);
    free(info);
    free_all(program);
    RETURN(code);
}
ALSO(comm_spawn_multiple, _f08)
