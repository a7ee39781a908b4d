/* np: 2 */
/* Four threads of each process send and receive at once, in every way, and wait for what is theirs. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 150, WINDOW = 8, LONG = 40000 };

static int rank;

static int length(int round, int i) { return i == 5 && round % 10 == 0 ? LONG : (round * 7 + i * 13) % 300; }

static void *run(void *which) {
    int thread = (int)(long)which, other = 1 - rank;
    char *out[WINDOW], *in[WINDOW];
    MPI_Request requests[2 * WINDOW];
    MPI_Status statuses[2 * WINDOW], status;
    for (int i = 0; i < WINDOW; i++) {
        out[i] = malloc(LONG);
        in[i] = malloc(LONG);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int tag = thread * 100, count, over = 0, index, flag;
        for (int i = 0; i < WINDOW; i++) {
            memset(out[i], rank + thread * 3 + i * 11 + round, length(round, i));
            MPI_Irecv(in[i], LONG, MPI_CHAR, other, tag + i, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < WINDOW; i++)
            if ((i + round) % 4 == 0)
                MPI_Issend(out[i], length(round, i), MPI_CHAR, other, tag + i, MPI_COMM_WORLD, &requests[WINDOW + i]);
            else
                MPI_Isend(out[i], length(round, i), MPI_CHAR, other, tag + i, MPI_COMM_WORLD, &requests[WINDOW + i]);
        switch ((round + thread) % 3) {
        case 0: MPI_Waitall(2 * WINDOW, requests, statuses); break;
        case 1:
            for (;;) {
                MPI_Waitany(2 * WINDOW, requests, &index, &status);
                if (index == MPI_UNDEFINED)
                    break;
                statuses[index] = status;
            }
            break;
        default:
            while (over < 2 * WINDOW)
                for (int i = 0; i < 2 * WINDOW; i++)
                    if (requests[i] != MPI_REQUEST_NULL) {
                        MPI_Test(&requests[i], &flag, &statuses[i]);
                        over += flag;
                    }
        }
        for (int i = 0; i < WINDOW; i++) {
            MPI_Get_count(&statuses[i], MPI_CHAR, &count);
            if (count != length(round, i) || statuses[i].MPI_TAG != tag + i) {
                printf("thread %d, round %d: %d bytes with tag %d\n", thread, round, count, statuses[i].MPI_TAG);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            for (int at = 0; at < count; at++)
                if (in[i][at] != (char)(other + thread * 3 + i * 11 + round)) {
                    printf("thread %d, round %d: wrong at %d of %d\n", thread, round, at, i);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
        }
        /* Blocking calls beside the other threads'. */
        int mine = round * 10 + thread, theirs = -1;
        MPI_Sendrecv(&mine, 1, MPI_INT, other, tag + 50, &theirs, 1, MPI_INT, other, tag + 50, MPI_COMM_WORLD, &status);
        if (theirs != mine)
            printf("thread %d, round %d: exchanged %d\n", thread, round, theirs);
        if (rank == 0)
            MPI_Ssend(&mine, 1, MPI_INT, other, tag + 51, MPI_COMM_WORLD);
        else {
            MPI_Message message;
            MPI_Mprobe(other, tag + 51, MPI_COMM_WORLD, &message, &status);
            MPI_Mrecv(&theirs, 1, MPI_INT, &message, &status);
        }
    }
    for (int i = 0; i < WINDOW; i++) {
        free(out[i]);
        free(in[i]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (rank == 0)
        printf("done\n");
    MPI_Finalize();
    return 0;
}
