/* np: 2, peers: no */
/* A control variable that is written before MPI_Init is in force, or its write says that it never will be: ranks that
 * share a process are in the job before the program begins. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int provided, index, count, rank, own = (int)getpid(), all[2];
    char value[2048] = "";
    MPI_T_cvar_handle variable;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_index("NMAD_RDV_THRESHOLD", &index);
    MPI_T_cvar_handle_alloc(index, NULL, &variable, &count);
    int code = MPI_T_cvar_write(variable, "54321");
    const char *set = getenv("NMAD_RDV_THRESHOLD");
    int was_set = set && !strcmp(set, "54321"), reads;
    MPI_T_cvar_read(variable, value);
    reads = !strcmp(value, "54321");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    int shared = all[0] == all[1], expected = shared ? MPI_T_ERR_CVAR_SET_NEVER : MPI_SUCCESS;
    if (code != expected || was_set == shared || reads == shared)
        printf("rank %d: a write gives %d, not %d, and has %s\n", rank, code, expected, was_set ? "set it" : "not set it");
    MPI_T_cvar_handle_free(&variable);
    MPI_T_finalize();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("a write before the job: fine\n");
    MPI_Finalize();
    return 0;
}
