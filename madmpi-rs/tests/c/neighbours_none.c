/* np: 2, peers: openmpi */
/* Collectives of neighbours at a rank that sends to none, or hears of none, and has no buffer for that. */
#include "report.h"

int main(int argc, char **argv) {
    MPI_Comm graph;
    int other, data = 7, got[3] = {0}, zero = 0, one = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    other = 1 - rank;
    /* The one edge is from 0 to 1. */
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank, &other, MPI_UNWEIGHTED, 1 - rank, &other, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
    void *out = rank == 0 ? &data : NULL;
    int code = MPI_Neighbor_allgather(out, 1, MPI_INT, rank ? &got[0] : NULL, 1, MPI_INT, graph);
    expect(code == MPI_SUCCESS && got[0] == 7 * rank, "allgather");
    code = MPI_Neighbor_allgatherv(out, 1, MPI_INT, rank ? &got[1] : NULL, &one, &zero, MPI_INT, graph);
    expect(code == MPI_SUCCESS && got[1] == 7 * rank, "allgatherv");
    code = MPI_Neighbor_alltoall(out, 1, MPI_INT, rank ? &got[2] : NULL, 1, MPI_INT, graph);
    expect(code == MPI_SUCCESS && got[2] == 7 * rank, "alltoall");
    report("one edge");
    MPI_Comm_free(&graph);
    MPI_Finalize();
    return 0;
}
