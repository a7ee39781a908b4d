/* np: 1 2 4, peers: mpich, peers-np: 4 */
/* A file that is opened for writes only: what is written in short pieces is there, and reads are refused. */
#include "files.h"

enum { N = 5000, PIECE = 25 };

static int out[N], in[N], none[1];

/* Whether each rank's pieces are in their places. */
static int are_there(MPI_Datatype mine) {
    MPI_File file;
    int right = 1;
    memset(in, 0, sizeof in);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, rank * PIECE * sizeof(int), MPI_INT, mine, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, in, N, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++)
        right &= in[i] == rank * N + i;
    MPI_File_close(&file);
    return right;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file;
    MPI_Request request;
    MPI_Datatype piece, mine;
    MPI_Type_contiguous(PIECE, MPI_INT, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)size * PIECE * sizeof(int), &mine);
    MPI_Type_commit(&mine);
    for (int i = 0; i < N; i++)
        out[i] = rank * N + i;
    for (int way = 0; way < 3; way++) {
        const char *ways[] = {"writes of each rank", "writes with requests", "collective writes"};
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
        MPI_File_set_size(file, 0);
        MPI_File_set_view(file, rank * PIECE * sizeof(int), MPI_INT, mine, "native", MPI_INFO_NULL);
        if (way == 0)
            MPI_File_write_at(file, 0, out, N, MPI_INT, MPI_STATUS_IGNORE);
        else if (way == 1) {
            MPI_File_iwrite_at(file, 0, out, N, MPI_INT, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else
            MPI_File_write_at_all(file, 0, out, N, MPI_INT, MPI_STATUS_IGNORE);
        int code = MPI_File_read_at(file, 0, none, 1, MPI_INT, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
        MPI_Barrier(MPI_COMM_WORLD);
        check(are_there(mine), ways[way]);
        check(code && class_of(code) == MPI_ERR_ACCESS, "a read is refused");
    }
    if (rank == 0)
        MPI_File_delete(name, MPI_INFO_NULL);
    MPI_Type_free(&mine);
    MPI_Type_free(&piece);
    MPI_Finalize();
    return 0;
}
