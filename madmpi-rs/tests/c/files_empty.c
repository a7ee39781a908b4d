/* np: 1 2, peers: no */
/* Accesses of nothing, with requests: they are over when the call returns. */
#include "files.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file = open_new(MPI_COMM_WORLD);
    for (int atomic = 0; atomic < 2; atomic++) {
        MPI_File_set_atomicity(file, atomic);
        for (int writes = 0; writes < 2; writes++) {
            MPI_Request request;
            MPI_Status status;
            int over, count;
            if (writes)
                MPI_File_iwrite_at(file, 5, NULL, 0, MPI_INT, &request);
            else
                MPI_File_iread_at(file, 5, NULL, 0, MPI_INT, &request);
            MPI_Test(&request, &over, &status);
            MPI_Get_count(&status, MPI_INT, &count);
            check(over && count == 0, writes ? "a write" : "a read");
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    MPI_Offset length;
    MPI_File_get_size(file, &length);
    check(length == 0, "the file is empty");
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
