/* What the programs on files share. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static char name[256];

static void check(int ok, const char *what) {
    int all;
    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", what, all ? "right" : "WRONG");
    if (!ok)
        fprintf(stderr, "rank %d: %s: WRONG\n", rank, what);
}

/* A name that no file has. */
static void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *folder = getenv("TMPDIR");
    if (rank == 0)
        snprintf(name, sizeof name, "%s/mpi-files-%ld", folder ? folder : "/tmp", (long)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
}

__attribute__((unused)) static MPI_File open_new(MPI_Comm comm) {
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_File_open(comm, name, mode, MPI_INFO_NULL, &file);
    MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    return file;
}

__attribute__((unused)) static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}
