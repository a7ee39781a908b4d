/* A tool that takes the place of two functions: tool.F90. */
#include <mpi.h>

static int calls;

int MPI_Barrier(MPI_Comm comm) {
    calls++;
    return PMPI_Barrier(comm);
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
    calls += 10;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int seen_(void) { return calls; }
