/* np: 2, peers: no */
/* What the standard names: the environment before MPI begins, types by class and size, names of types with two names.
   (MPI_Info_create_env is of MPI 4.0, where Open MPI 4.1 is at 3.1.) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void type_of(const char *what, int class, int size) {
    MPI_Datatype type;
    char name[MPI_MAX_OBJECT_NAME] = "none";
    int length, found = -1;
    if (MPI_Type_match_size(class, size, &type) == MPI_SUCCESS) {
        MPI_Type_get_name(type, name, &length);
        MPI_Type_size(type, &found);
    }
    printf("%s: %s, %d\n", what, name, found == size);
}

static void name_of(MPI_Datatype type) {
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Type_get_name(type, name, &length);
    printf("%s\n", name);
}

int main(int argc, char **argv) {
    int flag, room, rank;
    char value[64];
    MPI_Info info;
    MPI_Info_create_env(argc, argv, &info);
    room = sizeof value;
    MPI_Info_get_string(info, "maxprocs", &room, value, &flag);
    MPI_Info_free(&info);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        printf("before: maxprocs %s\n", flag ? value : "is not there");
        type_of("long double", MPI_TYPECLASS_REAL, sizeof(long double));
        type_of("double", MPI_TYPECLASS_REAL, sizeof(double));
        type_of("complex long double", MPI_TYPECLASS_COMPLEX, 2 * sizeof(long double));
        type_of("int", MPI_TYPECLASS_INTEGER, sizeof(int));
        name_of(MPI_C_COMPLEX);
        name_of(MPI_C_FLOAT_COMPLEX);
        name_of(MPI_LONG_LONG);
        name_of(MPI_LONG_LONG_INT);
    }
    MPI_Finalize();
    return 0;
}
