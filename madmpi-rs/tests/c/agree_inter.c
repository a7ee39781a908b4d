/* np: 3, peers: no */
/* Agreement between two groups: each side is told what the flags of the other side have in common. */
#include "report.h"
#include <mpi-ext.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* Ranks 0 and 2, and rank 1. The side of rank 1 is the first of the other communicator, which has rank 0 alone. */
    for (int round = 0; round < 2; round++) {
        int side = round == 0 ? rank % 2 : rank == 0, flag, again;
        int flags[2][3] = {{-1 ^ 8, 0x70, -1 ^ 4}, {0x15, 0x70, -1 ^ 0x20}};
        int expected[2][3] = {{0x70, -1 ^ 12, 0x70}, {0x50, 0x15, 0x15}};
        MPI_Comm half, inter;
        MPI_Request request;
        MPI_Comm_split(MPI_COMM_WORLD, side, -rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, round == 0 ? (side ? 2 : 1) : (side ? 2 : 0), 5, &inter);
        flag = again = flags[round][rank];
        expect(MPIX_Comm_agree(inter, &flag) == MPI_SUCCESS && flag == expected[round][rank], "agree");
        MPIX_Comm_iagree(inter, &again, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(again == expected[round][rank], "iagree");
        report(round == 0 ? "two and one" : "one and two");
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    /* Within one group all flags count, those of this side. */
    int flag = -1 ^ 1 << rank;
    expect(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag == (-1 ^ 7), "agree");
    report("one group");
    MPI_Finalize();
    return 0;
}
