/* np: 2, peers: no */
/* Messages in parts: made ready in any order by several threads, other numbers of parts on both sides, scattered types. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOTAL = 24000, THREADS = 4, ROUNDS = 6 };

static int out[TOTAL], in[3 * TOTAL];
static MPI_Request request;
static int parts;

static void *make_ready(void *which) {
    for (int i = (int)(long)which; i < parts; i += THREADS) {
        for (int at = i * (TOTAL / parts); at < (i + 1) * (TOTAL / parts); at++)
            out[at] += 1;
        MPI_Pready(i, request);
    }
    return NULL;
}

static void send(int partitions) {
    parts = partitions;
    MPI_Psend_init(out, partitions, TOTAL / partitions, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (int at = 0; at < TOTAL; at++)
            out[at] = at * 10 + round;
        MPI_Start(&request);
        for (long i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, make_ready, (void *)i);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    MPI_Request_free(&request);
}

static void receive(int partitions, MPI_Datatype type, int stride) {
    int flag, count;
    MPI_Status status;
    MPI_Precv_init(in, partitions, TOTAL / partitions, type, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < 3 * TOTAL; at++)
            in[at] = -1;
        MPI_Start(&request);
        for (int i = 0; i < partitions; i++) {
            if (round % 2)
                continue;
            do
                MPI_Parrived(request, i, &flag);
            while (!flag);
            for (int at = i * (TOTAL / partitions); at < (i + 1) * (TOTAL / partitions); at++)
                if (in[at * stride] != at * 10 + round + 1) {
                    printf("part %d of %d: %d at %d\n", i, partitions, in[at * stride], at);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
        }
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, type, &count);
        if (status.MPI_SOURCE != 0 || status.MPI_TAG != 3 || count != TOTAL)
            printf("status: %d %d %d\n", status.MPI_SOURCE, status.MPI_TAG, count);
        for (int at = 0; at < TOTAL; at++)
            if (in[at * stride] != at * 10 + round + 1) {
                printf("of %d: %d at %d\n", partitions, in[at * stride], at);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        for (int at = 0; at < stride * TOTAL; at++)
            if (at % stride && in[at] != -1)
                printf("what is between the elements was touched\n");
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv) {
    static const int numbers[] = {1, 3, 8, 100, 24000};
    int rank, provided, flag;
    MPI_Datatype strided;
    MPI_Request first, second;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &strided);
    MPI_Type_commit(&strided);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            if (rank == 0) {
                send(numbers[i]);
                send(numbers[i]);
            } else {
                receive(numbers[j], MPI_INT, 1);
                receive(numbers[j], strided, 3);
            }
        }
    /* Requests of one tag are matched as they were made, not as they are started. */
    if (rank == 0) {
        int a = 1, b = 2;
        MPI_Psend_init(&a, 1, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
        MPI_Psend_init(&b, 1, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &second);
        MPI_Start(&second);
        MPI_Pready(0, second);
        MPI_Wait(&second, MPI_STATUS_IGNORE);
        MPI_Start(&first);
        MPI_Pready_range(0, 0, first);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
    } else {
        int a = 0, b = 0;
        MPI_Precv_init(&a, 1, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
        MPI_Precv_init(&b, 1, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &second);
        MPI_Start(&first);
        MPI_Start(&second);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
        MPI_Wait(&second, MPI_STATUS_IGNORE);
        if (a != 1 || b != 2)
            printf("crossed: %d %d\n", a, b);
    }
    MPI_Request_free(&first);
    MPI_Request_free(&second);
    /* Parts that end inside of the other side's elements; and too many. */
    if (rank == 0) {
        for (int at = 0; at < 12; at++)
            out[at] = at;
        MPI_Psend_init(out, 6, 2, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
        MPI_Start(&first);
        MPI_Pready_list(6, (int[]){5, 1, 3, 0, 2, 4}, first);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
        MPI_Request_free(&first);
        MPI_Psend_init(out, 3, 4, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
        MPI_Start(&first);
        MPI_Pready_range(0, 2, first);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
    } else {
        MPI_Datatype three, spread;
        MPI_Type_vector(3, 1, 2, MPI_INT, &three);
        MPI_Type_create_resized(three, 0, 6 * sizeof(int), &spread);
        MPI_Type_commit(&spread);
        MPI_Precv_init(in, 2, 2, spread, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
        MPI_Start(&first);
        do
            MPI_Parrived(first, 1, &flag);
        while (!flag);
        MPI_Wait(&first, MPI_STATUS_IGNORE);
        for (int at = 0; at < 12; at++)
            if (in[2 * at] != at)
                printf("spread: %d at %d\n", in[2 * at], at);
        MPI_Request_free(&first);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        in[8] = -1;
        MPI_Precv_init(in, 2, 4, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
        MPI_Start(&first);
        if (MPI_Wait(&first, MPI_STATUS_IGNORE) != MPI_ERR_TRUNCATE || in[7] != 7 || in[8] != -1)
            printf("too long, and nobody says so: %d %d\n", in[7], in[8]);
        MPI_Type_free(&three);
        MPI_Type_free(&spread);
    }
    MPI_Request_free(&first);
    /* To and from MPI_PROC_NULL. */
    MPI_Psend_init(out, 2, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &first);
    MPI_Precv_init(in, 2, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &second);
    MPI_Start(&first);
    MPI_Start(&second);
    MPI_Pready_range(0, 1, first);
    MPI_Parrived(second, 0, &flag);
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
    MPI_Request_free(&first);
    MPI_Request_free(&second);
    MPI_Type_free(&strided);
    if (rank == 1)
        printf("nobody: %d\n", flag);
    MPI_Finalize();
    return 0;
}
