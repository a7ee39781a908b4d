/* One-sided accesses are over while their target computes: tests/mpi.rs. Usage: compute_target ROUNDS
 * Rank 1 computes until rank 0 has locked its memory, accessed and unlocked it. Prints in how many rounds that came, for each
 * kind of access, with each of two kinds of windows. */
#include "compute.h"

#define LONG (1 << 18) /* ints */
enum { PUT, GET, ACCUMULATE, FETCH, LONG_PUT, LONG_GET, KINDS };

int main(int argc, char **argv) {
    static const char *names[KINDS] = {"put", "get", "accumulate", "fetch", "long_put", "long_get"};
    int rank, rounds = argc > 1 ? atoi(argv[1]) : 3, *memory, *mine = calloc(LONG, sizeof(int)), one = 1, old, step = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct board *board = board_open(rank);
    for (int window = 0; window < 2; window++) {
        MPI_Win win;
        if (window == 0) {
            MPI_Win_allocate(LONG * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        } else {
            memory = calloc(LONG, sizeof(int));
            MPI_Win_create(memory, LONG * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        }
        for (int kind = 0; kind < KINDS; kind++) {
            int over = 0;
            for (int round = 0; round < rounds; round++) {
                step++;
                MPI_Barrier(MPI_COMM_WORLD);
                if (rank == 1) {
                    over += compute(board, step);
                } else if (rank == 0) {
                    computes(board, step);
                    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
                    switch (kind) {
                    case PUT: MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win); break;
                    case GET: MPI_Get(&old, 1, MPI_INT, 1, 0, 1, MPI_INT, win); break;
                    case ACCUMULATE: MPI_Accumulate(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win); break;
                    case FETCH: MPI_Fetch_and_op(&one, &old, MPI_INT, 1, 0, MPI_SUM, win); break;
                    case LONG_PUT: MPI_Put(mine, LONG, MPI_INT, 1, 0, LONG, MPI_INT, win); break;
                    case LONG_GET: MPI_Get(mine, LONG, MPI_INT, 1, 0, LONG, MPI_INT, win); break;
                    }
                    MPI_Win_unlock(1, win);
                    atomic_store(&board->over, step);
                }
                MPI_Barrier(MPI_COMM_WORLD);
            }
            if (rank == 1)
                printf("%s %d\n", names[kind], over);
        }
        MPI_Win_free(&win);
    }
    MPI_Finalize();
    return 0;
}
