/* np: 4 */
/* Grids and graphs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

int main(int argc, char **argv) {
    int rank, n, kind, from, to, dims[3] = {0, 0, 0}, periods[3] = {1, 0, 0}, coords[3], others[8], weights[8];
    int *volatile unweighted = MPI_UNWEIGHTED, *volatile empty = MPI_WEIGHTS_EMPTY; /* no array, as compilers may not see */
    MPI_Comm cart, dup, sub, graph, dist;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    MPI_Dims_create(4, 2, dims);
    CHECK(dims[0] == 2 && dims[1] == 2);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    CHECK(kind == MPI_UNDEFINED);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart);
    MPI_Comm_dup(cart, &dup);
    MPI_Comm_free(&cart);
    cart = dup;
    MPI_Topo_test(cart, &kind);
    CHECK(kind == MPI_CART);
    MPI_Cartdim_get(cart, &n);
    CHECK(n == 2);
    MPI_Cart_coords(cart, rank, 2, coords);
    CHECK(coords[0] == rank / 2 && coords[1] == rank % 2);
    MPI_Cart_get(cart, 2, dims, others, coords);
    CHECK(dims[0] == 2 && dims[1] == 2 && others[0] && !others[1] && coords[0] == rank / 2 && coords[1] == rank % 2);
    coords[0] += 2; /* round the ring */
    MPI_Cart_rank(cart, coords, &n);
    CHECK(n == rank);
    MPI_Cart_shift(cart, 0, 1, &from, &to);
    CHECK(from == (rank + 2) % 4 && to == (rank + 2) % 4);
    MPI_Cart_shift(cart, 1, 1, &from, &to);
    CHECK(from == (rank % 2 ? rank - 1 : MPI_PROC_NULL) && to == (rank % 2 ? MPI_PROC_NULL : rank + 1));
    MPI_Cart_sub(cart, (int[]){0, 1}, &sub);
    MPI_Comm_size(sub, &n);
    CHECK(n == 2);
    MPI_Cart_get(sub, 1, dims, others, coords);
    CHECK(dims[0] == 2 && !others[0] && coords[0] == rank % 2);
    MPI_Comm_free(&sub);
    MPI_Comm_free(&cart);

    /* Not all have a place. */
    dims[0] = 3;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, &cart);
    CHECK((cart == MPI_COMM_NULL) == (rank == 3));
    if (cart != MPI_COMM_NULL) {
        MPI_Cart_shift(cart, 0, 1, &from, &to);
        CHECK(from == (rank + 2) % 3 && to == (rank + 1) % 3);
        MPI_Comm_free(&cart);
    }

    /* The standard's example of a graph. */
    MPI_Graph_create(MPI_COMM_WORLD, 4, (int[]){2, 3, 4, 6}, (int[]){1, 3, 0, 3, 0, 2}, 0, &graph);
    MPI_Topo_test(graph, &kind);
    CHECK(kind == MPI_GRAPH);
    MPI_Graphdims_get(graph, &n, &to);
    CHECK(n == 4 && to == 6);
    MPI_Graph_neighbors_count(graph, 3, &n);
    CHECK(n == 2);
    MPI_Graph_neighbors(graph, 3, 8, others);
    CHECK(others[0] == 0 && others[1] == 2);
    MPI_Comm_free(&graph);

    /* A ring: each sender names its edge; rank 0 names all edges of rank 3, too. */
    int sources[2] = {rank, 3}, degrees[2] = {rank == 3 ? 0 : 1, 1}, targets[2] = {(rank + 1) % 4, 0};
    int loads[2] = {10 + rank, 13};
    if (rank == 3)
        MPI_Dist_graph_create(MPI_COMM_WORLD, 0, sources, degrees, targets, empty, MPI_INFO_NULL, 0, &dist);
    else
        MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0 ? 2 : 1, sources, degrees, targets, loads, MPI_INFO_NULL, 0, &dist);
    MPI_Topo_test(dist, &kind);
    CHECK(kind == MPI_DIST_GRAPH);
    MPI_Dist_graph_neighbors_count(dist, &from, &to, &n);
    CHECK(from == 1 && to == 1 && n);
    MPI_Dist_graph_neighbors(dist, 1, others, weights, 1, others + 1, weights + 1);
    CHECK(others[0] == (rank + 3) % 4 && others[1] == (rank + 1) % 4);
    CHECK(weights[0] == 10 + (rank + 3) % 4 && weights[1] == 10 + rank);
    MPI_Comm_free(&dist);

    /* The same, each telling of its own. */
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, (int[]){(rank + 3) % 4}, unweighted, 1,
                                   (int[]){(rank + 1) % 4}, unweighted, MPI_INFO_NULL, 0, &dist);
    MPI_Dist_graph_neighbors_count(dist, &from, &to, &n);
    CHECK(from == 1 && to == 1 && !n);
    MPI_Dist_graph_neighbors(dist, 1, others, unweighted, 1, others + 1, unweighted);
    CHECK(others[0] == (rank + 3) % 4 && others[1] == (rank + 1) % 4);
    MPI_Comm_free(&dist);
    if (rank == 0)
        printf("topologies: fine\n");
    MPI_Finalize();
    return 0;
}
