/* np: 2, peers: no */
/* Pointers: seeks of threads lose none of each other's, and an access that is refused leaves its pointer where it was. */
#include "files.h"
#include <pthread.h>
#include <stdint.h>

enum { THREADS = 2, SEEKS = 100000 };

static MPI_File file;

static void *seek(void *unused) {
    for (int time = 0; time < SEEKS; time++)
        MPI_File_seek(file, 1, MPI_SEEK_CUR);
    return unused;
}

static int seeks_of_threads(void) {
    pthread_t threads[THREADS];
    MPI_Offset position;
    for (int thread = 0; thread < THREADS; thread++)
        pthread_create(&threads[thread], NULL, seek, NULL);
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    MPI_File_get_position(file, &position);
    if (position != THREADS * SEEKS)
        fprintf(stderr, "rank %d: %lld\n", rank, (long long)position);
    return position == THREADS * SEEKS;
}

/* Whether a write was refused with that class, and its pointer is at the fifth element. */
static int is_refused(int code, int class, int shared) {
    MPI_Offset position;
    MPI_Barrier(MPI_COMM_WORLD);
    if (shared)
        MPI_File_get_position_shared(file, &position);
    else
        MPI_File_get_position(file, &position);
    MPI_Barrier(MPI_COMM_WORLD);
    return code != MPI_SUCCESS && class_of(code) == class && position == 5;
}

int main(int argc, char **argv) {
    MPI_Request request;
    /* It is no number of four bytes. */
    long large = 1L << 40;
    begin(&argc, &argv);
    file = open_new(MPI_COMM_WORLD);
    check(seeks_of_threads(), "seeks of two threads");
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL);
    MPI_File_seek(file, 5, MPI_SEEK_SET);
    MPI_File_seek_shared(file, 5, MPI_SEEK_SET);
    int code = MPI_File_write(file, &large, 1, MPI_LONG, MPI_STATUS_IGNORE);
    check(is_refused(code, MPI_ERR_CONVERSION, 0), "a value that does not fit, own pointer");
    code = MPI_File_iwrite(file, &large, 1, MPI_LONG, &request);
    check(is_refused(code, MPI_ERR_CONVERSION, 0), "the same, with a request");
    code = MPI_File_write_all(file, &large, 1, MPI_LONG, MPI_STATUS_IGNORE);
    check(is_refused(code, MPI_ERR_CONVERSION, 0), "the same, collective");
    code = MPI_File_write_shared(file, &large, 1, MPI_LONG, MPI_STATUS_IGNORE);
    check(is_refused(code, MPI_ERR_CONVERSION, 1), "a value that does not fit, shared pointer");
    code = MPI_File_write_ordered(file, &large, 1, MPI_LONG, MPI_STATUS_IGNORE);
    check(is_refused(code, MPI_ERR_CONVERSION, 1), "the same, ordered");
    /* The last bytes that a file can have. */
    MPI_File_set_view(file, 0x7ffffffffffffff0, MPI_LONG, MPI_LONG, "native", MPI_INFO_NULL);
    MPI_File_seek(file, 5, MPI_SEEK_SET);
    code = MPI_File_write(file, &large, 1, MPI_LONG, MPI_STATUS_IGNORE);
    check(is_refused(code, MPI_ERR_ARG, 0), "a place that no file has");
    /* The last element that a pointer can stand at: the second rank's place would be behind that. */
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_seek_shared(file, INT64_MAX, MPI_SEEK_SET);
    code = MPI_File_write_ordered(file, &large, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    check(code != MPI_SUCCESS && class_of(code) == MPI_ERR_ARG, "a place that no pointer has, ordered");
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
