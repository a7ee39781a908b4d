/* np: 4 */
/* Groups, and what is wrong with arguments. */
#include "classes.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static MPI_Group world;

/* The ranks in the world of a group's members. */
static void show(const char *what, MPI_Group *group, int print) {
    int n, mine, ranks[8], there[8];
    MPI_Group_size(*group, &n);
    MPI_Group_rank(*group, &mine);
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(*group, n, ranks, world, there);
    if (print) {
        printf("%s:", what);
        for (int i = 0; i < n; i++)
            printf(" %d", there[i]);
        printf(mine == MPI_UNDEFINED ? "; not me\n" : "; I am %d\n", mine);
    }
    MPI_Group_free(group);
    CHECK(*group == MPI_GROUP_NULL);
}

int main(int argc, char **argv) {
    int rank, print, result, ranges[2][3] = {{3, 1, -2}, {0, 0, 5}};
    MPI_Group a, b, c, none;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    print = rank == 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 3, (int[]){3, 0, 1}, &a);
    MPI_Group_incl(world, 3, (int[]){2, 1, 3}, &b);
    MPI_Group_union(a, b, &c);
    show("union", &c, print);
    MPI_Group_intersection(a, b, &c);
    show("intersection", &c, print);
    MPI_Group_difference(a, b, &c);
    show("difference", &c, print);
    MPI_Group_excl(a, 1, (int[]){1}, &c);
    show("without one", &c, print);
    MPI_Group_range_incl(world, 2, ranges, &c);
    show("ranges", &c, print);
    MPI_Group_range_excl(world, 2, ranges, &c);
    show("without ranges", &c, print);
    MPI_Group_compare(a, a, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_compare(a, b, &result);
    CHECK(result == MPI_UNEQUAL);
    MPI_Group_incl(world, 3, (int[]){0, 1, 3}, &c);
    MPI_Group_compare(a, c, &result);
    CHECK(result == MPI_SIMILAR);
    MPI_Group_free(&c);
    MPI_Group_difference(a, a, &none);
    CHECK(none == MPI_GROUP_EMPTY);
    int outside[3] = {0, MPI_PROC_NULL, 2}, there[3];
    MPI_Group_translate_ranks(world, 3, outside, a, there);
    CHECK(there[0] == 1 && there[1] == MPI_PROC_NULL && there[2] == MPI_UNDEFINED);

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Group_incl(world, 1, (int[]){4}, &c)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &result)) == MPI_ERR_GROUP);
    MPI_Group_free(&a);
    MPI_Group_free(&b);
    MPI_Group_free(&world);
    if (print)
        printf("groups: fine\n");
    MPI_Finalize();
    return 0;
}
