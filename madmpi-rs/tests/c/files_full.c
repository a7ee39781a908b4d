/* np: 2, peers: no, ranks: no */
/* A disk that is full, by a limit of the process: errors of each kind of write, and nothing is lost that was written. */
#include "files.h"
#include <signal.h>
#include <sys/resource.h>

static void expect(int code, int class, const char *what) {
    if (code == MPI_SUCCESS || class_of(code) != class) {
        char text[MPI_MAX_ERROR_STRING] = "no error";
        int len;
        if (code != MPI_SUCCESS)
            MPI_Error_string(code, text, &len);
        fprintf(stderr, "rank %d: %s: class %d: %s\n", rank, what, code ? class_of(code) : 0, text);
    }
    check(code != MPI_SUCCESS && class_of(code) == class, what);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    char bytes[100] = "";
    /* No room: what was written before is there. */
    struct rlimit limit, old;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 1 << 20;
    char *much = calloc(1, 4 << 20);
    memset(much, 'x', 4 << 20);
    MPI_File_write_at(file, rank * 1000, much, 1000, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    setrlimit(RLIMIT_FSIZE, &limit);
    expect(MPI_File_write_at(file, 2 << 20, much, 1 << 20, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE, "a full disk");
    MPI_Request request;
    MPI_File_iwrite_at(file, 2 << 20, much, 1 << 20, MPI_BYTE, &request);
    expect(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE, "a full disk, later");
    /* In blocks of ranks in turn: the aggregators fail, and all ranks hear of it. Then only the second one does. */
    MPI_Datatype blocks, mine;
    MPI_Type_contiguous(100, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, 100 * size, &mine);
    MPI_Type_commit(&mine);
    MPI_File_set_view(file, rank * 100, MPI_BYTE, mine, "native", MPI_INFO_NULL);
    expect(MPI_File_write_at_all(file, 1 << 20, much, 1 << 20, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE, "a collective write");
    expect(MPI_File_write_at_all(file, 1 << 10, much, 1 << 20, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE, "a collective write over the end");
    MPI_File_write_at_all_begin(file, 1 << 20, much, 1 << 20, MPI_BYTE);
    expect(MPI_File_write_at_all_end(file, much, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE, "a split one");
    expect(MPI_File_preallocate(file, 2 << 20), MPI_ERR_NO_SPACE, "preallocate");
    MPI_Type_free(&mine);
    MPI_Type_free(&blocks);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    MPI_File_read_at(file, (1 - rank) * 1000, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE);
    check(bytes[0] == 'x' && bytes[99] == 'x', "what was written is there");
    free(much);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
