/* np: 4, peers: no */
/* The sessions model alone: groups from sets of processes, communicators from groups, one after the other; then the world. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); exit(1); } } while (0)

static void round_trip(MPI_Comm comm) {
    int me, n, token = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    if (me == 0) {
        MPI_Send(&token, 1, MPI_INT, 1, 7, comm);
        MPI_Recv(&token, 1, MPI_INT, n - 1, 7, comm, MPI_STATUS_IGNORE);
        CHECK(token == n - 1);
    } else {
        MPI_Recv(&token, 1, MPI_INT, me - 1, 7, comm, MPI_STATUS_IGNORE);
        token++;
        MPI_Send(&token, 1, MPI_INT, (me + 1) % n, 7, comm);
    }
}

int main(int argc, char **argv) {
    int n, length, flag, rank;
    char name[64], value[16];
    MPI_Session session, second;
    MPI_Group group, pair, others;
    MPI_Comm comm, sub, inter;
    MPI_Info info;

    for (int round = 0; round < 3; round++) {
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) == MPI_SUCCESS);
        CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second) == MPI_SUCCESS);
        MPI_Initialized(&flag);
        CHECK(!flag);
        MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
        CHECK(n == 2);
        length = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, NULL);
        CHECK(length == 12);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name);
        CHECK(!strcmp(name, "mpi://WORLD"));
        MPI_Session_get_pset_info(session, name, &info);
        length = sizeof value;
        MPI_Info_get_string(info, "mpi_size", &length, value, &flag);
        CHECK(flag && !strcmp(value, "4"));
        MPI_Info_free(&info);
        CHECK(MPI_Group_from_session_pset(second, "mpi://NOWHERE", &group) == MPI_ERR_ARG);
        CHECK(MPI_Session_get_nth_pset(second, MPI_INFO_NULL, 2, &length, name) == MPI_ERR_ARG);

        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "here", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
        MPI_Comm_rank(comm, &rank);
        round_trip(comm);
        CHECK(MPI_Send(&n, 1, MPI_INT, 4, 0, comm) == MPI_ERR_RANK);
        /* Two at once, of other processes each, under one name. */
        MPI_Group_incl(group, 2, (int[]){rank < 2 ? 0 : 2, rank < 2 ? 1 : 3}, &pair);
        MPI_Comm_create_from_group(pair, "pair", MPI_INFO_NULL, MPI_ERRORS_RETURN, &sub);
        round_trip(sub);
        /* And both. */
        MPI_Group_incl(group, 2, (int[]){rank < 2 ? 2 : 0, rank < 2 ? 3 : 1}, &others);
        MPI_Intercomm_create_from_groups(pair, 1, others, 1, "both", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
        MPI_Comm_remote_size(inter, &n);
        CHECK(n == 2);
        int mine = rank, theirs = -1;
        if (rank < 2)
            MPI_Send(&mine, 1, MPI_INT, rank, 0, inter);
        else {
            MPI_Recv(&theirs, 1, MPI_INT, rank - 2, 0, inter, MPI_STATUS_IGNORE);
            CHECK(theirs == rank - 2);
        }
        MPI_Comm_free(&inter);
        MPI_Comm_free(&sub);
        MPI_Comm_free(&comm);
        MPI_Group_free(&others);
        MPI_Group_free(&pair);
        MPI_Group_free(&group);
        CHECK(MPI_Session_finalize(&second) == MPI_SUCCESS && second == MPI_SESSION_NULL);
        CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
    }
    if (argc > 1)
        return 0; /* no world at all */

    /* A session that is open beyond the world. */
    MPI_Init(&argc, &argv);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Finalize();
    MPI_Group_from_session_pset(session, "mpi://world", &group);
    MPI_Comm_create_from_group(group, "beyond", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    round_trip(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    if (rank == 0)
        printf("sessions: fine\n");
    return 0;
}
