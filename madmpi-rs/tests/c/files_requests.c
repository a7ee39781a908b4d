/* np: 2 4, peers-np: 4 */
/* Accesses with requests: beside messages, many at a time, collective ones in any order of waits. */
#include "files.h"

#define MANY 40
#define N 5000

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file = open_new(MPI_COMM_WORLD);
    static int out[MANY][N], in[MANY][N];
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY];
    int ok = 1, count, next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int m = 0; m < MANY; m++)
        for (int i = 0; i < N; i++)
            out[m][i] = (rank * MANY + m) * N + i;
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int m = 0; m < MANY; m++) {
        MPI_File_iwrite_at(file, (MPI_Offset)(rank * MANY + m) * N, out[m], N, MPI_INT, &requests[m]);
        if (m % 2)
            MPI_Irecv(in[m], N, MPI_INT, before, m, MPI_COMM_WORLD, &requests[MANY + m]);
        else
            MPI_Isend(out[m + 1], N, MPI_INT, next, m + 1, MPI_COMM_WORLD, &requests[MANY + m]);
    }
    MPI_Waitall(2 * MANY, requests, statuses);
    for (int m = 0; m < MANY; m++) {
        MPI_Get_count(&statuses[m], MPI_INT, &count);
        ok &= count == N;
        for (int i = 0; m % 2 && i < N; i++)
            ok &= in[m][i] == (before * MANY + m) * N + i;
    }
    check(ok, "writes beside messages");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int m = 0; m < MANY; m++)
        MPI_File_iread_at(file, (MPI_Offset)(next * MANY + m) * N, in[m], N, MPI_INT, &requests[m]);
    for (int left = MANY; left;) {
        int which, done;
        MPI_Testany(MANY, requests, &which, &done, statuses);
        if (done && which != MPI_UNDEFINED) {
            MPI_Get_count(statuses, MPI_INT, &count);
            ok &= count == N;
            left--;
        }
    }
    for (int m = 0; m < MANY; m++)
        for (int i = 0; i < N; i++)
            ok &= in[m][i] == (next * MANY + m) * N + i;
    check(ok, "reads that are tested");
    /* Pointers move when the call returns. */
    MPI_Offset position;
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    MPI_File_iread(file, in[0], N, MPI_INT, &requests[0]);
    MPI_File_get_position(file, &position);
    MPI_File_iread(file, in[1], N, MPI_INT, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(position == N && in[1][7] == N + 7, "pointers of accesses with requests");
    /* Blocks of ranks in turn; each rank waits in its own order. */
    MPI_Datatype blocks, mine;
    MPI_Type_contiguous(10, MPI_INT, &blocks);
    MPI_Type_create_resized(blocks, 0, size * 10 * sizeof(int), &mine);
    MPI_Type_commit(&mine);
    MPI_File_set_view(file, rank * 10 * sizeof(int), MPI_INT, mine, "native", MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int m = 0; m < 8; m++)
        MPI_File_iwrite_at_all(file, m * N, out[m], N, MPI_INT, &requests[m]);
    for (int m = 0; m < 8; m++)
        MPI_Wait(&requests[rank % 2 ? m : 7 - m], &statuses[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    memset(in, 0, sizeof in);
    for (int m = 0; m < 8; m++)
        MPI_File_iread_at_all(file, m * N, in[m], N, MPI_INT, &requests[m]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(8, requests, statuses);
    for (int m = 0; m < 8; m++) {
        MPI_Get_count(&statuses[m], MPI_INT, &count);
        ok &= count == N && !memcmp(in[m], out[m], sizeof out[m]);
    }
    check(ok, "collectives with requests");
    /* A request that is freed goes on. */
    MPI_File_iwrite_at(file, 0, out[9], N, MPI_INT, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 0, in[9], N, MPI_INT, &statuses[0]);
    check(!memcmp(in[9], out[9], sizeof out[9]), "a write that is over is seen");
    MPI_Type_free(&mine);
    MPI_Type_free(&blocks);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
