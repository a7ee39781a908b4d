/* np: 2, peers: no */
/* Messages that are longer than their buffer, with error handlers that return. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;

static const char *class_of(int code) {
    switch (code) {
    case MPI_SUCCESS: return "success";
    case MPI_ERR_TRUNCATE: return "truncate";
    case MPI_ERR_IN_STATUS: return "in status";
    case MPI_ERR_PENDING: return "pending";
    default: return "?";
    }
}

static int handled;

static void handler(MPI_Comm *comm, int *code, ...) {
    handled = *code == MPI_ERR_TRUNCATE && *comm == MPI_COMM_WORLD;
}

int main(int argc, char **argv) {
    static int data[50000], in[50000];
    int count, flag, indices[3];
    MPI_Status status, statuses[3];
    MPI_Request requests[3];
    MPI_Message message;
    MPI_Errhandler own;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int at = 0; at < 50000; at++)
        data[at] = at + 1;
    for (int size = 4; size <= 40000; size *= 100) {
        if (rank == 1) {
            for (int i = 0; i < 6; i++)
                MPI_Send(data, size, MPI_INT, 0, i, MPI_COMM_WORLD);
            for (int i = 10; i < 19; i++)
                MPI_Send(data, i % 3 == 1 ? size : 1, MPI_INT, 0, i, MPI_COMM_WORLD);
            continue;
        }
        memset(in, 0, sizeof in);
        int code = MPI_Recv(in, 2, MPI_INT, 1, 0, MPI_COMM_WORLD, &status);
        printf("recv: %s, %d %d %d\n", class_of(code), in[0], in[1], in[2]);
        MPI_Error_string(code, text, &count);
        printf("says so: %d\n", strstr(text, "MPI_Recv") != NULL && strstr(text, "8 bytes") != NULL);
        MPI_Irecv(in, 2, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[0]);
        status.MPI_ERROR = 77;
        code = MPI_Wait(&requests[0], &status);
        MPI_Get_count(&status, MPI_INT, &count);
        printf("wait: %s, %d from %d, tag %d, error %d, null %d\n", class_of(code), count, status.MPI_SOURCE,
               status.MPI_TAG, status.MPI_ERROR, requests[0] == MPI_REQUEST_NULL);
        MPI_Irecv(in, 2, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[0]);
        do
            code = MPI_Test(&requests[0], &flag, &status);
        while (!flag);
        printf("test: %s\n", class_of(code));
        MPI_Mprobe(1, 3, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        code = MPI_Mrecv(in, 3, MPI_INT, &message, &status);
        printf("mrecv: %s of %d\n", class_of(code), count);
        code = MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, in, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &status);
        printf("sendrecv: %s\n", class_of(code));
        MPI_Comm_create_errhandler(handler, &own);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
        handled = 0;
        MPI_Recv(in, 2, MPI_INT, 1, 5, MPI_COMM_WORLD, &status);
        printf("handled: %d\n", handled);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Errhandler_free(&own);
        /* Of three, the first one is too long. */
        for (int way = 0; way < 3; way++) {
            for (int i = 0; i < 3; i++) {
                MPI_Irecv(&in[i], 1, MPI_INT, 1, 10 + way * 3 + i, MPI_COMM_WORLD, &requests[i]);
                statuses[i].MPI_ERROR = 77;
            }
            if (way == 0) {
                code = MPI_Waitall(3, requests, statuses);
                printf("waitall: %s:", class_of(code));
            } else if (way == 1) {
                do
                    code = MPI_Testall(3, requests, &flag, statuses);
                while (!flag);
                printf("testall: %s:", class_of(code));
            } else {
                int errors[3] = {0}, left = 3, failed = 0;
                while (left > 0) {
                    MPI_Status some[3];
                    for (int i = 0; i < 3; i++)
                        some[i].MPI_ERROR = MPI_SUCCESS;
                    code = MPI_Waitsome(3, requests, &count, indices, some);
                    failed += code == MPI_ERR_IN_STATUS;
                    for (int i = 0; i < count; i++)
                        errors[indices[i]] = some[i].MPI_ERROR;
                    left -= count;
                }
                printf("waitsome: %d:", failed);
                for (int i = 0; i < 3; i++)
                    statuses[i].MPI_ERROR = errors[i];
            }
            for (int i = 0; i < 3; i++)
                printf(" %s", class_of(statuses[i].MPI_ERROR));
            printf("; %d %d %d\n", in[0], in[1], in[2]);
        }
    }
    MPI_Finalize();
    return 0;
}
