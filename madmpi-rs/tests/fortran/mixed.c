/* The part in C of mixed.F90. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

int c_rank(int comm) {
    int rank = -1;
    MPI_Comm_rank(MPI_Comm_f2c(comm), &rank);
    return rank;
}

int c_new_type(void) {
    MPI_Datatype type;
    MPI_Type_contiguous(3, MPI_DOUBLE, &type);
    return MPI_Type_c2f(type);
}

int c_tag(int *f_status) {
    MPI_Status status;
    MPI_Status_f2c(f_status, &status);
    return status.MPI_TAG;
}

int c_probe(int comm, int *f_status) {
    MPI_Status status;
    int count;
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_Comm_f2c(comm), &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_Status_c2f(&status, f_status);
    return count;
}

int c_ignores(void) { return MPI_F_STATUS_IGNORE != NULL && MPI_F_STATUSES_IGNORE != NULL; }

intptr_t c_attribute(int comm, int key) {
    MPI_Aint *value;
    int flag;
    MPI_Comm_get_attr(MPI_Comm_f2c(comm), key, &value, &flag);
    return flag ? *value : 0;
}

void c_set_attribute(int comm, int key, intptr_t number) { MPI_Comm_set_attr(MPI_Comm_f2c(comm), key, (void *)number); }

int c_new_key(void) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    return key;
}
