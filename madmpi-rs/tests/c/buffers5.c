/* np: 2, peers: no */
/* Buffers of MPI 4.1: automatic ones, those of communicators and sessions, flushes. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { LEN = 300000 };

static char data[LEN], room[2 * LEN];

static void send_and_spoil(int tag, MPI_Comm comm) {
    memset(data, tag, LEN);
    MPI_Bsend(data, LEN, MPI_CHAR, 1, tag, comm);
    memset(data, -1, LEN);
}

int main(int argc, char **argv) {
    int rank, size, flag;
    void *given;
    MPI_Count large;
    MPI_Request request;
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "buffers", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    if (rank == 0) {
        MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
        for (int tag = 0; tag < 5; tag++)
            send_and_spoil(tag, MPI_COMM_WORLD);
        MPI_Buffer_iflush(&request);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        printf("flushed before it is received: %d\n", flag);
        MPI_Send(NULL, 0, MPI_CHAR, 1, 100, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Buffer_flush();
        MPI_Buffer_detach(&given, &size);
        printf("automatic: %d %d\n", given == MPI_BUFFER_AUTOMATIC, size);
        MPI_Comm_attach_buffer(MPI_COMM_WORLD, room, sizeof room);
        send_and_spoil(5, MPI_COMM_WORLD);
        MPI_Send(NULL, 0, MPI_CHAR, 1, 100, MPI_COMM_WORLD);
        MPI_Comm_flush_buffer(MPI_COMM_WORLD);
        MPI_Comm_iflush_buffer(MPI_COMM_WORLD, &request);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        printf("flushed when all is received: %d\n", flag);
        MPI_Comm_detach_buffer_c(MPI_COMM_WORLD, &given, &large);
        printf("communicator: %d %d\n", given == (void *)room, large == sizeof room);
        MPI_Session_attach_buffer(session, room, sizeof room);
        send_and_spoil(6, comm);
        MPI_Send(NULL, 0, MPI_CHAR, 1, 100, MPI_COMM_WORLD);
        MPI_Session_flush_buffer(session);
        MPI_Session_iflush_buffer(session, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Session_detach_buffer(session, &given, &size);
        printf("session: %d %d\n", given == (void *)room, size == sizeof room);
        /* A library takes its caller's buffer away for a while, whether there is one or not. */
        MPI_Buffer_detach(&given, &size);
        printf("none: %d %d\n", given == NULL, size);
        MPI_Buffer_attach(given, size);
        /* This one is sent by MPI_Finalize at the latest. */
        MPI_Buffer_attach(room, sizeof room);
        send_and_spoil(7, MPI_COMM_WORLD);
    } else {
        for (int tag = 0; tag < 8; tag++) {
            if (tag == 0 || tag == 5 || tag == 6)
                MPI_Recv(NULL, 0, MPI_CHAR, 0, 100, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(data, LEN, MPI_CHAR, 0, tag, tag == 6 ? comm : MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (data[0] != tag || data[LEN - 1] != tag)
                printf("message %d is wrong: %d\n", tag, data[0]);
        }
    }
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    MPI_Finalize();
    return 0;
}
