/* Ranks die, and the others go on: what the first argument names. Each survivor says "rank N: ok", or what is wrong.
 * The second argument is how many microseconds a rank waits before it dies, where that is to vary. */
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, wrong;

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void expect(int right, const char *what, int line) {
    if (!right) {
        printf("rank %d: line %d: %s\n", rank, line, what);
        wrong = 1;
    }
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define FAILS(call, class) EXPECT(class_of(call) == (class))

static void die(void) {
    fflush(stdout);
    raise(SIGKILL);
}

/* Waits until the failures of so many members are known here. */
static void know(MPI_Comm comm, int failures) {
    int count = 0, flag;
    while (count < failures) {
        MPI_Group group;
        MPIX_Comm_get_failed(comm, &group);
        MPI_Group_size(group, &count);
        if (group != MPI_GROUP_EMPTY)
            MPI_Group_free(&group);
        MPI_Iprobe(rank, 12345, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
}

/* A communicator that works: collectives of several kinds and lengths, often enough to be done in shared memory. */
static void works(MPI_Comm comm, int members) {
    int own, all, sum;
    static double in[5000], out[5000];
    MPI_Comm_size(comm, &all);
    MPI_Comm_rank(comm, &own);
    EXPECT(all == members);
    for (int round = 0; round < 50; round++) {
        int one = own + round;
        EXPECT(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
        EXPECT(sum == members * (members - 1) / 2 + members * round);
        EXPECT(MPI_Barrier(comm) == MPI_SUCCESS);
    }
    for (int i = 0; i < 5000; i++)
        in[i] = own * i;
    EXPECT(MPI_Allreduce(in, out, 5000, MPI_DOUBLE, MPI_SUM, comm) == MPI_SUCCESS);
    EXPECT(out[4999] == 4999.0 * members * (members - 1) / 2);
    int next = (own + 1) % members, before = (own + members - 1) % members, got = -1;
    EXPECT(MPI_Sendrecv(&own, 1, MPI_INT, next, 1, &got, 1, MPI_INT, before, 1, comm, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS);
    EXPECT(got == before);
}

/* One of them dies; messages of the others go on. */
static void specific(MPI_Comm comm) {
    int value = rank, got = -1, order[4] = {0, 1, 3, 0}, at = rank == 3 ? 2 : rank;
    if (rank == 2)
        die();
    FAILS(MPI_Recv(&got, 1, MPI_INT, 2, 7, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Ssend(&value, 1, MPI_INT, 2, 7, comm), MPIX_ERR_PROC_FAILED);
    int next = order[at + 1], before = order[(at + 2) % 3];
    EXPECT(MPI_Sendrecv(&value, 1, MPI_INT, next, 1, &got, 1, MPI_INT, before, 1, comm, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS);
    EXPECT(got == before);
    FAILS(MPI_Barrier(comm), MPIX_ERR_PROC_FAILED);
}

/* Receives from any source. */
static void any(MPI_Comm comm) {
    int values[3] = {-1, -1, -1}, flag, index, count, ranks[1] = {0}, there[1], data = 5, given_up = -1;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    MPI_Group failed, all;
    if (rank == 3) {
        usleep(20000);
        die();
    }
    if (rank != 0) {
        know(comm, 1);
        MPI_Recv(&data, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
        if (rank == 1) {
            MPI_Recv(&data, 1, MPI_INT, 0, 6, comm, MPI_STATUS_IGNORE);
            MPI_Send(&rank, 1, MPI_INT, 0, 3, comm);
        }
        MPI_Send(&rank, 1, MPI_INT, 0, 1, comm);
        return;
    }
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &requests[i]);
    /* Posted before the death, and waited for then. */
    FAILS(MPI_Wait(&requests[0], &statuses[0]), MPIX_ERR_PROC_FAILED_PENDING);
    EXPECT(requests[0] != MPI_REQUEST_NULL);
    FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    EXPECT(statuses[0].MPI_ERROR == MPIX_ERR_PROC_FAILED_PENDING && requests[1] != MPI_REQUEST_NULL);
    FAILS(MPI_Waitany(2, requests, &index, statuses), MPIX_ERR_PROC_FAILED_PENDING);
    FAILS(MPI_Test(&requests[1], &flag, statuses), MPIX_ERR_PROC_FAILED_PENDING);
    /* Those that block, and those that begin now. */
    FAILS(MPI_Recv(&data, 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Probe(MPI_ANY_SOURCE, 2, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Sendrecv(&rank, 1, MPI_INT, 1, 6, &given_up, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    MPI_Irecv(&values[2], 1, MPI_INT, MPI_ANY_SOURCE, 4, comm, &requests[2]);
    FAILS(MPI_Wait(&requests[2], MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    /* Of a communicator without the dead one nothing changes. */
    MPI_Irecv(&data, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_SELF, &requests[2]);
    MPI_Send(&rank, 1, MPI_INT, 0, 4, MPI_COMM_SELF);
    EXPECT(MPI_Wait(&requests[2], MPI_STATUS_IGNORE) == MPI_SUCCESS && data == 0);
    EXPECT(MPIX_Comm_failure_ack(comm) == MPI_SUCCESS);
    MPIX_Comm_failure_get_acked(comm, &failed);
    MPI_Comm_group(comm, &all);
    MPI_Group_size(failed, &count);
    MPI_Group_translate_ranks(failed, 1, ranks, all, there);
    EXPECT(count == 1 && there[0] == 3);
    EXPECT(MPIX_Comm_ack_failed(comm, 0, &count) == MPI_SUCCESS && count == 1);
    for (int i = 1; i < 3; i++)
        MPI_Send(&data, 1, MPI_INT, i, 9, comm);
    EXPECT(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
    EXPECT(values[0] + values[1] == 3 && values[0] != values[1]);
    EXPECT(requests[0] == MPI_REQUEST_NULL);
    /* The receive that has failed takes no message any more. */
    EXPECT(MPI_Iprobe(1, 3, comm, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag && given_up == -1);
    if (flag)
        MPI_Recv(&data, 1, MPI_INT, 1, 3, comm, MPI_STATUS_IGNORE);
}

/* A member revokes the communicator while the others wait for each other. */
static void revoked(MPI_Comm comm) {
    int got, flag = 1, value = 3;
    MPI_Request request;
    MPI_Comm new;
    static char large[1 << 20];
    EXPECT(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && !flag);
    if (rank == 1)
        EXPECT(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD); /* nothing is revoked before */
    if (rank == 0) {
        FAILS(MPI_Recv(&got, 1, MPI_INT, 1, 7, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    } else if (rank == 1) {
        FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    } else if (rank == 2) {
        FAILS(MPI_Barrier(comm), MPIX_ERR_REVOKED);
    } else {
        MPI_Isend(large, sizeof large, MPI_CHAR, 0, 8, comm, &request);
        usleep(20000);
        EXPECT(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
        FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    }
    EXPECT(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag);
    FAILS(MPI_Send(&value, 1, MPI_INT, 0, 1, comm), MPIX_ERR_REVOKED);
    FAILS(MPI_Recv(&value, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, comm), MPIX_ERR_REVOKED);
    FAILS(MPI_Comm_dup(comm, &new), MPIX_ERR_REVOKED);
    EXPECT(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    EXPECT(MPIX_Comm_shrink(comm, &new) == MPI_SUCCESS);
    works(new, 4);
    flag = 12 | 1 << rank;
    EXPECT(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag == 12);
    MPI_Comm_free(&new);
    works(MPI_COMM_WORLD, 4);
}

/* As above, while all others are in one collective, which ranks of one process do at a meeting. */
static void revoked_meeting(MPI_Comm comm) {
    int flag = 0, sum;
    for (int i = 0; i < 20; i++)
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (rank == 0) {
        usleep(50000);
        EXPECT(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    } else {
        FAILS(MPI_Barrier(comm), MPIX_ERR_REVOKED);
    }
    EXPECT(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag);
    FAILS(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm), MPIX_ERR_REVOKED);
    FAILS(MPI_Barrier(comm), MPIX_ERR_REVOKED);
    works(MPI_COMM_WORLD, 4);
}

/* The member that revokes dies, and so does the first that hears of it. The others hear of it all the same. */
static void revoker_dies(MPI_Comm comm) {
    int got;
    MPI_Comm new;
    if (rank == 1) {
        MPIX_Comm_revoke(comm);
        MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        die();
    } else if (rank == 0) {
        FAILS(MPI_Recv(&got, 1, MPI_INT, 2, 7, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
        MPI_Send(&rank, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        die();
    }
    /* Ranks 2 and 3 wait for each other: no death ends that. */
    FAILS(MPI_Recv(&got, 1, MPI_INT, 5 - rank, 7, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    know(comm, 2);
    EXPECT(MPIX_Comm_shrink(comm, &new) == MPI_SUCCESS);
    works(new, 2);
    MPI_Comm_free(&new);
}

/* Members that are dead before the agreement. */
static void agree(MPI_Comm comm) {
    int flag = ~(1 << rank);
    MPI_Request request;
    EXPECT(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag == ~15);
    if (rank == 1)
        die();
    flag = ~(1 << rank);
    FAILS(MPIX_Comm_agree(comm, &flag), MPIX_ERR_PROC_FAILED);
    EXPECT(flag == ~13);
    MPIX_Comm_failure_ack(comm);
    flag = ~(1 << rank);
    EXPECT(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag == ~13);
    if (rank == 0)
        die();
    flag = ~(1 << rank);
    MPIX_Comm_iagree(comm, &flag, &request);
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    EXPECT(flag == ~12 && request == MPI_REQUEST_NULL);
}

/* The coordinator dies at some moment of the agreement, and the next one too: the others come to the same end. */
static void coordinators_die(MPI_Comm comm, int micros) {
    int flag = ~(1 << rank), code;
    MPI_Request request;
    MPI_Comm new;
    if (rank < 2) {
        MPIX_Comm_iagree(comm, &flag, &request);
        usleep(micros * (1 + rank));
        die();
    }
    code = MPIX_Comm_agree(comm, &flag);
    EXPECT(class_of(code) == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED);
    EXPECT((flag & 12) == 0 && (flag | 15) == -1);
    know(comm, 2);
    EXPECT(MPIX_Comm_shrink(comm, &new) == MPI_SUCCESS);
    int said[2] = {flag, code}, least[2], most[2];
    MPI_Allreduce(said, least, 2, MPI_INT, MPI_MIN, new);
    MPI_Allreduce(said, most, 2, MPI_INT, MPI_MAX, new);
    EXPECT(!memcmp(least, most, sizeof least) && !memcmp(least, said, sizeof said));
    works(new, 2);
    MPI_Comm_free(&new);
}

/* As a program that survives is written: work, and where that fails revoke, shrink, and go on. */
static void survive(MPI_Comm comm, int micros) {
    int left = 4, sum;
    MPI_Comm now, new;
    MPI_Comm_dup(comm, &now);
    for (int death = 0; death < 2; death++) {
        int dies = death ? 2 : 0, code = MPI_SUCCESS;
        if (rank == dies) {
            MPI_Request request;
            for (int i = 0; i < 20; i++)
                MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, now);
            MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, now, &request);
            usleep(micros);
            die();
        }
        while (code == MPI_SUCCESS)
            code = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, now);
        EXPECT(class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED);
        MPIX_Comm_revoke(now);
        if (death) {
            MPI_Request request;
            MPIX_Comm_ishrink(now, &new, &request);
            EXPECT(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        } else {
            EXPECT(MPIX_Comm_shrink(now, &new) == MPI_SUCCESS);
        }
        MPI_Comm_free(&now);
        now = new;
        works(now, --left);
    }
    MPI_Comm_free(&now);
}

/* Killed from outside: survivors shrink until two are left. */
static void killed(MPI_Comm comm) {
    int left = 4, sum, code;
    MPI_Comm now = comm, new;
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    while (left > 2) {
        while ((code = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, now)) == MPI_SUCCESS)
            ;
        MPIX_Comm_revoke(now);
        EXPECT(MPIX_Comm_shrink(now, &new) == MPI_SUCCESS);
        now = new;
        MPI_Comm_size(now, &left);
    }
    works(now, 2);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int micros = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    if (!strcmp(mode, "specific"))
        specific(comm);
    else if (!strcmp(mode, "any"))
        any(comm);
    else if (!strcmp(mode, "revoke"))
        revoked(comm);
    else if (!strcmp(mode, "meeting"))
        revoked_meeting(comm);
    else if (!strcmp(mode, "abort")) {
        if (rank == 1)
            MPI_Abort(comm, 3);
        sleep(600);
    } else if (!strcmp(mode, "revoker"))
        revoker_dies(comm);
    else if (!strcmp(mode, "agree"))
        agree(comm);
    else if (!strcmp(mode, "coordinators"))
        coordinators_die(comm, micros);
    else if (!strcmp(mode, "survive"))
        survive(comm, micros);
    else if (!strcmp(mode, "killed"))
        killed(comm);
    else
        EXPECT(!"a mode");
    if (!wrong)
        printf("rank %d: ok\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return wrong;
}
