/* np: 3 */
/* Isend, Irecv and every way to wait for them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40, LONG = 300000 };

static int rank, size, next, prev;

/* Lengths from nothing to what needs a rendezvous. */
static int length(int i) { return i == 7 ? LONG : i == 9 ? 20000 : i; }

static char *fill(int owner, int i) {
    char *data = malloc(length(i) + 1);
    for (int at = 0; at < length(i); at++)
        data[at] = (char)(owner * 31 + i * 7 + at);
    return data;
}

static void check(const char *what, char *found, int i) {
    char *expected = fill(prev, i);
    if (memcmp(found, expected, length(i))) {
        printf("%s: message %d is wrong\n", what, i);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(expected);
}

static void check_status(const char *what, MPI_Status *status, int i) {
    int count;
    MPI_Get_count(status, MPI_CHAR, &count);
    if (status->MPI_SOURCE != prev || status->MPI_TAG != i || count != length(i)) {
        printf("%s: status of %d: %d %d %d\n", what, i, status->MPI_SOURCE, status->MPI_TAG, count);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* One round: receives are waited for in the given way. */
static void round_of(const char *what, int (*wait)(MPI_Request *, char **, const char *), int early) {
    MPI_Request sends[N], receives[N];
    char *out[N], *in[N];
    for (int i = 0; i < N; i++) {
        out[i] = fill(rank, i);
        in[i] = malloc(length(i) + 1);
    }
    if (early)
        for (int i = 0; i < N; i++)
            MPI_Irecv(in[i], length(i), MPI_CHAR, prev, i, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < N; i++)
        if (i % 3 == 0)
            MPI_Issend(out[i], length(i), MPI_CHAR, next, i, MPI_COMM_WORLD, &sends[i]);
        else
            MPI_Isend(out[i], length(i), MPI_CHAR, next, i, MPI_COMM_WORLD, &sends[i]);
    if (!early)
        for (int i = N - 1; i >= 0; i--)
            MPI_Irecv(in[i], length(i), MPI_CHAR, prev, i, MPI_COMM_WORLD, &receives[i]);
    int total = wait(receives, in, what);
    MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) {
        check(what, in[i], i);
        if (sends[i] != MPI_REQUEST_NULL || receives[i] != MPI_REQUEST_NULL)
            printf("%s: a handle is left\n", what);
        free(out[i]);
        free(in[i]);
    }
    if (rank == 0)
        printf("%s: %d\n", what, total);
}

static int by_wait(MPI_Request *requests, char **in, const char *what) {
    (void)in;
    for (int i = 0; i < N; i++) {
        MPI_Status status;
        MPI_Wait(&requests[i], &status);
        check_status(what, &status, i);
    }
    return N;
}

static int by_test(MPI_Request *requests, char **in, const char *what) {
    int over = 0;
    (void)in;
    while (over < N)
        for (int i = 0; i < N; i++) {
            int flag;
            MPI_Status status;
            if (requests[i] == MPI_REQUEST_NULL)
                continue;
            MPI_Test(&requests[i], &flag, &status);
            if (flag) {
                check_status(what, &status, i);
                over++;
            }
        }
    return over;
}

static int by_waitall(MPI_Request *requests, char **in, const char *what) {
    MPI_Status statuses[N];
    (void)in;
    MPI_Waitall(N, requests, statuses);
    for (int i = 0; i < N; i++)
        check_status(what, &statuses[i], i);
    return N;
}

static int by_testall(MPI_Request *requests, char **in, const char *what) {
    MPI_Status statuses[N];
    int flag = 0;
    (void)in;
    while (!flag)
        MPI_Testall(N, requests, &flag, statuses);
    for (int i = 0; i < N; i++)
        check_status(what, &statuses[i], i);
    return N;
}

static int by_waitany(MPI_Request *requests, char **in, const char *what) {
    int over = 0;
    for (;;) {
        int index;
        MPI_Status status;
        MPI_Waitany(N, requests, &index, &status);
        if (index == MPI_UNDEFINED)
            return over;
        check_status(what, &status, index);
        check(what, in[index], index);
        over++;
    }
}

static int by_testany(MPI_Request *requests, char **in, const char *what) {
    int over = 0;
    for (;;) {
        int index, flag;
        MPI_Status status;
        MPI_Testany(N, requests, &index, &flag, &status);
        if (!flag)
            continue;
        if (index == MPI_UNDEFINED)
            return over;
        check_status(what, &status, index);
        check(what, in[index], index);
        over++;
    }
}

static int by_waitsome(MPI_Request *requests, char **in, const char *what) {
    int over = 0;
    for (;;) {
        int count, indices[N];
        MPI_Status statuses[N];
        MPI_Waitsome(N, requests, &count, indices, statuses);
        if (count == MPI_UNDEFINED)
            return over;
        if (count == 0)
            printf("%s: woken for nothing\n", what);
        for (int i = 0; i < count; i++) {
            check_status(what, &statuses[i], indices[i]);
            check(what, in[indices[i]], indices[i]);
        }
        over += count;
    }
}

static int by_testsome(MPI_Request *requests, char **in, const char *what) {
    int over = 0;
    for (;;) {
        int count, indices[N];
        MPI_Status statuses[N];
        MPI_Testsome(N, requests, &count, indices, statuses);
        if (count == MPI_UNDEFINED)
            return over;
        for (int i = 0; i < count; i++) {
            check_status(what, &statuses[i], indices[i]);
            check(what, in[indices[i]], indices[i]);
        }
        over += count;
    }
}

static int by_get_status(MPI_Request *requests, char **in, const char *what) {
    for (int i = 0; i < N; i++) {
        int flag = 0;
        MPI_Status status;
        while (!flag)
            MPI_Request_get_status(requests[i], &flag, &status);
        check_status(what, &status, i);
        check(what, in[i], i);
        MPI_Request_get_status(requests[i], &flag, &status);
        check_status(what, &status, i);
    }
    return by_waitall(requests, in, what);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    prev = (rank + size - 1) % size;
    for (int early = 0; early < 2; early++) {
        round_of("wait", by_wait, early);
        round_of("test", by_test, early);
        round_of("waitall", by_waitall, early);
        round_of("testall", by_testall, early);
        round_of("waitany", by_waitany, early);
        round_of("testany", by_testany, early);
        round_of("waitsome", by_waitsome, early);
        round_of("testsome", by_testsome, early);
        round_of("get_status", by_get_status, early);
    }
    MPI_Finalize();
    return 0;
}
