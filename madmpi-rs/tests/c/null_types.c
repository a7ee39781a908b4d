/* np: 2, peers: no */
/* MPI_DATATYPE_NULL where there are no elements, or no process. (MPICH 4.0 takes it in messages, Open MPI 4.1 nowhere.) */
#include <mpi.h>
#include <stdio.h>

static int wrong;

static void ok(int code, int line) {
    if (code != MPI_SUCCESS) {
        wrong++;
        printf("line %d: %d\n", line, code);
    }
}
#define OK(call) ok(call, __LINE__)

int main(int argc, char **argv) {
    int rank, size, total, word = 5, got[2] = {-1, -1}, zeros[2] = {0, 0};
    MPI_Request requests[2];
    MPI_Datatype nulls[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL}, types[2] = {MPI_INT, MPI_DATATYPE_NULL};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int other = 1 - rank;

    OK(MPI_Isend(NULL, 0, MPI_DATATYPE_NULL, other, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, other, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, other, 2, MPI_COMM_WORLD));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(NULL, 0, MPI_DATATYPE_NULL, other, 3, NULL, 0, MPI_DATATYPE_NULL, other, 3, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));

    OK(MPI_Send(&word, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 4, MPI_COMM_WORLD));
    OK(MPI_Recv(&word, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Isend(&word, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Irecv(&word, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Sendrecv(&word, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 4, got, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 4,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Send_init(&word, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init(NULL, 0, MPI_DATATYPE_NULL, other, 5, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Startall(2, requests));
    OK(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, other, 5, MPI_COMM_WORLD));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    /* Elements of no type, for a process, are an error still. */
    wrong += MPI_Send(&word, 1, MPI_DATATYPE_NULL, other, 4, MPI_COMM_WORLD) != MPI_ERR_TYPE;
    wrong += MPI_Allreduce(&word, got, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD) != MPI_ERR_TYPE;

    /* Collectives: a rank that gives or gets nothing. */
    int counts[2] = {1, 0}, displs[2] = {0, 0};
    OK(MPI_Gatherv(&word, rank == 0, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, got, counts, displs,
                   rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
    wrong += rank == 0 && got[0] != 5;
    int send = rank == 0 ? 7 : -1;
    OK(MPI_Scatterv(&send, counts, displs, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, got, rank == 0,
                    rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
    wrong += rank == 0 && got[0] != 7;
    /* Rank 0 sends a word to itself; the rest is nothing, of no type. */
    got[0] = -1;
    OK(MPI_Alltoallw(&word, rank == 0 ? counts : zeros, displs, rank == 0 ? types : nulls, got,
                     rank == 0 ? counts : zeros, displs, rank == 0 ? types : nulls, MPI_COMM_WORLD));
    wrong += rank == 0 && got[0] != 5;
    OK(MPI_Bcast(NULL, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Allgatherv(&word, rank == 0, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, got, counts, displs, MPI_INT,
                      MPI_COMM_WORLD));
    wrong += got[0] != 5;
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", total);
    MPI_Finalize();
    return 0;
}
