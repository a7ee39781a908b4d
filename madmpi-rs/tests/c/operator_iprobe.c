/* np: 4 */
/* Rank 2 combines what came from rank 3 inside its calls only: here all that it calls is MPI_Iprobe, in a loop. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static void add(void *in, void *inout, int *len, MPI_Datatype *type) {
	(void)type;
	for (int i = 0; i < *len; i++)
		((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv) {
	int rank, sum = -1, flag = 0;
	MPI_Op op;
	MPI_Request request;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Op_create(add, 1, &op);
	if (rank == 3) {
		struct timespec while_rank_2_loops = {0, 50 * 1000 * 1000};
		nanosleep(&while_rank_2_loops, NULL);
	}
	MPI_Ireduce(&rank, &sum, 1, MPI_INT, op, 0, MPI_COMM_WORLD, &request);
	if (rank == 2) {
		while (!flag)
			MPI_Iprobe(0, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		MPI_Recv(NULL, 0, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (rank == 0) {
		MPI_Send(NULL, 0, MPI_INT, 2, 7, MPI_COMM_WORLD);
		printf("sum: %d\n", sum);
	}
	MPI_Op_free(&op);
	MPI_Finalize();
	return 0;
}
