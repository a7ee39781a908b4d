/* np: 1, peers: openmpi */
/* Messages to and from MPI_PROC_NULL, and calls on no request at all. */
#include <mpi.h>
#include <stdio.h>

static void show(const char *what, MPI_Status *status) {
    int count, cancelled;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    printf("%s: %s %s %d %d\n", what,
           status->MPI_SOURCE == MPI_PROC_NULL    ? "nobody"
           : status->MPI_SOURCE == MPI_ANY_SOURCE ? "any"
                                                  : "?",
           status->MPI_TAG == MPI_ANY_TAG ? "any" : "?", count, cancelled);
}

int main(int argc, char **argv) {
    int word = 7, flag, index, count, indices[3];
    MPI_Status status, statuses[3];
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message message;
    MPI_Init(&argc, &argv);
    MPI_Send(&word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Ssend(&word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    show("recv", &status);
    MPI_Sendrecv(&word, 1, MPI_INT, MPI_PROC_NULL, 1, &word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    show("sendrecv", &status);
    MPI_Sendrecv_replace(&word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    show("sendrecv_replace", &status);
    MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    show("probe", &status);
    MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &status);
    show("iprobe", &status);
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    show("mprobe", &status);
    printf("no proc: %d\n", message == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(&word, 1, MPI_INT, &message, &status);
    show("mrecv", &status);
    printf("null: %d\n", message == MPI_MESSAGE_NULL);
    MPI_Irecv(&word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[1], &status);
    show("irecv", &status);
    MPI_Recv_init(&word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[1], &status);
    show("inactive", &status);
    MPI_Start(&requests[1]);
    MPI_Wait(&requests[1], &status);
    show("recv_init", &status);
    MPI_Isend(&word, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Waitany(3, requests, &index, &status);
    printf("waitany: %d\n", index);
    /* From here on: null, idle, null. */
    MPI_Wait(&requests[0], &status);
    show("null", &status);
    MPI_Test(&requests[0], &flag, &status);
    show("test", &status);
    MPI_Waitany(3, requests, &index, &status);
    show(index == MPI_UNDEFINED ? "waitany" : "?", &status);
    MPI_Testany(3, requests, &index, &flag, &status);
    show(flag && index == MPI_UNDEFINED ? "testany" : "?", &status);
    MPI_Waitsome(3, requests, &count, indices, statuses);
    printf("waitsome: %d\n", count == MPI_UNDEFINED);
    MPI_Testsome(3, requests, &count, indices, statuses);
    printf("testsome: %d\n", count == MPI_UNDEFINED);
    MPI_Waitall(3, requests, statuses);
    show("waitall", &statuses[1]);
    MPI_Testall(3, requests, &flag, statuses);
    show(flag ? "testall" : "?", &statuses[2]);
    MPI_Request_get_status(requests[0], &flag, &status);
    show(flag ? "get_status" : "?", &status);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[1]);
    printf("word %d, null %d\n", word, requests[1] == MPI_REQUEST_NULL);
    MPI_Finalize();
    return 0;
}
