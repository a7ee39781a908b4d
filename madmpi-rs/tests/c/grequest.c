/* np: 1, peers: openmpi */
/* Generalized requests: what the program's functions say, alone and among messages, completed by another thread. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct work {
    MPI_Request request;
    int number, queried, freed, cancelled, delay;
};

static int query(void *extra, MPI_Status *status) {
    struct work *work = extra;
    work->queried++;
    MPI_Status_set_elements(status, MPI_INT, work->number);
    MPI_Status_set_cancelled(status, work->cancelled);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = work->number;
    return MPI_SUCCESS;
}

static int release(void *extra) {
    ((struct work *)extra)->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    struct work *work = extra;
    if (!complete) {
        work->cancelled = 1;
        MPI_Grequest_complete(work->request);
    }
    return MPI_SUCCESS;
}

static void *later(void *extra) {
    struct work *work = extra;
    usleep(work->delay);
    MPI_Grequest_complete(work->request);
    return NULL;
}

static void show(const char *what, MPI_Status *status, struct work *work) {
    int count, elements, cancelled;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Get_elements(status, MPI_INT, &elements);
    MPI_Test_cancelled(status, &cancelled);
    printf("%s: tag %d, count %d, elements %d, cancelled %d; queried %d, freed %d\n", what, status->MPI_TAG, count,
           elements, cancelled, work->queried > 0, work->freed);
}

static struct work start(int number) {
    struct work work = {MPI_REQUEST_NULL, number, 0, 0, 0, 0};
    return work;
}

int main(int argc, char **argv) {
    int flag, index, provided, word = 0, in = 0;
    MPI_Status status, statuses[3];
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    struct work one = start(3);
    MPI_Grequest_start(query, release, cancel, &one, &one.request);
    MPI_Request handle = one.request;
    MPI_Test(&handle, &flag, &status);
    printf("before: %d\n", flag);
    MPI_Grequest_complete(one.request);
    MPI_Request_get_status(handle, &flag, &status);
    show(flag ? "get_status" : "?", &status, &one);
    MPI_Wait(&handle, &status);
    show("wait", &status, &one);
    printf("null: %d\n", handle == MPI_REQUEST_NULL);

    struct work two = start(4);
    MPI_Grequest_start(query, release, cancel, &two, &two.request);
    handle = two.request;
    MPI_Cancel(&handle);
    MPI_Wait(&handle, &status);
    show("cancelled", &status, &two);

    struct work three = start(5);
    MPI_Grequest_start(query, release, cancel, &three, &three.request);
    handle = three.request;
    three.delay = 20000;
    pthread_create(&thread, NULL, later, &three);
    MPI_Wait(&handle, &status);
    show("by another thread", &status, &three);
    pthread_join(thread, NULL);

    struct work four = start(6);
    MPI_Grequest_start(query, release, cancel, &four, &four.request);
    four.delay = 20000;
    MPI_Request requests[3];
    MPI_Irecv(&in, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &requests[0]);
    requests[1] = four.request;
    requests[2] = MPI_REQUEST_NULL;
    pthread_create(&thread, NULL, later, &four);
    MPI_Waitany(3, requests, &index, &status);
    show(index == 1 ? "waitany" : "?", &status, &four);
    pthread_join(thread, NULL);
    word = 11;
    MPI_Send(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    struct work five = start(7);
    MPI_Grequest_start(query, release, cancel, &five, &five.request);
    requests[1] = five.request;
    five.delay = 20000;
    pthread_create(&thread, NULL, later, &five);
    MPI_Waitall(3, requests, statuses);
    show("waitall", &statuses[1], &five);
    printf("beside it: %d\n", in);
    pthread_join(thread, NULL);

    struct work six = start(8);
    MPI_Grequest_start(query, release, cancel, &six, &six.request);
    MPI_Grequest_complete(six.request);
    MPI_Request_free(&six.request);
    printf("freed after its end: %d\n", six.freed);
    MPI_Finalize();
    return 0;
}
