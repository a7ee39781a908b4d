/* np: 1, peers: openmpi */
/* external32: the same bytes everywhere. MPICH 4.0 crashes on structures here. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Datatype a;
    MPI_Init(&argc, &argv);
    struct {
        short first;
        int second;
        double third;
    } from = {-2, 0x01020304, -1.5}, to = {0, 0, 0};
    unsigned char bytes[64];
    MPI_Aint size, position = 0;
    MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, 4, 8}, (MPI_Datatype[]){MPI_SHORT, MPI_INT, MPI_DOUBLE}, &a);
    MPI_Type_commit(&a);
    MPI_Pack_external_size("external32", 1, a, &size);
    MPI_Pack_external("external32", &from, 1, a, bytes, sizeof bytes, &position);
    printf("external32: %d, %d:", (int)size, (int)position);
    for (int i = 0; i < (int)position; i++)
        printf(" %02x", bytes[i]);
    position = 0;
    MPI_Unpack_external("external32", bytes, sizeof bytes, &position, &to, 1, a);
    printf("\nback: %d %x %g, %d\n", to.first, to.second, to.third, (int)position);
    MPI_Type_free(&a);
    printf("null: %d\n", a == MPI_DATATYPE_NULL);
    /* Shorter there than here. */
    long long_values[2] = {-3, 1L << 30};
    position = 0;
    MPI_Pack_external("external32", long_values, 2, MPI_LONG_LONG, bytes, sizeof bytes, &position);
    printf("%d:", (int)position);
    for (int i = 0; i < (int)position; i++)
        printf(" %02x", bytes[i]);
    printf("\n");
    MPI_Finalize();
    return 0;
}
