/* np: 8, peers: no, ranks: no */
/* Ranks write short pieces in turn, each beyond what was the end of the file: whoever makes the file longer loses nothing of
   what the others write meanwhile. ext4 shows the new length before it clears what was behind the old one; half of the ranks
   only compute, so that the others lose their cores in between. */
#include "files.h"

enum { PIECES = 7, PIECE = 40, TIMES = 3, ROUNDS = 2000 };

/* Whether all that this rank has written is there, in every round. */
static int write_in_turn(MPI_Comm writers) {
    MPI_File file = open_new(writers);
    int place, places;
    MPI_Comm_rank(writers, &place);
    MPI_Comm_size(writers, &places);
    MPI_Datatype piece, mine;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * places, &mine);
    MPI_Type_commit(&mine);
    MPI_File_set_view(file, (MPI_Offset)place * PIECE, MPI_BYTE, mine, "native", MPI_INFO_NULL);
    char out[PIECES * PIECE], in[TIMES * PIECES * PIECE];
    memset(out, place + 1, sizeof out);
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(writers);
        MPI_File_set_size(file, 0);
        for (int time = 0; time < TIMES; time++)
            MPI_File_write_at_all(file, time * (MPI_Offset)sizeof out, out, sizeof out, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_Barrier(writers);
        memset(in, 0, sizeof in);
        MPI_File_read_at(file, 0, in, sizeof in, MPI_BYTE, MPI_STATUS_IGNORE);
        int right = 1;
        for (int byte = 0; byte < (int)sizeof in; byte++)
            right &= in[byte] == place + 1;
        wrong += !right;
    }
    MPI_Type_free(&mine);
    MPI_Type_free(&piece);
    MPI_File_close(&file);
    if (wrong)
        fprintf(stderr, "rank %d: wrong in %d of %d rounds\n", rank, wrong, ROUNDS);
    return wrong == 0;
}

/* Until all others have entered a barrier. */
static void compute(void) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int over = 0; !over; MPI_Test(&request, &over, MPI_STATUS_IGNORE))
        for (double until = MPI_Wtime() + 0.0002; MPI_Wtime() < until;)
            ;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int writes = rank < size / 2, right = 1;
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, writes, rank, &half);
    if (writes) {
        right = write_in_turn(half);
        MPI_Request request;
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else
        compute();
    check(right, "all that was written is there");
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
