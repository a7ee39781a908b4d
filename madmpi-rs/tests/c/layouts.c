/* np: 2 */
/* Messages of scattered layouts, and packing: what is sent with one type is received with another. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void say(const char *what, const int *values, int count) {
    printf("%s:", what);
    for (int i = 0; i < count; i++)
        printf(" %d", values[i]);
    printf("\n");
}

/* Rank 0 sends matrix elements with `type`, rank 1 returns them as a row. */
static void row(const char *what, MPI_Datatype type, int count, int elements) {
    int matrix[100], line[100] = {0};
    for (int i = 0; i < 100; i++)
        matrix[i] = i;
    MPI_Type_commit(&type);
    if (rank == 0) {
        MPI_Send(matrix, count, type, 1, 3, MPI_COMM_WORLD);
        MPI_Recv(line, elements, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        say(what, line, elements);
        /* The other way: a row into the layout. */
        memset(matrix, 0, sizeof matrix);
        MPI_Send(line, elements, MPI_INT, 1, 5, MPI_COMM_WORLD);
        MPI_Recv(matrix, count, type, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int same = 1;
        for (int i = 0; i < 100; i++)
            same &= matrix[i] == 0 || matrix[i] == i;
        printf("  back: %d\n", same);
    } else {
        MPI_Recv(line, elements, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(line, elements, MPI_INT, 0, 4, MPI_COMM_WORLD);
        memset(matrix, 0, sizeof matrix);
        MPI_Recv(matrix, count, type, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(matrix, count, type, 0, 6, MPI_COMM_WORLD);
    }
    MPI_Type_free(&type);
}

struct particle {
    char tag;
    double place[3];
    int number;
};

static void large(void) {
    /* Long blocks, far apart: sent in place. */
    static int from[1 << 20], to[1 << 20];
    MPI_Datatype type;
    MPI_Type_vector(512, 1024, 2048, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 1 << 20; i++)
        from[i] = i;
    if (rank == 0) {
        MPI_Send(from, 1, type, 1, 8, MPI_COMM_WORLD);
    } else {
        MPI_Recv(to, 1, type, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int wrong = 0;
        for (int i = 0; i < 1 << 20; i++)
            wrong += to[i] != (i % 2048 < 1024 ? i : 0);
        MPI_Send(&wrong, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        int wrong = -1;
        MPI_Recv(&wrong, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("long blocks: %d wrong\n", wrong);
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv) {
    MPI_Datatype type, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    MPI_Type_vector(4, 2, 10, MPI_INT, &type);
    row("vector", type, 1, 8);
    MPI_Type_vector(4, 1, 10, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, sizeof(int), &other);
    MPI_Type_free(&type);
    row("columns", other, 3, 12);
    MPI_Type_create_hvector(3, 2, -20, MPI_INT, &type);
    MPI_Type_create_hindexed(1, (int[]){1}, (MPI_Aint[]){80}, type, &other);
    MPI_Type_free(&type);
    row("backwards", other, 1, 6);
    MPI_Type_indexed(4, (int[]){1, 0, 3, 2}, (int[]){50, 3, 7, 90}, MPI_INT, &type);
    row("indexed", type, 1, 6);
    MPI_Type_create_indexed_block(3, 2, (int[]){9, 1, 30}, MPI_INT, &type);
    row("indexed block", type, 1, 6);
    MPI_Type_create_hindexed_block(2, 2, (MPI_Aint[]){16, 4}, MPI_INT, &type);
    row("hindexed block", type, 2, 8);
    MPI_Type_contiguous(5, MPI_INT, &type);
    row("contiguous", type, 2, 10);

    struct particle all[2] = {{'a', {1, 2, 3}, 4}, {'b', {5, 6, 7}, 8}};
    MPI_Aint places[] = {offsetof(struct particle, tag), offsetof(struct particle, place),
                         offsetof(struct particle, number)};
    MPI_Type_create_struct(3, (int[]){1, 3, 1}, places, (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_INT}, &type);
    MPI_Type_commit(&type);
    if (rank == 0) {
        int size;
        MPI_Aint lb, extent;
        MPI_Type_size(type, &size);
        MPI_Type_get_extent(type, &lb, &extent);
        printf("structure: size %d, extent %d\n", size, (int)extent);
        MPI_Send(all, 2, type, 1, 7, MPI_COMM_WORLD);
        MPI_Recv(all, 2, type, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("structures: %c %g %g %g %d, %c %g %g %g %d\n", all[0].tag, all[0].place[0], all[0].place[1],
               all[0].place[2], all[0].number, all[1].tag, all[1].place[0], all[1].place[1], all[1].place[2],
               all[1].number);
    } else {
        struct particle got[2];
        memset(got, 0, sizeof got);
        MPI_Recv(got, 2, type, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        struct particle turned[2] = {got[1], got[0]};
        MPI_Send(turned, 2, type, 0, 7, MPI_COMM_WORLD);
    }

    /* By addresses. */
    int first = 17, second = 23;
    MPI_Get_address(&first, &places[0]);
    MPI_Get_address(&second, &places[1]);
    MPI_Type_create_hindexed(2, (int[]){1, 1}, places, MPI_INT, &other);
    MPI_Type_commit(&other);
    if (rank == 0) {
        MPI_Send(MPI_BOTTOM, 1, other, 1, 1, MPI_COMM_WORLD);
    } else {
        int pair[2];
        MPI_Recv(pair, 2, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pair[0]++;
        MPI_Send(pair, 2, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        MPI_Recv(MPI_BOTTOM, 1, other, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("by address: %d %d\n", first, second);
    }
    MPI_Type_free(&other);

    /* Packed by the program: sent as packed, received as what it was. */
    char buffer[200];
    int position = 0, size = 0;
    MPI_Pack_size(2, type, MPI_COMM_WORLD, &size);
    if (rank == 0) {
        printf("enough room: %d\n", size >= 2 * 29 && size <= (int)sizeof buffer);
        MPI_Pack(all, 1, type, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
        MPI_Pack(&all[1], 1, type, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
        MPI_Send(buffer, position, MPI_PACKED, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(buffer, sizeof buffer, MPI_PACKED, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memset(all, 0, sizeof all);
        position = 0;
        MPI_Unpack(buffer, sizeof buffer, &position, all, 2, type, MPI_COMM_WORLD);
        printf("packed: %c %g %d, %c %g %d\n", all[0].tag, all[0].place[2], all[0].number, all[1].tag,
               all[1].place[2], all[1].number);
    } else {
        struct particle got[2];
        MPI_Recv(got, 2, type, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        got[0].number *= 10;
        MPI_Send(got, 2, type, 0, 2, MPI_COMM_WORLD);
    }
    MPI_Type_free(&type);
    large();
    MPI_Finalize();
    return 0;
}
