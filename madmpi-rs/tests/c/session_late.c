/* np: 2, peers: no */
/* A session that is asked for too late: the error handler of the call is invoked, whatever kind of handler it is. */
#include "classes.h"
#include <mpi.h>
#include <stdio.h>

static int called, null, told;

static void handler(MPI_Session *session, int *code, ...) {
    called++;
    null += *session == MPI_SESSION_NULL;
    told = *code;
}

int main(int argc, char **argv) {
    int rank, code, early;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Errhandler own;
    MPI_Session_create_errhandler(handler, &own);
    /* An info that is none, before there is anything. */
    early = class_of(MPI_Session_init((MPI_Info)(void *)&rank, MPI_ERRORS_RETURN, &session));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
    code = class_of(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    if (rank == 0) {
        printf("wrong info: %d\n", early == MPI_ERR_INFO);
        printf("late: %d %d\n", code == MPI_ERR_OTHER, session == MPI_SESSION_NULL);
    }
    code = class_of(MPI_Session_init(MPI_INFO_NULL, own, &session));
    if (rank == 0)
        printf("handler: %d, called %d, of no session %d, told %d\n", code == MPI_ERR_OTHER, called, null, told == code);
    MPI_Errhandler_free(&own);
    return 0;
}
