/* np: 2, peers: no */
/* Errors of calls that make communicators of groups go to the error handler that they name, before there is a
   communicator, and without MPI_Init. (Open MPI 4.1 has none of them; MPICH 4.0 ends the job.) */
#include "classes.h"
#include <mpi.h>
#include <stdio.h>

static int told;

static void tell(MPI_Comm *comm, int *code, ...) {
    MPI_Error_class(*code, &told);
    told += 1000 * (*comm == MPI_COMM_NULL);
}

int main(void) {
    int rank;
    MPI_Session session;
    MPI_Group all;
    MPI_Comm comm;
    MPI_Errhandler handler, handlers[2];
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    MPI_Group_rank(all, &rank);
    MPI_Comm_create_errhandler(tell, &handler);
    handlers[0] = MPI_ERRORS_RETURN, handlers[1] = handler;
    for (int i = 0; i < 2; i++) {
        int codes[6];
        codes[0] = MPI_Comm_create_from_group(all, NULL, MPI_INFO_NULL, handlers[i], &comm) != MPI_SUCCESS;
        codes[1] = class_of(MPI_Comm_create_from_group(MPI_GROUP_NULL, "a", MPI_INFO_NULL, handlers[i], &comm));
        codes[2] = MPI_Comm_create_from_group(all, "a", MPI_INFO_NULL, handlers[i], NULL) != MPI_SUCCESS;
        codes[3] = MPI_Intercomm_create_from_groups(all, 0, all, 0, NULL, MPI_INFO_NULL, handlers[i], &comm) != MPI_SUCCESS;
        codes[4] = class_of(MPI_Intercomm_create_from_groups(all, 7, all, 0, "a", MPI_INFO_NULL, handlers[i], &comm));
        codes[5] = MPI_Intercomm_create_from_groups(all, 0, all, 1, "a", MPI_INFO_NULL, handlers[i], NULL) != MPI_SUCCESS;
        if (rank == 0)
            printf("%d %d %d %d %d %d, told %d\n", codes[0], codes[1] == MPI_ERR_GROUP, codes[2], codes[3],
                   codes[4] == MPI_ERR_RANK, codes[5], told >= 1000);
    }
    /* A side without members: there is no communicator. The remote group is the leader's to say. */
    int none = MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, all, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    int made = comm != MPI_COMM_NULL;
    none += MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, MPI_GROUP_EMPTY, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    made += comm != MPI_COMM_NULL;
    none += MPI_Intercomm_create_from_groups(all, 1, rank == 1 ? MPI_GROUP_EMPTY : all, 0, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                             &comm);
    made += comm != MPI_COMM_NULL;
    if (rank == 0)
        printf("empty: %d, made %d\n", none, made);
    MPI_Errhandler_free(&handler);
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);
    return 0;
}
