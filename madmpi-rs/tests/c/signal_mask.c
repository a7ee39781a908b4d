/* np: 1 2, peers: mpich, ranks: no */
/* A signal that the program blocks is not taken by a thread of the library, as it is by one of Open MPI 4.1.4's. */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    struct timespec at_most = {30, 0};
    int got;
    do
        got = sigtimedwait(&set, NULL, &at_most);
    while (got < 0 && errno == EINTR);
    got = got == SIGUSR1;
    MPI_Allreduce(MPI_IN_PLACE, &got, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (rank == 0)
        printf(got ? "a signal waits for the thread that asks for it\n" : "it was lost\n");
    MPI_Finalize();
    return 0;
}
