/* np: 1, peers: no */
/* What is wrong with the arguments of messages and requests is said: the class, the function, the argument. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void expect(const char *what, int code, int expected, const char *function, const char *argument) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &len);
    if (code != expected || !strstr(text, function) || !strstr(text, argument))
        printf("%s: %d instead of %d: %s\n", what, code, expected, text);
    else
        printf("%s\n", what);
}

int main(int argc, char **argv) {
    int word = 1, flag, index;
    MPI_Request request = MPI_REQUEST_NULL, old;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Datatype type;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    expect("rank", MPI_Send(&word, 1, MPI_INT, 1, 0, comm), MPI_ERR_RANK, "MPI_Send", "dest");
    expect("rank -7", MPI_Ssend(&word, 1, MPI_INT, -7, 0, comm), MPI_ERR_RANK, "MPI_Ssend", "dest");
    expect("any source to send to", MPI_Isend(&word, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, &request), MPI_ERR_RANK,
           "MPI_Isend", "dest");
    expect("source", MPI_Recv(&word, 1, MPI_INT, 5, 0, comm, &status), MPI_ERR_RANK, "MPI_Recv", "source");
    expect("tag", MPI_Send(&word, 1, MPI_INT, 0, -3, comm), MPI_ERR_TAG, "MPI_Send", "tag");
    expect("any tag to send with", MPI_Rsend(&word, 1, MPI_INT, 0, MPI_ANY_TAG, comm), MPI_ERR_TAG, "MPI_Rsend", "tag");
    expect("tag to receive", MPI_Irecv(&word, 1, MPI_INT, 0, -9, comm, &request), MPI_ERR_TAG, "MPI_Irecv", "tag");
    expect("count", MPI_Send(&word, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT, "MPI_Send", "count");
    expect("large count", MPI_Recv_c(&word, -1, MPI_INT, 0, 0, comm, &status), MPI_ERR_COUNT, "MPI_Recv_c", "count");
    expect("type", MPI_Issend(&word, 1, MPI_DATATYPE_NULL, 0, 0, comm, &request), MPI_ERR_TYPE, "MPI_Issend", "datatype");
    MPI_Type_contiguous(2, MPI_INT, &type);
    expect("uncommitted", MPI_Send(&word, 1, type, 0, 0, comm), MPI_ERR_TYPE, "MPI_Send", "datatype");
    MPI_Type_free(&type);
    expect("buffer", MPI_Send(NULL, 1, MPI_INT, 0, 0, comm), MPI_ERR_BUFFER, "MPI_Send", "buf");
    expect("request", MPI_Isend(&word, 1, MPI_INT, 0, 0, comm, NULL), MPI_ERR_ARG, "MPI_Isend", "request");
    expect("comm", MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, "MPI_Send", "comm");
    expect("partitions", MPI_Psend_init(&word, -1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &request), MPI_ERR_COUNT,
           "MPI_Psend_init", "partitions");
    expect("any source of parts", MPI_Precv_init(&word, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_INFO_NULL, &request),
           MPI_ERR_RANK, "MPI_Precv_init", "dest");
    /* Requests. */
    MPI_Irecv(&word, 1, MPI_INT, 0, 1, comm, &request);
    old = request;
    expect("start of an ordinary one", MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start", "request");
    expect("part of an ordinary one", MPI_Pready(0, request), MPI_ERR_REQUEST, "MPI_Pready", "request");
    expect("end of an ordinary one", MPI_Grequest_complete(request), MPI_ERR_REQUEST, "MPI_Grequest_complete", "request");
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    expect("wait for what is over", MPI_Wait(&old, &status), MPI_ERR_REQUEST, "MPI_Wait", "request");
    expect("test of it", MPI_Test(&old, &flag, &status), MPI_ERR_REQUEST, "MPI_Test", "request");
    expect("free of it", MPI_Request_free(&old), MPI_ERR_REQUEST, "MPI_Request_free", "request");
    expect("cancel of it", MPI_Cancel(&old), MPI_ERR_REQUEST, "MPI_Cancel", "request");
    MPI_Request several[2] = {MPI_REQUEST_NULL, old};
    expect("among several", MPI_Waitall(2, several, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST, "MPI_Waitall",
           "array_of_requests[1]");
    expect("any of several", MPI_Waitany(2, several, &index, &status), MPI_ERR_REQUEST, "MPI_Waitany",
           "array_of_requests[1]");
    expect("fewer than none", MPI_Waitall(-1, several, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "MPI_Waitall",
           "array_of_requests");
    expect("cancel of null", MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "request");
    expect("free of null", MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "request");
    expect("start of null", MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start", "request");
    MPI_Recv_init(&word, 1, MPI_INT, 0, 1, comm, &request);
    expect("cancel of what is idle", MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "request");
    MPI_Start(&request);
    expect("start of what is started", MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start", "request");
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Request_free(&request);
    expect("no message", MPI_Mrecv(&word, 1, MPI_INT, &message, &status), MPI_ERR_REQUEST, "MPI_Mrecv", "message");
    expect("no buffer", MPI_Bsend(&word, 1, MPI_INT, 0, 0, comm), MPI_ERR_BUFFER, "MPI_Bsend", "MPI_Buffer_attach");
    MPI_Psend_init(&word, 2, 0, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &request);
    expect("part before the start", MPI_Pready(0, request), MPI_ERR_REQUEST, "MPI_Pready", "request");
    MPI_Start(&request);
    expect("part 2 of 2", MPI_Pready(2, request), MPI_ERR_ARG, "MPI_Pready", "partition");
    MPI_Pready(1, request);
    expect("part twice", MPI_Pready(1, request), MPI_ERR_ARG, "MPI_Pready", "partition");
    expect("cancel of parts", MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "request");
    MPI_Pready(0, request);
    MPI_Wait(&request, &status);
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
