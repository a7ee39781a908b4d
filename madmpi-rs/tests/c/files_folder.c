/* np: 2, peers: no, ranks: no */
/* A file with a relative name: closing it deletes that file, not one of the same name in the folder where the program is then. */
#include "files.h"
#include <sys/stat.h>

int main(int argc, char **argv) {
    begin(&argc, &argv);
    char first[300], second[300], path[320];
    snprintf(first, sizeof first, "%s.1", name);
    snprintf(second, sizeof second, "%s.2", name);
    if (rank == 0) {
        mkdir(first, 0700);
        mkdir(second, 0700);
        snprintf(path, sizeof path, "%s/file", second);
        fclose(fopen(path, "w"));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    check(!chdir(first) && !MPI_File_open(MPI_COMM_WORLD, "file", mode, MPI_INFO_NULL, &file), "a relative name");
    check(!chdir(second) && !MPI_File_close(&file), "closed in another folder");
    check(!access("file", F_OK), "the other file is there");
    snprintf(path, sizeof path, "%s/file", first);
    check(access(path, F_OK), "the opened one is not");
    check(!chdir("/"), "the end");
    if (rank == 0) {
        unlink(path);
        snprintf(path, sizeof path, "%s/file", second);
        unlink(path);
        rmdir(first);
        rmdir(second);
    }
    MPI_Finalize();
    return 0;
}
