/* Procedures of Fortran that MPI calls back.
 *
 * Handles are numbers for them, passed by address, so MPI calls a function of C that calls the procedure. Operators and
 * error handlers have no extra state that could say which: each procedure gets a function of its own, of POOL that
 * there are for each kind. It keeps it, and gets it again when it is passed again; an operator may be in use for some
 * time after it was freed. A generalized request and a representation of data have an extra state: their procedures. */
#include "binding.h"

#include <pthread.h>
#include <stdio.h>

#define POOL 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The place of a procedure in a pool, POOL if the pool is full. */
static int place_of(madmpi_procedure *procedure, madmpi_procedure **pool, const char *what) {
    int at = 0;
    pthread_mutex_lock(&lock);
    while (at < POOL && pool[at] && pool[at] != procedure) at++;
    if (at < POOL) pool[at] = procedure;
    pthread_mutex_unlock(&lock);
    if (at == POOL)
        fprintf(stderr, "madmpi for Fortran: %d procedures are %s already, which is as many as can be\n", POOL, what);
    return at;
}

#define ROW(one, row)                                                                                          \
    one(row##0) one(row##1) one(row##2) one(row##3) one(row##4) one(row##5) one(row##6) one(row##7) one(row##8) \
        one(row##9) one(row##a) one(row##b) one(row##c) one(row##d) one(row##e) one(row##f)
#define ALL(one)                                                                                                    \
    ROW(one, 0x0) ROW(one, 0x1) ROW(one, 0x2) ROW(one, 0x3) ROW(one, 0x4) ROW(one, 0x5) ROW(one, 0x6) ROW(one, 0x7) \
        ROW(one, 0x8) ROW(one, 0x9) ROW(one, 0xa) ROW(one, 0xb) ROW(one, 0xc) ROW(one, 0xd) ROW(one, 0xe) ROW(one, 0xf)

typedef void operator_procedure(void *in, void *inout, void *len, MPI_Fint *datatype);
static madmpi_procedure *operators[POOL], *large_operators[POOL];

static void operate(madmpi_procedure *procedure, void *in, void *inout, void *len, MPI_Datatype *datatype) {
    MPI_Fint number = MPI_Type_toint(*datatype);
    ((operator_procedure *)procedure)(in, inout, len, &number);
}

#define OPERATOR(n)                                                                       \
    static void operator_##n(void *in, void *inout, int *len, MPI_Datatype *datatype) {   \
        operate(operators[n], in, inout, len, datatype);                                  \
    }
#define LARGE_OPERATOR(n)                                                                             \
    static void large_operator_##n(void *in, void *inout, MPI_Count *len, MPI_Datatype *datatype) {   \
        operate(large_operators[n], in, inout, len, datatype);                                        \
    }
ALL(OPERATOR)
ALL(LARGE_OPERATOR)

#define OPERATOR_NAME(n) operator_##n,
#define LARGE_OPERATOR_NAME(n) large_operator_##n,
static MPI_User_function *const operator_functions[POOL + 1] = {ALL(OPERATOR_NAME) NULL};
static MPI_User_function_c *const large_operator_functions[POOL + 1] = {ALL(LARGE_OPERATOR_NAME) NULL};

MPI_User_function *madmpi_operator(madmpi_procedure *procedure) {
    return operator_functions[place_of(procedure, operators, "operators")];
}

MPI_User_function_c *madmpi_operator_c(madmpi_procedure *procedure) {
    return large_operator_functions[place_of(procedure, large_operators, "operators of large counts")];
}

typedef void handler_procedure(MPI_Fint *object, MPI_Fint *code);

static void handle(madmpi_procedure *procedure, MPI_Fint object, int *code) {
    ((handler_procedure *)procedure)(&object, code);
}

#define HANDLERS(kind, Kind, one, name)                                                                              \
    static madmpi_procedure *kind##_handlers[POOL];                                                                  \
    ALL(one)                                                                                                         \
    static MPI_##Kind##_errhandler_function *const kind##_handler_functions[POOL + 1] = {ALL(name) NULL};            \
    MPI_##Kind##_errhandler_function *madmpi_##kind##_errhandler(madmpi_procedure *procedure) {                      \
        return kind##_handler_functions[place_of(procedure, kind##_handlers, "error handlers of one kind")];         \
    }
#define HANDLER(kind, Kind, n)                                                \
    static void kind##_handler_##n(MPI_##Kind *object, int *code, ...) {      \
        handle(kind##_handlers[n], MPI_##Kind##_toint(*object), code);        \
    }
#define COMM_HANDLER(n) HANDLER(comm, Comm, n)
#define COMM_NAME(n) comm_handler_##n,
#define FILE_HANDLER(n) HANDLER(file, File, n)
#define FILE_NAME(n) file_handler_##n,
#define SESSION_HANDLER(n) HANDLER(session, Session, n)
#define SESSION_NAME(n) session_handler_##n,
#define WIN_HANDLER(n) HANDLER(win, Win, n)
#define WIN_NAME(n) win_handler_##n,
HANDLERS(comm, Comm, COMM_HANDLER, COMM_NAME)
HANDLERS(file, File, FILE_HANDLER, FILE_NAME)
HANDLERS(session, Session, SESSION_HANDLER, SESSION_NAME)
HANDLERS(win, Win, WIN_HANDLER, WIN_NAME)

struct procedures {
    madmpi_procedure *one, *two, *three;
    MPI_Aint extra;
};

void *madmpi_procedures(madmpi_procedure *one, madmpi_procedure *two, madmpi_procedure *three, MPI_Aint extra) {
    struct procedures *made = madmpi_memory(1, sizeof(*made));
    *made = (struct procedures){one, two, three, extra};
    return made;
}

typedef void query_procedure(MPI_Aint *extra, MPI_Status *status, MPI_Fint *code);
typedef void free_procedure(MPI_Aint *extra, MPI_Fint *code);
typedef void cancel_procedure(MPI_Aint *extra, MPI_Fint *complete, MPI_Fint *code);

int madmpi_query(void *extra, MPI_Status *status) {
    struct procedures *procedures = extra;
    MPI_Fint code = MPI_SUCCESS;
    ((query_procedure *)procedures->one)(&procedures->extra, status, &code);
    return code;
}

/* The last call for a request. */
int madmpi_free(void *extra) {
    struct procedures *procedures = extra;
    MPI_Fint code = MPI_SUCCESS;
    ((free_procedure *)procedures->two)(&procedures->extra, &code);
    free(procedures);
    return code;
}

int madmpi_cancel(void *extra, int complete) {
    struct procedures *procedures = extra;
    MPI_Fint logical = complete != 0, code = MPI_SUCCESS;
    ((cancel_procedure *)procedures->three)(&procedures->extra, &logical, &code);
    return code;
}

typedef void extent_procedure(MPI_Fint *datatype, MPI_Aint *extent, MPI_Aint *extra, MPI_Fint *code);
typedef void conversion_procedure(void *user, MPI_Fint *datatype, void *count, void *file, MPI_Offset *position,
                                  MPI_Aint *extra, MPI_Fint *code);

int madmpi_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra) {
    struct procedures *procedures = extra;
    MPI_Fint number = MPI_Type_toint(datatype), code = MPI_SUCCESS;
    ((extent_procedure *)procedures->three)(&number, extent, &procedures->extra, &code);
    return code;
}

#define CONVERSION(name, count_type, which)                                                               \
    int name(void *user, MPI_Datatype datatype, count_type count, void *file, MPI_Offset position,        \
             void *extra) {                                                                               \
        struct procedures *procedures = extra;                                                            \
        MPI_Fint number = MPI_Type_toint(datatype), code = MPI_SUCCESS;                                   \
        ((conversion_procedure *)procedures->which)(user, &number, &count, file, &position,               \
                                                    &procedures->extra, &code);                           \
        return code;                                                                                      \
    }
CONVERSION(madmpi_read, int, one)
CONVERSION(madmpi_write, int, two)
CONVERSION(madmpi_read_c, MPI_Count, one)
CONVERSION(madmpi_write_c, MPI_Count, two)

/* Programs only pass them on: MPI_Register_datarep knows their addresses. */
void mpi_conversion_fn_null_(void) {}
void mpi_conversion_fn_null_c_(void) {}
