/* np: 4 */
/* Reductions of elements with gaps and of odd numbers: what the operators get is laid out as the program has it. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct element {
    char name;
    double at[2][2];
    short count;
};

static MPI_Datatype type;
static int wrong;

/* Not commutative: two by two matrices; also the order of names. */
static void multiply(void *in, void *inout, int *len, MPI_Datatype *given) {
    struct element *a = in, *b = inout;
    wrong |= *given != type || (size_t)a % sizeof(double) || (size_t)b % sizeof(double);
    for (int n = 0; n < *len; n++) {
        double product[2][2];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                product[i][j] = a[n].at[i][0] * b[n].at[0][j] + a[n].at[i][1] * b[n].at[1][j];
        memcpy(b[n].at, product, sizeof product);
        b[n].name = a[n].name;
        b[n].count += a[n].count;
    }
}

static void show(const char *what, const struct element *e) {
    printf("%s: %c %g %g %g %g %d\n", what, e->name, e->at[0][0], e->at[0][1], e->at[1][0], e->at[1][1], e->count);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    MPI_Datatype plain;
    MPI_Type_create_struct(3, (int[]){1, 4, 1},
                           (MPI_Aint[]){offsetof(struct element, name), offsetof(struct element, at),
                                        offsetof(struct element, count)},
                           (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct element), &type);
    MPI_Type_commit(&type);
    MPI_Op op;
    MPI_Op_create(multiply, 0, &op);
    struct element own[3], all[3];
    memset(own, 0, sizeof own);
    memset(all, 0, sizeof all);
    for (int n = 0; n < 3; n++) {
        own[n].name = 'a' + rank;
        own[n].count = n;
        own[n].at[0][0] = 1, own[n].at[0][1] = rank + n, own[n].at[1][0] = 2, own[n].at[1][1] = rank;
    }
    MPI_Reduce(own, all, 3, type, op, 2, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Send(all, 3, type, 0, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(all, 3, type, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int n = 0; n < 3; n++)
            show("reduce", &all[n]);
    }
    MPI_Scan(own, all, 3, type, op, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Send(all, 3, type, 0, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(all, 3, type, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        show("scan", &all[2]);
    }
    MPI_Allreduce(MPI_IN_PLACE, own, 3, type, op, MPI_COMM_WORLD);
    if (rank == 0)
        show("allreduce", &own[1]);
    MPI_Op_free(&op);
    MPI_Type_free(&plain);
    MPI_Type_free(&type);

    struct {
        double value;
        int place;
    } least[2] = {{rank == 1 || rank == 3 ? -2.5 : rank, rank}, {7, rank + 5}}, found[2];
    MPI_Allreduce(least, found, 2, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    if (rank == 0)
        printf("minloc: %g at %d, %g at %d\n", found[0].value, found[0].place, found[1].value, found[1].place);

    long double third = (long double)(rank + 1) / 3, sum;
    MPI_Allreduce(&third, &sum, 1, MPI_LONG_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
    if (rank == 0)
        printf("product: %.6Lf\n", sum);
    int any;
    MPI_Reduce(&wrong, &any, 1, MPI_INT, MPI_LOR, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("wrong: %d\n", any);
    MPI_Finalize();
    return 0;
}
