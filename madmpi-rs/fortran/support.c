/* Places that calls know by their address, strings, and the small functions of Fortran that call nothing of MPI. */
#include "binding.h"

#include <stdio.h>
#include <string.h>

/* As aligned as the common blocks that take their place. */
#define COMMON __attribute__((aligned(32)))
COMMON MPI_Fint madmpi_bottom_, madmpi_in_place_, madmpi_buffer_automatic_;
COMMON MPI_Fint madmpi_unweighted_, madmpi_weights_empty_, madmpi_errcodes_ignore_;
COMMON MPI_Status madmpi_status_ignore_, madmpi_statuses_ignore_;
COMMON char madmpi_argv_null_, madmpi_argvs_null_;

/* For parts of programs in C that pass on a status of Fortran's. */
MPI_Fint *MPI_F_STATUS_IGNORE = (MPI_Fint *)&madmpi_status_ignore_;
MPI_Fint *MPI_F_STATUSES_IGNORE = (MPI_Fint *)&madmpi_statuses_ignore_;
MPI_F08_status *MPI_F08_STATUS_IGNORE = &madmpi_status_ignore_;
MPI_F08_status *MPI_F08_STATUSES_IGNORE = &madmpi_statuses_ignore_;

void *madmpi_memory(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "madmpi for Fortran: no memory for %zu values of %zu bytes in a call\n", count, size);
        abort();
    }
    return memory;
}

char *madmpi_c_string(const char *text, size_t length, enum blanks strip) {
    while (length && text[length - 1] == ' ') length--;
    while (strip == BOTH_ENDS && length && *text == ' ') text++, length--;
    char *made = madmpi_memory(length + 1, 1);
    memcpy(made, text, length);
    return made;
}

void madmpi_f_string(char *text, size_t length, const char *c) {
    size_t found = strnlen(c, length);
    memcpy(text, c, found);
    memset(text + found, ' ', length - found);
}

int madmpi_members(MPI_Comm comm, enum members which) {
    int inter = 0, count = 0, topology = MPI_UNDEFINED, rank, sources, destinations, weighted;
    if (which == MEMBERS) {
        if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return 0;
        if (inter) PMPI_Comm_remote_size(comm, &count);
        else PMPI_Comm_size(comm, &count);
        return count;
    }
    if (PMPI_Topo_test(comm, &topology) != MPI_SUCCESS) return 0;
    switch (topology) {
    case MPI_CART:
        PMPI_Cartdim_get(comm, &count);
        return 2 * count;
    case MPI_GRAPH:
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, &count);
        return count;
    case MPI_DIST_GRAPH:
        PMPI_Dist_graph_neighbors_count(comm, &sources, &destinations, &weighted);
        return which == SOURCES ? sources : destinations;
    default:
        return 0;
    }
}

/* A descriptor of Fortran 2018, as far as the standard fixes it: MPI_Sizeof. */
struct descriptor {
    void *address;
    size_t element;
};

void madmpi_sizeof(struct descriptor *x, MPI_Fint *size, MPI_Fint *ierror) {
    *size = (MPI_Fint)x->element;
    if (ierror) *ierror = MPI_SUCCESS;
}

#define BOTH(name, ...)            \
    void mpi_##name##_ __VA_ARGS__ \
    void pmpi_##name##_ __VA_ARGS__

/* The compiler must expect that the call reads and writes the buffer. It does not. */
BOTH(f_sync_reg, (void *buffer) { (void)buffer; })
BOTH(pcontrol, (MPI_Fint *level) { MPI_Pcontrol(*level); })
BOTH(status_f2f08, (MPI_Fint *f, MPI_F08_status *f08, MPI_Fint *ierror) {
    int code = MPI_Status_f2f08(f, f08);
    if (ierror) *ierror = code;
})
BOTH(status_f082f, (MPI_F08_status *f08, MPI_Fint *f, MPI_Fint *ierror) {
    int code = MPI_Status_f082f(f08, f);
    if (ierror) *ierror = code;
})
