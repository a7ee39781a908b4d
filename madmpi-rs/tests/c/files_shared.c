/* np: 1 2 4, peers: mpich, peers-np: 4 */
/* The shared pointer: each place is given once, and in the order of ranks where that is asked for.
   (Open MPI's MPI_SEEK_END takes bytes for elements.) */
#include "files.h"

#define N 200

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_Status status;
    MPI_Offset position;
    static int all[16 * N], seen[16 * N];
    int ok = 1, count;
    MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int i = 0; i < N; i++) {
        int mine = rank * N + i;
        if (i % 2) {
            MPI_Request request;
            MPI_File_iwrite_shared(file, &mine, 1, MPI_INT, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else
            MPI_File_write_shared(file, &mine, 1, MPI_INT, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &position);
    check(position == size * N, "the pointer has moved for all");
    MPI_File_read_at(file, 0, all, size * N, MPI_INT, &status);
    int last[16];
    for (int r = 0; r < size; r++)
        last[r] = -1;
    for (int i = 0; i < size * N; i++) {
        int value = all[i];
        ok &= value >= 0 && value < size * N && !seen[value]++;
        /* Those of one rank are in its order. */
        if (ok) {
            ok &= value % N > last[value / N];
            last[value / N] = value % N;
        }
    }
    check(ok, "each place is given once");
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_File_seek_shared(file, 10, MPI_SEEK_SET);
    MPI_File_get_position_shared(file, &position);
    check(position == 10, "seek_shared");
    MPI_Barrier(MPI_COMM_WORLD);
    int mine[20];
    for (int i = 0; i <= rank; i++)
        mine[i] = 1000 * rank + i;
    MPI_File_write_ordered(file, mine, rank + 1, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(count == rank + 1, "write_ordered");
    MPI_File_write_ordered_begin(file, mine, 1, MPI_INT);
    MPI_File_write_ordered_end(file, mine, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &position);
    check(position == 10 + size * (size + 1) / 2 + size, "ordered writes move the pointer");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 10, MPI_SEEK_SET);
    memset(mine, 0, sizeof mine);
    MPI_File_read_ordered(file, mine, rank + 1, MPI_INT, &status);
    ok = 1;
    for (int i = 0; i <= rank; i++)
        ok &= mine[i] == 1000 * rank + i;
    check(ok, "read_ordered");
    MPI_File_read_ordered_begin(file, mine, 1, MPI_INT);
    MPI_File_read_ordered_end(file, mine, &status);
    check(mine[0] == 1000 * rank, "split ordered reads");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_END);
    MPI_File_get_position_shared(file, &position);
    check(position == (size * N > 10 + size * (size + 1) / 2 + size ? size * N : 10 + size * (size + 1) / 2 + size), "to the end");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    int sum = 0, total;
    for (int i = 0; i < N; i++) {
        int value;
        if (i % 2)
            MPI_File_read_shared(file, &value, 1, MPI_INT, &status);
        else {
            MPI_Request request;
            MPI_File_iread_shared(file, &value, 1, MPI_INT, &request);
            MPI_Wait(&request, &status);
        }
        sum += value;
    }
    MPI_Allreduce(&sum, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_File_read_at(file, 0, all, size * N, MPI_INT, &status);
    for (int i = 0; i < size * N; i++)
        total -= all[i];
    check(total == 0, "read_shared");
    MPI_File_close(&file);
    /* One after the other: only the shared pointer. */
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_write_ordered(file, "abcd", 4, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_write_ordered(file, "xyz", 3, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_get_size(file, &position);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &position);
    check(position == 7 * size, "sequential");
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
