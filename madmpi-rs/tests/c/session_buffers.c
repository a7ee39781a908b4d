/* np: 2, peers: no */
/* Whose buffer a message takes: its communicator's, else that of the session it comes from, else the process's; no other. */
#include <mpi.h>
#include <stdio.h>

enum { LEN = 1000, LARGE = 4 * (LEN + MPI_BSEND_OVERHEAD), SMALL = MPI_BSEND_OVERHEAD + 10 };

static int rank;
static char large[LARGE], other[LARGE], small[SMALL];

/* A message to a process that sends one, too. */
static void message(const char *what, MPI_Comm comm, int to) {
    static char data[LEN], came[LEN];
    int class, code = MPI_Bsend(data, LEN, MPI_CHAR, to, 1, comm);
    MPI_Error_class(code, &class);
    if (code == MPI_SUCCESS)
        MPI_Recv(came, LEN, MPI_CHAR, to, 1, comm, MPI_STATUS_IGNORE);
    if (rank == 0)
        printf("%s: %s\n", what, class == MPI_SUCCESS ? "sent" : class == MPI_ERR_BUFFER ? "no buffer" : "?");
}

static MPI_Comm from(MPI_Group group, const char *name) {
    MPI_Comm comm;
    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    return comm;
}

static void message_and_free(const char *what, MPI_Comm comm, int to) {
    message(what, comm, to);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    int peer, dims = 2, period = 0;
    void *given;
    int size;
    MPI_Session one, two;
    MPI_Group of_one, of_two, of_world, part, mine, theirs;
    MPI_Comm comm, second, world, made, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &one);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &two);
    MPI_Group_from_session_pset(one, "mpi://WORLD", &of_one);
    MPI_Group_from_session_pset(two, "mpi://WORLD", &of_two);
    comm = from(of_one, "one");
    second = from(of_two, "two");

    message("nothing is attached", comm, peer);
    MPI_Session_attach_buffer(one, large, LARGE);
    message("a session's", comm, peer);
    message("another session's", second, peer);
    message("a session's, from the world", world, peer);

    /* What is made of a session's communicators and groups is of the session. */
    MPI_Comm_dup(comm, &made);
    message_and_free("a duplicate", made, peer);
    MPI_Comm_split(comm, 0, -rank, &made);
    message_and_free("a part", made, rank); /* the other one: the order is reversed */
    MPI_Cart_create(comm, 1, &dims, &period, 0, &made);
    message_and_free("a grid", made, peer);
    MPI_Group_incl(of_one, 2, (int[]){1, 0}, &part);
    message_and_free("a part of the group", from(part, "part"), rank);
    MPI_Comm_create(comm, part, &made);
    message_and_free("a communicator of a group", made, rank);
    MPI_Comm_create_group(comm, part, 5, &made);
    message_and_free("one that its group alone makes", made, rank);
    MPI_Group_free(&part);
    MPI_Comm_group(comm, &part);
    message_and_free("a group of a communicator", from(part, "again"), peer);
    MPI_Group_free(&part);
    MPI_Group_incl(of_one, 1, &rank, &mine);
    MPI_Group_incl(of_one, 1, &peer, &theirs);
    MPI_Group_union(rank == 0 ? mine : theirs, rank == 0 ? theirs : mine, &part);
    message_and_free("a union", from(part, "union"), peer);
    MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "both", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
    message("two sides", inter, 0);
    MPI_Intercomm_merge(inter, rank, &made);
    message_and_free("both sides in one", made, peer);
    MPI_Comm_free(&inter);
    MPI_Comm_group(world, &of_world);
    message_and_free("a group of the world", from(of_world, "world"), peer);

    /* The order. */
    MPI_Buffer_attach(small, SMALL);
    message("the session's before the process's", comm, peer);
    message("the process's, too small", second, peer);
    MPI_Session_detach_buffer(one, &given, &size);
    message("the process's, of a session without", comm, peer);
    MPI_Buffer_detach(&given, &size);
    MPI_Buffer_attach(other, LARGE);
    message("the process's", second, peer);
    MPI_Session_attach_buffer(one, small, SMALL);
    message("the session's, too small", comm, peer);
    MPI_Comm_attach_buffer(comm, large, LARGE);
    message("the communicator's before the session's", comm, peer);
    MPI_Comm_detach_buffer(comm, &given, &size);
    MPI_Session_detach_buffer(one, &given, &size);
    MPI_Buffer_detach(&given, &size);

    MPI_Group_free(&mine);
    MPI_Group_free(&theirs);
    MPI_Group_free(&part);
    MPI_Group_free(&of_one);
    MPI_Group_free(&of_two);
    MPI_Group_free(&of_world);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&second);
    MPI_Comm_free(&world);
    MPI_Session_finalize(&one);
    MPI_Session_finalize(&two);
    MPI_Finalize();
    return 0;
}
