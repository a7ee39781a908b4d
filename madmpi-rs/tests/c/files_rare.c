/* np: 2, peers: no */
/* A representation that converts in one direction only, a view from where the shared pointer is, pieces that lie far apart. */
#include "files.h"

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra) {
    MPI_Aint lb;
    (void)extra;
    return MPI_Type_get_extent(type, &lb, bytes);
}
static int twice(MPI_Datatype type, MPI_Aint *bytes, void *extra) {
    int code = extent(type, bytes, extra);
    *bytes *= 2;
    return code;
}
static int to_memory(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    (void)type, (void)extra;
    for (int i = 0; i < count; i++)
        ((int *)memory)[position + i] = ((int *)file)[i] - 1;
    return MPI_SUCCESS;
}
static int to_file(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    (void)type, (void)extra;
    for (int i = 0; i < count; i++)
        ((int *)file)[i] = ((int *)memory)[position + i] + 1;
    return MPI_SUCCESS;
}

/* What is not converted is native. */
static void one_direction(void) {
    int out[4] = {1, 2, 3, 4}, in[4];
    MPI_Datatype every;
    MPI_Type_vector(2, 1, 2, MPI_INT, &every);
    MPI_Type_commit(&every);
    MPI_File file = open_new(MPI_COMM_SELF);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_Register_datarep("writes", MPI_CONVERSION_FN_NULL, to_file, extent, NULL);
    MPI_Register_datarep("reads", to_memory, MPI_CONVERSION_FN_NULL, extent, NULL);
    MPI_Register_datarep("wide", to_memory, MPI_CONVERSION_FN_NULL, twice, NULL);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "writes", MPI_INFO_NULL);
    MPI_File_write_at(file, 0, out, 4, MPI_INT, MPI_STATUS_IGNORE);
    memset(in, 0, sizeof in);
    MPI_File_read_at(file, 0, in, 4, MPI_INT, MPI_STATUS_IGNORE);
    check(in[0] == 2 && in[1] == 3 && in[2] == 4 && in[3] == 5, "a representation that converts what is written");
    memset(in, 0, sizeof in);
    MPI_File_read_at(file, 0, in, 1, every, MPI_STATUS_IGNORE);
    check(in[0] == 2 && in[1] == 0 && in[2] == 3, "a read of it with gaps");
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "reads", MPI_INFO_NULL);
    MPI_File_write_at(file, 0, out, 1, every, MPI_STATUS_IGNORE);
    memset(in, 0, sizeof in);
    MPI_File_read_at(file, 0, in, 4, MPI_INT, MPI_STATUS_IGNORE);
    check(in[0] == 0 && in[1] == 2 && in[2] == 3 && in[3] == 4, "a representation that converts what is read");
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "wide", MPI_INFO_NULL);
    int code = MPI_File_write_at(file, 0, out, 1, MPI_INT, MPI_STATUS_IGNORE);
    check(class_of(code) == MPI_ERR_CONVERSION, "elements of another size cannot be written as they are");
    MPI_File_close(&file);
    MPI_Type_free(&every);
}

/* One rank comes to the new view while the other one still writes in the old one. */
static void from_the_shared_pointer(void) {
    int ten[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, in[11] = {0}, last = 99;
    MPI_File file;
    MPI_Offset bytes;
    int mode = MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL;
    MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file);
    MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    if (rank == 1) {
        usleep(300000);
        MPI_File_write_shared(file, ten, 10, MPI_INT, MPI_STATUS_IGNORE);
    }
    MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_get_view(file, &bytes, &(MPI_Datatype){0}, &(MPI_Datatype){0}, (char[MPI_MAX_DATAREP_STRING]){0});
    check(bytes == sizeof ten, "the view begins after what was written before");
    if (rank == 0)
        MPI_File_write_shared(file, &last, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_get_size(file, &bytes);
    MPI_File_read_at(file, 0, in, 11, MPI_INT, MPI_STATUS_IGNORE);
    check(bytes == 44 && !memcmp(in, ten, sizeof ten) && in[10] == 99, "nothing is overwritten");
    MPI_File_close(&file);
}

/* Interleaved, and with more between them than could be gone through. */
static void far_apart(const char *hint) {
    MPI_Aint places[2] = {0, (MPI_Aint)1 << 55};
    int values[2] = {rank + 1, 7}, count;
    MPI_Status status;
    MPI_Datatype far;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_read", hint);
    MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &far);
    MPI_Type_commit(&far);
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_write_at(file, rank, values, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_set_view(file, 4 * rank, MPI_INT, far, "native", info);
    memset(values, 0, sizeof values);
    MPI_File_read_all(file, values, 2, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(values[0] == rank + 1 && values[1] == 0 && count == 1, "pieces far apart");
    MPI_File_close(&file);
    MPI_Type_free(&far);
    MPI_Info_free(&info);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    char shared[sizeof name];
    strcpy(shared, name);
    /* Each rank has a file of its own. */
    snprintf(name + strlen(name), 16, "-%d", rank);
    one_direction();
    strcpy(name, shared);
    from_the_shared_pointer();
    far_apart("automatic");
    far_apart("enable");
    MPI_Finalize();
    return 0;
}
