/* np: 3 */
/* Probes, of messages that any receive may match and of those that are held. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;

static int check(int *data, int count, int source) {
    for (int at = 0; at < count; at++)
        if (data[at] != source * 100000 + at)
            return 0;
    return 1;
}

int main(int argc, char **argv) {
    enum { LONG = 80000 };
    static int data[LONG];
    int counts[] = {0, 1, 100, 5000, LONG}, count, flag;
    MPI_Status status;
    MPI_Message message, other;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int at = 0; at < LONG; at++)
        data[at] = rank * 100000 + at;
    if (rank != 0) {
        for (int way = 0; way < 6; way++)
            for (int i = 0; i < 5; i++)
                MPI_Send(data, counts[i], MPI_INT, 0, way * 10 + i, MPI_COMM_WORLD);
    } else {
        int received[6] = {0}, right = 1;
        for (int way = 0; way < 6; way++)
            for (int source = 1; source < 3; source++)
                for (int i = 0; i < 5; i++) {
                    int tag = way * 10 + i;
                    switch (way) {
                    case 0: MPI_Probe(source, tag, MPI_COMM_WORLD, &status); break;
                    case 1:
                        do
                            MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, &status);
                        while (!flag);
                        break;
                    case 2: MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status); break;
                    case 3: MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &status); break;
                    case 4:
                        do
                            MPI_Improbe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
                        while (!flag);
                        break;
                    default: MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &message, &status);
                    }
                    MPI_Get_count(&status, MPI_INT, &count);
                    int from = status.MPI_SOURCE;
                    if (status.MPI_TAG != tag || count != counts[i] || (from != source && way != 2 && way != 5))
                        printf("way %d: %d %d %d\n", way, from, status.MPI_TAG, count);
                    int *into = malloc((count + 1) * sizeof *into);
                    if (way < 3)
                        MPI_Recv(into, count, MPI_INT, from, tag, MPI_COMM_WORLD, &status);
                    else if (i % 2)
                        MPI_Mrecv(into, count, MPI_INT, &message, &status);
                    else {
                        MPI_Imrecv(into, count, MPI_INT, &message, &request);
                        MPI_Wait(&request, &status);
                    }
                    if (way >= 3 && message != MPI_MESSAGE_NULL)
                        printf("a message is left\n");
                    MPI_Get_count(&status, MPI_INT, &count);
                    right &= status.MPI_SOURCE == from && status.MPI_TAG == tag && count == counts[i];
                    right &= check(into, count, from);
                    received[way] += count;
                    free(into);
                }
        for (int way = 0; way < 6; way++)
            printf("way %d: %d\n", way, received[way]);
        printf("right: %d\n", right);
    }
    /* A message that is held is not received by others: the second one is. */
    if (rank == 1) {
        MPI_Send(&(int){1}, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        MPI_Send(&(int){2}, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        MPI_Send(&(int){3}, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    } else if (rank == 0) {
        int first, second, third;
        MPI_Mprobe(1, 7, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mprobe(1, 7, MPI_COMM_WORLD, &other, MPI_STATUS_IGNORE);
        MPI_Recv(&third, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Mrecv(&second, 1, MPI_INT, &other, MPI_STATUS_IGNORE);
        MPI_Mrecv(&first, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        printf("%d %d %d\n", first, second, third);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        printf("left: %d\n", flag);
    }
    MPI_Finalize();
    return 0;
}
