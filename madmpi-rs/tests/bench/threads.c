/* Threads of both ranks that all call MPI at once, for some time. Usage: threads [seconds] [threads]
 * Each sends numbered messages of changing length to the thread of the same number over there, and checks what comes. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 70000

static int rank, seconds, errors;
static long counts[64];

static int length(int round) { return (round * 7919) % (round % 16 == 0 ? MOST : 300); }

static void *run(void *argument) {
    int me = (int)(long)argument, peer = 1 - rank, round = 0, goes_on = 1;
    unsigned char *out = malloc(MOST), *in = malloc(MOST);
    double end = MPI_Wtime() + seconds;
    while (goes_on) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        int len = length(round), got;
        memset(out, (round + me) & 255, len);
        MPI_Irecv(in, MOST, MPI_BYTE, peer, me, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, len, MPI_BYTE, peer, me, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        MPI_Get_count(&statuses[0], MPI_BYTE, &got);
        if (got != len)
            __atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED);
        for (int i = 0; i < got; i++)
            if (in[i] != ((round + me) & 255)) {
                __atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED);
                break;
            }
        round++;
        /* Rank 0 says when it is over, so that both do the same number of rounds. */
        if (round % 50 == 0) {
            int over = MPI_Wtime() > end;
            if (rank == 0)
                MPI_Send(&over, 1, MPI_INT, 1, 1000 + me, MPI_COMM_WORLD);
            else
                MPI_Recv(&over, 1, MPI_INT, 0, 1000 + me, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            goes_on = !over;
        }
    }
    counts[me] = round;
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, threads = argc > 2 ? atoi(argv[2]) : 4;
    pthread_t all[64];
    long total = 0;
    seconds = argc > 1 ? atoi(argv[1]) : 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, run, (void *)i);
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
        total += counts[i];
    }
    MPI_Finalize();
    if (errors) {
        printf("rank %d: %d errors\n", rank, errors);
        return 1;
    }
    if (rank == 0)
        printf("%ld exchanges, no error\n", total);
    return 0;
}
