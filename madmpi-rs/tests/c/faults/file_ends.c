/* Process 1 ends inside an access to a file, in a way that the first argument names; each of the others says what it was told. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N (1 << 20)

static int is(const char *mode, const char *name) { return !strcmp(mode, name); }

static void leave(const char *how) {
    if (is(how, "killed"))
        raise(SIGKILL);
    _exit(0); /* nothing of the library runs any more */
}

int main(int argc, char **argv) {
    const char *mode = argv[1], *how = argv[2], *name = argv[3];
    int rank, size, code = MPI_SUCCESS, class, closed;
    static char mine[N], back[1000];
    MPI_File file;
    MPI_Datatype block, every;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memset(mine, 'a' + rank, N);
    if (is(mode, "open")) {
        if (rank == 1)
            leave(how);
        code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        MPI_Error_class(code, &class);
        printf("rank %d: %s\n", rank, class == MPI_ERR_PROC_ABORTED ? "it is gone" : "WRONG");
        fflush(stdout);
        _exit(0);
    }
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    /* What is acknowledged before. */
    MPI_File_write_at_all(file, rank * 1000, mine, 1000, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Type_contiguous(100, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, 100 * size, &every);
    MPI_Type_commit(&every);
    MPI_File_set_view(file, 4000 + 100 * rank, MPI_BYTE, every, "native", MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    double until = MPI_Wtime() + 20;
    if (is(mode, "before")) {
        if (rank == 1)
            leave(how);
        code = MPI_File_write_all(file, mine, N, MPI_BYTE, MPI_STATUS_IGNORE);
    } else if (is(mode, "inside")) { /* after some of them, while the others may be at any place of theirs */
        if (rank == 1) {
            MPI_File_iwrite_at_all(file, 0, mine, N, MPI_BYTE, &request);
            leave(how);
        }
        while (code == MPI_SUCCESS && MPI_Wtime() < until)
            code = MPI_File_write_at_all(file, 0, mine, N, MPI_BYTE, MPI_STATUS_IGNORE);
    } else if (is(mode, "request")) {
        if (rank == 1)
            leave(how);
        MPI_File_iwrite_all(file, mine, N, MPI_BYTE, &request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is(mode, "split")) {
        if (rank == 1)
            leave(how);
        MPI_File_read_all_begin(file, mine, N, MPI_BYTE);
        code = MPI_File_read_all_end(file, mine, MPI_STATUS_IGNORE);
    } else if (is(mode, "ordered")) {
        if (rank == 1)
            leave(how);
        code = MPI_File_write_ordered(file, mine, N, MPI_BYTE, MPI_STATUS_IGNORE);
    } else if (is(mode, "view")) {
        if (rank == 1)
            leave(how);
        code = MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    } else if (is(mode, "close")) {
        if (rank == 1)
            leave(how);
        code = MPI_ERR_PROC_ABORTED;
    }
    MPI_Error_class(code, &class);
    /* What was written before is there, and this rank can still read it. */
    FILE *plain = fopen(name, "r");
    int there = plain && fseek(plain, 1000 * rank, SEEK_SET) == 0 && fread(back, 1, 1000, plain) == 1000;
    for (int i = 0; i < 1000; i++)
        there = there && back[i] == 'a' + rank;
    MPI_Error_class(MPI_File_close(&file), &closed);
    printf("rank %d: %s; before: %s; close: %s\n", rank, class == MPI_ERR_PROC_ABORTED ? "it is gone" : "WRONG",
           there ? "there" : "LOST", closed == MPI_ERR_PROC_ABORTED && file == MPI_FILE_NULL ? "it is gone" : "WRONG");
    fflush(stdout);
    _exit(0);
}
