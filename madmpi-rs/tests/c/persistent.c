/* np: 2, peers: mpich */
/* Requests that are made once and started many times. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 5, LONG = 60000, ROUNDS = 20 };

int main(int argc, char **argv) {
    static int out[N][LONG], in[N][LONG];
    static char room[N * (LONG * sizeof(int) + MPI_BSEND_OVERHEAD)];
    int rank, index, flag, count, indices[2 * N], size;
    void *given;
    MPI_Request all[2 * N];
    MPI_Status statuses[2 * N], status;
    MPI_Datatype column;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Buffer_attach(room, sizeof room);
    int other = 1 - rank, length[N] = {0, 10, LONG, 100, 50};
    MPI_Type_vector(50, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Send_init(out[0], length[0], MPI_INT, other, 0, MPI_COMM_WORLD, &all[0]);
    MPI_Ssend_init(out[1], length[1], MPI_INT, other, 1, MPI_COMM_WORLD, &all[1]);
    MPI_Bsend_init(out[2], length[2], MPI_INT, other, 2, MPI_COMM_WORLD, &all[2]);
    MPI_Rsend_init(out[3], length[3], MPI_INT, other, 3, MPI_COMM_WORLD, &all[3]);
    MPI_Send_init(out[4], 1, column, other, 4, MPI_COMM_WORLD, &all[4]);
    for (int i = 0; i < N; i++)
        MPI_Recv_init(in[i], i == 4 ? 1 : LONG, i == 4 ? column : MPI_INT, other, i, MPI_COMM_WORLD, &all[N + i]);
    MPI_Type_free(&column);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            for (int at = 0; at < LONG; at++) {
                out[i][at] = rank + i * 10 + at + round * 1000;
                in[i][at] = -1;
            }
        MPI_Startall(N, all + N);
        MPI_Sendrecv(NULL, 0, MPI_INT, other, 9, NULL, 0, MPI_INT, other, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++)
            MPI_Start(&all[i]);
        switch (round % 4) {
        case 0: MPI_Waitall(2 * N, all, statuses); break;
        case 1:
            for (int over = 0; over < 2 * N; over++) {
                MPI_Waitany(2 * N, all, &index, &status);
                statuses[index] = status;
            }
            MPI_Waitany(2 * N, all, &index, &status);
            if (index != MPI_UNDEFINED)
                printf("waitany finds %d\n", index);
            break;
        case 2:
            for (int over = 0; over < 2 * N; over += count) {
                MPI_Status some[2 * N];
                MPI_Waitsome(2 * N, all, &count, indices, some);
                for (int i = 0; i < count; i++)
                    statuses[indices[i]] = some[i];
            }
            break;
        default:
            for (int i = 0; i < 2 * N; i++)
                do
                    MPI_Test(&all[i], &flag, &statuses[i]);
                while (!flag);
        }
        for (int i = 0; i < N; i++) {
            int step = i == 4 ? 3 : 1;
            MPI_Get_count(&statuses[N + i], MPI_INT, &count);
            if (count != length[i] || statuses[N + i].MPI_SOURCE != other || statuses[N + i].MPI_TAG != i)
                printf("round %d, %d: status %d %d %d\n", round, i, statuses[N + i].MPI_SOURCE, statuses[N + i].MPI_TAG, count);
            for (int at = 0; at < length[i]; at++)
                if (in[i][at * step] != other + i * 10 + at * step + round * 1000) {
                    printf("round %d, %d: wrong at %d: %d\n", round, i, at, in[i][at * step]);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
            if (i == 4 && (in[i][1] != -1 || in[i][3 * 50] != -1))
                printf("what is between the elements was touched\n");
        }
    }
    for (int i = 0; i < 2 * N; i++) {
        if (all[i] == MPI_REQUEST_NULL)
            printf("a persistent request is gone\n");
        MPI_Request_free(&all[i]);
        if (all[i] != MPI_REQUEST_NULL)
            printf("a freed request is there\n");
    }
    MPI_Buffer_detach(&given, &size);
    if (rank == 0)
        printf("done\n");
    MPI_Finalize();
    return 0;
}
