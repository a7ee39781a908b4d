/* np: 4, peers: no */
/* Settings that change while collectives are under way: each goes by those of its call, so that all ranks go the same way.
   More ranks than most test machines have cores, so that an access often runs after its rank's next call. */
#include "files.h"

enum { PIECES = 16, PIECE = 1024, ROUNDS = 100 };

static MPI_File file;
static char out[PIECES * PIECE], in[PIECES * PIECE];

/* Whether what this rank has written is there. */
static int is_there(int value) {
    memset(in, 0, sizeof in);
    MPI_File_read_at(file, 0, in, sizeof in, MPI_BYTE, MPI_STATUS_IGNORE);
    for (size_t byte = 0; byte < sizeof in; byte++)
        if (in[byte] != (char)value)
            return 0;
    return 1;
}

static void begin_write(MPI_Request *request, int split, int value) {
    memset(out, value, sizeof out);
    if (split)
        MPI_File_write_at_all_begin(file, 0, out, sizeof out, MPI_BYTE);
    else
        MPI_File_iwrite_at_all(file, 0, out, sizeof out, MPI_BYTE, request);
}

static void end_write(MPI_Request *request, int split) {
    MPI_Status status;
    if (split)
        MPI_File_write_at_all_end(file, out, &status);
    else
        MPI_Wait(request, &status);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    file = open_new(MPI_COMM_WORLD);
    MPI_Datatype piece, mine;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * size, &mine);
    MPI_Type_commit(&mine);
    MPI_Info enable, disable;
    MPI_Info_create(&enable);
    MPI_Info_set(enable, "romio_cb_write", "enable");
    MPI_Info_dup(enable, &disable);
    MPI_Info_set(disable, "romio_cb_write", "disable");
    MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, mine, "native", enable);
    for (int split = 0; split < 2; split++) {
        MPI_Request request;
        int right = 1;
        for (int round = 0; round < ROUNDS; round++) {
            begin_write(&request, split, round + rank);
            MPI_File_set_atomicity(file, 1);
            MPI_File_set_atomicity(file, 0);
            end_write(&request, split);
            right &= is_there(round + rank);
        }
        check(right, split ? "atomicity, split collectives" : "atomicity, collectives with requests");
        for (int round = 0; round < ROUNDS; round++) {
            begin_write(&request, split, round + rank);
            MPI_File_set_info(file, disable);
            MPI_File_set_info(file, enable);
            end_write(&request, split);
            right &= is_there(round + rank);
        }
        check(right, split ? "hints, split collectives" : "hints, collectives with requests");
    }
    MPI_Info_free(&disable);
    MPI_Info_free(&enable);
    MPI_Type_free(&mine);
    MPI_Type_free(&piece);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
