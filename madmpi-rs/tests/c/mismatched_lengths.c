/* np: 3, peers: no */
/* Erroneous programs: a rank calls a collective with another length than the others. No rank hangs, and some are told
   what it is; messages go on. (Open MPI 4.1 hangs in most of these cases; MPICH 4.0 does where a length is 0.) */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define KINDS 14

static char from[3 << 17], into[3 << 17];
static const char *names[KINDS] = {"bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall",
    "gatherv", "scatterv", "allgatherv", "alltoallv", "reduce_scatter_block", "scan", "ibcast"};

static int call(int kind, int n, MPI_Comm comm) {
    int counts[3] = {n, n, n}, places[3] = {0, 1 << 17, 2 << 17}, code;
    MPI_Request request;
    switch (kind) {
    case 0: return MPI_Bcast(from, n, MPI_BYTE, 0, comm);
    case 1: return MPI_Reduce(from, into, n, MPI_BYTE, MPI_BOR, 0, comm);
    case 2: return MPI_Allreduce(from, into, n, MPI_BYTE, MPI_BOR, comm);
    case 3: return MPI_Gather(from, n, MPI_BYTE, into, n, MPI_BYTE, 0, comm);
    case 4: return MPI_Scatter(from, n, MPI_BYTE, into, n, MPI_BYTE, 0, comm);
    case 5: return MPI_Allgather(from, n, MPI_BYTE, into, n, MPI_BYTE, comm);
    case 6: return MPI_Alltoall(from, n, MPI_BYTE, into, n, MPI_BYTE, comm);
    case 7: return MPI_Gatherv(from, n, MPI_BYTE, into, counts, places, MPI_BYTE, 0, comm);
    case 8: return MPI_Scatterv(from, counts, places, MPI_BYTE, into, n, MPI_BYTE, 0, comm);
    case 9: return MPI_Allgatherv(from, n, MPI_BYTE, into, counts, places, MPI_BYTE, comm);
    case 10: return MPI_Alltoallv(from, counts, places, MPI_BYTE, into, counts, places, MPI_BYTE, comm);
    case 11: return MPI_Reduce_scatter_block(from, into, n, MPI_BYTE, MPI_BOR, comm);
    case 12: return MPI_Scan(from, into, n, MPI_BYTE, MPI_BOR, comm);
    default:
        code = MPI_Ibcast(from, n, MPI_BYTE, 0, comm, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    }
}

/* An error of a length, or that another rank has given up; not that a process is gone. */
static int is_named(int class) {
    return class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_COUNT || class == MPI_ERR_OTHER;
}

int main(int argc, char **argv) {
    int rank, size, lengths[5][2] = {{16, 8}, {8, 16}, {100000, 50000}, {0, 64}, {64, 0}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int kind = 0; kind < KINDS; kind++) {
        int wrong = 0, described = kind >= 7 && kind <= 10;
        for (int i = 0; i < 5; i++) {
            /* Blocks of no byte that arrays describe are not sent: a sparse exchange costs what it moves. */
            if (described && i >= 3)
                continue;
            for (int warm = 0; warm <= 20; warm += 20) {
                int mine[2], all[3][2], sum = 0, told = 0, token = rank, other = -1;
                MPI_Comm comm;
                MPI_Comm_dup(MPI_COMM_WORLD, &comm);
                MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
                for (int j = 0; j < warm; j++)
                    MPI_Barrier(comm);
                mine[0] = call(kind, lengths[i][rank == 0], comm);
                mine[1] = MPI_Barrier(comm);
                /* Messages go on, and so do other communicators. */
                MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % size, 0, &other, 1, MPI_INT, (rank + size - 1) % size, 0,
                             comm, MPI_STATUS_IGNORE);
                wrong += other != (rank + size - 1) % size;
                MPI_Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD);
                for (int r = 0; r < size; r++) {
                    told += all[r][0] != MPI_SUCCESS;
                    wrong += !is_named(all[r][0]) || !is_named(all[r][1]);
                }
                wrong += told == 0;
                MPI_Comm_free(&comm);
                MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                wrong = sum;
            }
        }
        if (rank == 0)
            printf("%s: %d wrong\n", names[kind], wrong);
    }

    /* The root alone is wrong: its own block is longer, or shorter, than its room. The others have their data. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int room = 1; room <= 3; room += 2) {
        int words[6] = {0, 1, 2, 3, 4, 5}, got[9] = {-1, -1, -1, -1, -1, -1, -1, -1, -1}, code, wrong = 0, sum;
        code = MPI_Scatter(words, 2, MPI_INT, got, rank == 0 ? room : 2, MPI_INT, 0, MPI_COMM_WORLD);
        wrong += rank == 0 ? code != (room == 1 ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT) : got[0] != 2 * rank || got[1] != 2 * rank + 1;
        words[0] = 10 * rank, words[1] = 10 * rank + 1;
        code = MPI_Gather(words, rank == 0 ? room : 2, MPI_INT, got, 2, MPI_INT, 0, MPI_COMM_WORLD);
        wrong += rank == 0 ? code != (room == 3 ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT) : code != MPI_SUCCESS;
        wrong += rank == 0 && (got[2] != 10 || got[3] != 11 || got[4] != 20 || got[5] != 21);
        MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("root alone: %d wrong\n", sum);
    }
    MPI_Finalize();
    return 0;
}
