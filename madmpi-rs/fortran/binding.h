/* What the C functions behind Fortran share: names, arguments that Fortran passes otherwise than C, strings.
 *
 * wrappers.c and special.c are compiled twice. With PROFILING they define the PMPI_ names and call the PMPI_ functions
 * of C; else the MPI_ names, which call the MPI_ functions, so that a tool in C sees the calls of Fortran too. */
#ifndef MADMPI_BINDING_H
#define MADMPI_BINDING_H

#include <mpi.h>
#include <stdlib.h>

#ifdef PROFILING
#define NAME(function) pmpi_##function##_
#define SYMBOL(function) "pmpi_" #function "_"
#define MPI(function) PMPI_##function
#else
#define NAME(function) mpi_##function##_
#define SYMBOL(function) "mpi_" #function "_"
#define MPI(function) MPI_##function
#endif

/* Another name of a function: procedures of mpi_f08 have the ending _f08, and the same arguments for the machine. */
#define ALSO(function, ending) ALSO_(function, function##ending)
#define ALSO_(function, other) \
    extern __typeof__(NAME(function)) NAME(other) __attribute__((alias(SYMBOL(function))));

/* Places that calls know by their address: common blocks of Fortran's. */
extern MPI_Fint madmpi_bottom_, madmpi_in_place_, madmpi_buffer_automatic_;
extern MPI_Fint madmpi_unweighted_, madmpi_weights_empty_, madmpi_errcodes_ignore_;
extern MPI_Status madmpi_status_ignore_, madmpi_statuses_ignore_;
extern char madmpi_argv_null_, madmpi_argvs_null_;

static inline void *BUFFER(void *buffer) {
    if (buffer == &madmpi_bottom_) return MPI_BOTTOM;
    if (buffer == &madmpi_in_place_) return MPI_IN_PLACE;
    return buffer == &madmpi_buffer_automatic_ ? MPI_BUFFER_AUTOMATIC : buffer;
}

static inline int *WEIGHTS(MPI_Fint *weights) {
    if (weights == &madmpi_unweighted_) return MPI_UNWEIGHTED;
    return weights == &madmpi_weights_empty_ ? MPI_WEIGHTS_EMPTY : weights;
}

#define IS_IN_PLACE(buffer) ((buffer) == (void *)&madmpi_in_place_)
#define STATUS(status) ((status) == &madmpi_status_ignore_ ? MPI_STATUS_IGNORE : (status))
#define STATUSES(statuses) ((statuses) == &madmpi_statuses_ignore_ ? MPI_STATUSES_IGNORE : (statuses))

/* An array of handles for C, on the stack if it is short. RELEASE belongs to it. */
#define FEW 32
#define HANDLES(type, array, elements)                                       \
    MPI_Count array##_count = (elements);                                    \
    type array##_few[FEW] = {0}, *array = array##_few;                       \
    if (array##_count > FEW) array = madmpi_memory(array##_count, sizeof(type))
#define RELEASE(array) \
    if (array != array##_few) free(array)

/* Memory, or the end of the program with a message. */
void *madmpi_memory(size_t count, size_t size);

/* The lengths of the arrays of datatypes of alltoallw on a communicator; 0 if it is none. */
enum members { MEMBERS, SOURCES, DESTINATIONS };
int madmpi_members(MPI_Comm comm, enum members which);

/* A string for C, to be freed; blanks at the end of Fortran's are no part of it. */
enum blanks { THE_END, BOTH_ENDS };
char *madmpi_c_string(const char *text, size_t length, enum blanks strip);
/* A string of C's in Fortran's, filled up with blanks or cut. */
void madmpi_f_string(char *text, size_t length, const char *c);

#define CLIP(found, length) \
    if (*(found) > (MPI_Fint)(length)) *(found) = (MPI_Fint)(length)

/* Handles that C writes when a request ends: see settle.c. */
extern int madmpi_owed;
MPI_Comm *madmpi_owe(MPI_Fint *place);
void madmpi_owe_by(MPI_Comm *handle, MPI_Request request);
void madmpi_settle(MPI_Fint request);
#define SETTLE(before, after) \
    if (__atomic_load_n(&madmpi_owed, __ATOMIC_ACQUIRE) && (after) == MPI_REQUEST_NULL) madmpi_settle(before)

/* Values of attributes that Fortran has set: see attributes.c. */
void *madmpi_attribute(MPI_Aint value);
void madmpi_attribute_free(void *value);
MPI_Aint madmpi_attribute_value(void *value);

/* Keys with procedures of Fortran. */
enum integers { ADDRESSES, INTEGERS };
typedef void madmpi_procedure(void);
void *madmpi_keyval(madmpi_procedure *copy, madmpi_procedure *delete_, MPI_Aint extra, enum integers integers);
MPI_Comm_copy_attr_function madmpi_comm_copy;
MPI_Comm_delete_attr_function madmpi_comm_delete;
MPI_Type_copy_attr_function madmpi_type_copy;
MPI_Type_delete_attr_function madmpi_type_delete;
MPI_Win_copy_attr_function madmpi_win_copy;
MPI_Win_delete_attr_function madmpi_win_delete;

/* Functions of C that call a procedure of Fortran; NULL if there is none left: see callbacks.c. */
MPI_User_function *madmpi_operator(madmpi_procedure *procedure);
MPI_User_function_c *madmpi_operator_c(madmpi_procedure *procedure);
MPI_Comm_errhandler_function *madmpi_comm_errhandler(madmpi_procedure *procedure);
MPI_File_errhandler_function *madmpi_file_errhandler(madmpi_procedure *procedure);
MPI_Session_errhandler_function *madmpi_session_errhandler(madmpi_procedure *procedure);
MPI_Win_errhandler_function *madmpi_win_errhandler(madmpi_procedure *procedure);

/* The procedures of a generalized request, or of a representation of data in files, as their extra state. */
void *madmpi_procedures(madmpi_procedure *one, madmpi_procedure *two, madmpi_procedure *three, MPI_Aint extra);
MPI_Grequest_query_function madmpi_query;
MPI_Grequest_free_function madmpi_free;
MPI_Grequest_cancel_function madmpi_cancel;
MPI_Datarep_conversion_function madmpi_read, madmpi_write;
MPI_Datarep_conversion_function_c madmpi_read_c, madmpi_write_c;
MPI_Datarep_extent_function madmpi_extent;
/* MPI_CONVERSION_FN_NULL of Fortran. */
void mpi_conversion_fn_null_(void);
void mpi_conversion_fn_null_c_(void);

#endif
