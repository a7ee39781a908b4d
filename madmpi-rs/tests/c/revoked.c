/* np: 2, peers: no */
/* What a revoked communicator refuses and ends: communicators that are being made, collectives made of messages, persistent
 * and partitioned requests, duplicates under way. The errors are those of the communicator: the handlers of MPI_COMM_WORLD
 * and MPI_COMM_SELF would end the job. */
#include "classes.h"
#include "report.h"
#include <mpi-ext.h>
#include <unistd.h>

#define REVOKED(call) EXPECT(class_of(call) == MPIX_ERR_REVOKED)

/* A communicator whose errors are returned. */
static MPI_Comm fresh(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* Each rank is a side of it. */
static MPI_Comm fresh_inter(void) {
    MPI_Comm inter;
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 5, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    return inter;
}

/* Only rank 0 has a neighbour that it sends to. */
static MPI_Comm fresh_graph(void) {
    MPI_Comm graph;
    int other = 1 - rank;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank, &other, MPI_UNWEIGHTED, 1 - rank, &other, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
    return graph;
}

/* Rank 0 revokes it; both know at the return. */
static void ends(MPI_Comm comm) {
    int revoked = 0, flag;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        EXPECT(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    while (!revoked) {
        MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        MPIX_Comm_is_revoked(comm, &revoked);
    }
}

static void create_group(void) {
    MPI_Comm comm = fresh(), new = MPI_COMM_WORLD;
    MPI_Group group;
    MPI_Comm_group(comm, &group);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        /* Rank 0 never calls it, which gives out the context. */
        REVOKED(MPI_Comm_create_group(comm, group, 3, &new));
        EXPECT(new == MPI_COMM_NULL);
    } else {
        usleep(20000); /* in most runs the other one waits then */
        EXPECT(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    }
    REVOKED(MPI_Comm_create_group(comm, group, 4, &new));
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
}

static void between_groups(void) {
    MPI_Comm inter = fresh_inter();
    MPI_Request request;
    int data = 1, got = 0, root = rank == 0 ? MPI_ROOT : 0;
    ends(inter);
    REVOKED(MPI_Bcast(&data, 1, MPI_INT, root, inter));
    REVOKED(MPI_Bcast(&data, 1, MPI_INT, MPI_PROC_NULL, inter));
    REVOKED(MPI_Ibcast(&data, 1, MPI_INT, MPI_PROC_NULL, inter, &request));
    REVOKED(MPI_Gather(&data, 1, MPI_INT, &got, 1, MPI_INT, root, inter));
    REVOKED(MPI_Scatter(&data, 1, MPI_INT, &got, 1, MPI_INT, root, inter));
    REVOKED(MPI_Alltoall(&data, 1, MPI_INT, &got, 1, MPI_INT, inter));
    REVOKED(MPI_Barrier(inter));
    MPI_Comm_free(&inter);
}

static void neighbours(void) {
    MPI_Comm graph = fresh_graph();
    MPI_Request request;
    int data = 1, got = 0;
    ends(graph);
    REVOKED(MPI_Neighbor_allgather(&data, 1, MPI_INT, &got, 1, MPI_INT, graph));
    REVOKED(MPI_Ineighbor_alltoall(&data, 1, MPI_INT, &got, 1, MPI_INT, graph, &request));
    MPI_Comm_free(&graph);
}

static void persistent_messages(void) {
    MPI_Comm comm = fresh();
    MPI_Request requests[3];
    int data = 1, got[2] = {0};
    MPI_Send_init(&data, 1, MPI_INT, 1 - rank, 1, comm, &requests[0]);
    MPI_Recv_init(&got[0], 1, MPI_INT, rank, 2, comm, &requests[1]);
    MPI_Ssend_init(&data, 1, MPI_INT, rank, 3, comm, &requests[2]);
    /* It is there before the receive. */
    MPI_Send(&data, 1, MPI_INT, rank, 2, comm);
    ends(comm);
    for (int i = 0; i < 3; i++)
        REVOKED(MPI_Start(&requests[i]));
    EXPECT(got[0] == 0);
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&requests[i]);
    MPI_Comm_free(&comm);
}

static void partitioned(void) {
    MPI_Comm comm = fresh();
    MPI_Request sends[2], receives[2];
    int data[2] = {1, 2}, got[2] = {0};
    for (int i = 0; i < 2; i++) {
        MPI_Psend_init(&data[i], 1, 1, MPI_INT, 1 - rank, i, comm, MPI_INFO_NULL, &sends[i]);
        MPI_Precv_init(&got[i], 1, 1, MPI_INT, 1 - rank, i, comm, MPI_INFO_NULL, &receives[i]);
        MPI_Start(&sends[i]);
    }
    /* One is sent before, and its receive is started afterwards; with the other it is the other way round. */
    MPI_Pready(0, sends[0]);
    EXPECT(MPI_Wait(&sends[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_Start(&receives[1]);
    ends(comm);
    MPI_Pready(0, sends[1]);
    REVOKED(MPI_Wait(&sends[1], MPI_STATUS_IGNORE));
    REVOKED(MPI_Wait(&receives[1], MPI_STATUS_IGNORE));
    MPI_Start(&receives[0]);
    REVOKED(MPI_Wait(&receives[0], MPI_STATUS_IGNORE));
    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&sends[i]);
        MPI_Request_free(&receives[i]);
    }
    MPI_Comm_free(&comm);
}

/* The error of a start, or of what it has started. */
static int started(MPI_Request *request) {
    int code = MPI_Start(request);
    return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

static void persistent_collectives(void) {
    MPI_Comm comms[3] = {fresh(), fresh_inter(), fresh_graph()};
    MPI_Request requests[5];
    int data = 1, got = 0;
    MPI_Barrier_init(comms[0], MPI_INFO_NULL, &requests[0]);
    MPI_Barrier_init(comms[1], MPI_INFO_NULL, &requests[1]);
    MPI_Allreduce_init(&data, &got, 1, MPI_INT, MPI_SUM, comms[1], MPI_INFO_NULL, &requests[2]); /* in stages */
    MPI_Bcast_init(&data, 1, MPI_INT, MPI_PROC_NULL, comms[1], MPI_INFO_NULL, &requests[3]);
    MPI_Neighbor_allgather_init(&data, 1, MPI_INT, &got, 1, MPI_INT, comms[2], MPI_INFO_NULL, &requests[4]);
    for (int i = 0; i < 3; i++)
        ends(comms[i]);
    for (int i = 0; i < 5; i++) {
        REVOKED(started(&requests[i]));
        MPI_Request_free(&requests[i]);
    }
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
}

static int copied, deleted;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *new, int *flag) {
    (void)comm, (void)key, (void)extra;
    *(void **)new = value;
    *flag = 1;
    copied++;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void duplicates(void) {
    MPI_Comm comm = fresh(), new;
    MPI_Request request;
    int key;
    MPI_Comm_create_keyval(copy, delete, &key, NULL);
    MPI_Comm_set_attr(comm, key, NULL);
    /* Rank 0 never calls it, which gives out the context. */
    if (rank == 1)
        EXPECT(MPI_Comm_idup(comm, &new, &request) == MPI_SUCCESS);
    ends(comm);
    if (rank == 1) {
        EXPECT(copied == 1 && deleted == 0);
        REVOKED(MPI_Wait(&request, MPI_STATUS_IGNORE));
        EXPECT(copied == 1 && deleted == 1 && new == MPI_COMM_NULL);
    }
    REVOKED(MPI_Comm_idup(comm, &new, &request));
    EXPECT(copied == 1 + rank && deleted == copied);
    MPI_Comm_free(&comm);
    EXPECT(deleted == copied + 1);
    MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    create_group();
    report("MPI_Comm_create_group");
    between_groups();
    report("collectives between two groups");
    neighbours();
    report("collectives of neighbours");
    persistent_messages();
    report("persistent messages");
    partitioned();
    report("partitioned messages");
    persistent_collectives();
    report("persistent collectives");
    duplicates();
    report("duplicates under way");
    MPI_Finalize();
    return 0;
}
