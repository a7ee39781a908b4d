/* np: 2, peers: no */
/* Accumulations with a struct that has empty blocks of other types: its elements are of one type all the same. */
#include "report.h"

int main(int argc, char **argv) {
    int own[3] = {0, 0, 0}, lens[4] = {0, 1, 0, 1}, add[3] = {1, 50, 2}, old[3] = {-1, -1, -1};
    MPI_Aint places[4] = {0, 0, 0, 2 * sizeof(int)};
    MPI_Datatype parts[4] = {MPI_DOUBLE, MPI_INT, MPI_CHAR, MPI_INT}, type, none;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_create_struct(4, lens, places, parts, &type);
    MPI_Type_commit(&type);
    lens[1] = lens[3] = 0;
    MPI_Type_create_struct(2, lens + 1, places + 1, parts + 1, &none);
    MPI_Type_commit(&none);
    MPI_Win_create(own, sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(add, 1, type, 1 - rank, 0, 1, type, MPI_SUM, win);
    MPI_Win_fence(0, win);
    expect(own[0] == 1 && own[1] == 0 && own[2] == 2, "accumulated");
    MPI_Win_fence(0, win);
    MPI_Get_accumulate(add, 1, type, old, 1, type, 1 - rank, 0, 1, type, MPI_SUM, win);
    MPI_Win_fence(0, win);
    expect(own[0] == 2 && own[1] == 0 && own[2] == 4, "accumulated again");
    expect(old[0] == 1 && old[1] == -1 && old[2] == 2, "fetched");
    report("a struct with empty blocks");
    MPI_Win_fence(0, win);
    MPI_Accumulate(add, 1, none, 1 - rank, 0, 1, none, MPI_SUM, win);
    MPI_Win_fence(0, win);
    expect(own[0] == 2 && own[2] == 4, "nothing accumulated");
    report("a struct with empty blocks only");
    MPI_Win_free(&win);
    MPI_Type_free(&type);
    MPI_Type_free(&none);
    MPI_Finalize();
    return 0;
}
