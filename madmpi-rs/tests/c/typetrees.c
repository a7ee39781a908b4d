/* np: 1 */
/* What may be asked of a datatype: bounds, how it was made, its name; pieces of arrays. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void bounds(const char *what, MPI_Datatype type) {
    MPI_Aint lb, extent, true_lb, true_extent;
    int size;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    printf("%s: size %d, from %d, extent %d, truly from %d, %d\n", what, size, (int)lb, (int)extent, (int)true_lb,
           (int)true_extent);
}

static const char *combiner(int which) {
    return which == MPI_COMBINER_NAMED          ? "named"
           : which == MPI_COMBINER_DUP          ? "dup"
           : which == MPI_COMBINER_CONTIGUOUS   ? "contiguous"
           : which == MPI_COMBINER_VECTOR       ? "vector"
           : which == MPI_COMBINER_HVECTOR      ? "hvector"
           : which == MPI_COMBINER_INDEXED      ? "indexed"
           : which == MPI_COMBINER_HINDEXED     ? "hindexed"
           : which == MPI_COMBINER_INDEXED_BLOCK ? "indexed block"
           : which == MPI_COMBINER_HINDEXED_BLOCK ? "hindexed block"
           : which == MPI_COMBINER_STRUCT       ? "struct"
           : which == MPI_COMBINER_SUBARRAY     ? "subarray"
           : which == MPI_COMBINER_DARRAY       ? "darray"
           : which == MPI_COMBINER_RESIZED      ? "resized"
                                                : "another";
}

/* Constants have other values in other libraries. */
static int shown_order(int value) {
    return value == MPI_ORDER_C ? -1 : value == MPI_ORDER_FORTRAN ? -2 : value;
}

static int shown_spread(int value) {
    return value == MPI_DISTRIBUTE_BLOCK       ? -3
           : value == MPI_DISTRIBUTE_CYCLIC    ? -4
           : value == MPI_DISTRIBUTE_DFLT_DARG ? -5
                                               : value;
}

/* How it was made, and how what it is made of was made. */
static void tree(MPI_Datatype type, int depth) {
    int integers, addresses, types, how, a[64];
    MPI_Aint b[16];
    MPI_Datatype c[8];
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &how);
    printf("%*s%s", 2 * depth, "", combiner(how));
    if (how == MPI_COMBINER_NAMED) {
        char name[MPI_MAX_OBJECT_NAME];
        int len;
        MPI_Type_get_name(type, name, &len);
        printf(" %s, %d\n", name, len == (int)strlen(name));
        return;
    }
    MPI_Type_get_contents(type, integers, addresses, types, a, b, c);
    for (int i = 0; i < integers; i++) {
        int order = (how == MPI_COMBINER_SUBARRAY || how == MPI_COMBINER_DARRAY) && i == integers - 1;
        int spread = how == MPI_COMBINER_DARRAY && i >= 5 && i < 9;
        printf(" %d", order ? shown_order(a[i]) : spread ? shown_spread(a[i]) : a[i]);
    }
    printf(",");
    for (int i = 0; i < addresses; i++)
        printf(" %d", (int)b[i]);
    printf("\n");
    for (int i = 0; i < types; i++) {
        int unused;
        tree(c[i], depth + 1);
        MPI_Type_get_envelope(c[i], &unused, &unused, &unused, &how);
        if (how != MPI_COMBINER_NAMED)
            MPI_Type_free(&c[i]);
    }
}

static void show(const char *what, MPI_Datatype type) {
    bounds(what, type);
    tree(type, 1);
}

/* Which ints of a piece of memory a type takes. */
static void taken(MPI_Datatype type, int total) {
    int memory[200], packed[200], position = 0, size;
    for (int i = 0; i < total; i++)
        memory[i] = i;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    MPI_Pack(memory, 1, type, packed, sizeof packed, &position, MPI_COMM_SELF);
    printf("  takes:");
    for (int i = 0; i < size / 4; i++)
        printf(" %d", packed[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    MPI_Datatype a, b, c, d;
    MPI_Init(&argc, &argv);

    MPI_Type_vector(3, 2, -4, MPI_INT, &a);
    show("vector", a);
    MPI_Type_create_resized(a, -8, 40, &b);
    show("resized", b);
    MPI_Type_create_struct(3, (int[]){1, 2, 0}, (MPI_Aint[]){64, 70, 7}, (MPI_Datatype[]){b, MPI_CHAR, MPI_DOUBLE}, &c);
    show("struct", c);
    MPI_Type_contiguous(2, c, &d);
    show("contiguous", d);
    /* What was made of them stays. */
    MPI_Type_free(&a);
    MPI_Type_free(&b);
    MPI_Type_free(&c);
    MPI_Type_dup(d, &a);
    MPI_Type_free(&d);
    show("dup", a);
    MPI_Type_set_name(a, "two of them");
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MPI_Type_get_name(a, name, &len);
    printf("called %s, %d\n", name, len);
    MPI_Type_free(&a);

    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &a);
    show("padded", a);
    MPI_Type_create_hindexed(3, (int[]){1, 0, 2}, (MPI_Aint[]){40, 3, 80}, a, &b);
    show("hindexed", b);
    MPI_Type_indexed(2, (int[]){2, 1}, (int[]){3, -1}, a, &c);
    show("indexed", c);
    MPI_Type_free(&c);
    MPI_Type_create_indexed_block(3, 2, (int[]){5, 0, 9}, MPI_SHORT, &c);
    show("indexed block", c);
    MPI_Type_free(&c);
    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){104, 56}, MPI_LONG, &c);
    show("hindexed block", c);
    MPI_Type_free(&c);
    MPI_Type_create_hvector(2, 3, 100, MPI_FLOAT, &c);
    show("hvector", c);
    MPI_Type_free(&c);
    MPI_Type_free(&a);
    MPI_Type_free(&b);
    MPI_Type_contiguous(0, MPI_INT, &a);
    show("nothing", a);
    MPI_Type_free(&a);

    for (int order = 0; order < 2; order++) {
        MPI_Type_create_subarray(3, (int[]){4, 3, 5}, (int[]){2, 2, 3}, (int[]){1, 0, 2},
                                 order ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_INT, &a);
        show("subarray", a);
        taken(a, 60);
        MPI_Type_free(&a);
        for (int rank = 0; rank < 6; rank += 5) {
            MPI_Type_create_darray(6, rank, 2, (int[]){7, 10}, (int[]){MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
                                   (int[]){MPI_DISTRIBUTE_DFLT_DARG, 2}, (int[]){2, 3},
                                   order ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_INT, &a);
            show("darray", a);
            taken(a, 70);
            MPI_Type_free(&a);
        }
    }

    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &a);
    MPI_Type_size(a, &len);
    printf("a real of 8 has %d\n", len);
    MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 2, &a);
    MPI_Type_size(a, &len);
    printf("an integer of 2 has %d\n", len);

    MPI_Finalize();
    return 0;
}
