/* np: 2, peers: no */
/* A function that reduces structures by copying them whole, of which only some members are data. */
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "report.h"

struct tail { double value; int index; char note[52]; };
struct head { long unnamed; double value; };

static void largest_tail(void *in, void *inout, int *len, MPI_Datatype *type) {
    struct tail *from = in, *to = inout;
    (void)type;
    for (int i = 0; i < *len; i++)
        if (from[i].value > to[i].value) to[i] = from[i];
}

static void largest_head(void *in, void *inout, int *len, MPI_Datatype *type) {
    struct head *from = in, *to = inout;
    (void)type;
    for (int i = 0; i < *len; i++)
        if (from[i].value > to[i].value) to[i] = from[i];
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Datatype parts, tail, head;
    MPI_Op of_tails, of_heads;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, offsetof(struct tail, index)}, (MPI_Datatype[]){MPI_DOUBLE, MPI_INT}, &parts);
    MPI_Type_create_resized(parts, 0, sizeof(struct tail), &tail);
    MPI_Type_commit(&tail);
    MPI_Type_free(&parts);
    MPI_Type_create_struct(1, (int[]){1}, (MPI_Aint[]){offsetof(struct head, value)}, (MPI_Datatype[]){MPI_DOUBLE}, &parts);
    MPI_Type_create_resized(parts, 0, sizeof(struct head), &head);
    MPI_Type_commit(&head);
    MPI_Type_free(&parts);
    MPI_Op_create(largest_tail, 1, &of_tails);
    MPI_Op_create(largest_head, 1, &of_heads);
    for (int count = 1; count <= 1000; count *= 10) {
        struct tail *tails = calloc(count, sizeof *tails), *best_tails = calloc(count, sizeof *tails);
        struct head *heads = calloc(count, sizeof *heads), *best_heads = calloc(count, sizeof *heads);
        for (int i = 0; i < count; i++) {
            tails[i].value = heads[i].value = (i + rank) % 2;
            tails[i].index = rank;
            best_heads[i].unnamed = 77;
        }
        MPI_Allreduce(tails, best_tails, count, tail, of_tails, MPI_COMM_WORLD);
        MPI_Allreduce(heads, best_heads, count, head, of_heads, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) {
            expect(best_tails[i].value == 1 && best_tails[i].index == (i + 1) % 2, "the largest, with its rank");
            expect(best_heads[i].value == 1 && best_heads[i].unnamed == 77, "the largest; what is no data stays");
        }
        free(tails), free(best_tails), free(heads), free(best_heads);
    }
    report("structures");
    MPI_Op_free(&of_tails);
    MPI_Op_free(&of_heads);
    MPI_Type_free(&tail);
    MPI_Type_free(&head);
    MPI_Finalize();
    return 0;
}
