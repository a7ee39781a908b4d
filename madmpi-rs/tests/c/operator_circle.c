/* np: 4, peers: openmpi */
/* Collectives with a program's operator over a connection, which the library calls inside the program's calls only: here those calls
 * are of another communicator, or tests. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { GO = 7 };

static void add(void *in, void *inout, int *len, MPI_Datatype *type) {
	(void)type;
	for (int i = 0; i < *len; i++)
		((int *)inout)[i] += ((int *)in)[i];
}

static void pause_ms(long ms) {
	struct timespec time = {0, ms * 1000 * 1000};
	nanosleep(&time, NULL);
}

/* Rank 2 of the merged one combines what comes from rank 3 after it was told, while it looks, or waits, for rank 0's word. */
static void merged(MPI_Comm all, MPI_Op op, int looks) {
	static const int in_world[4] = {0, 2, 1, 3};
	int me, sum = -1, flag = 0;
	MPI_Request request;

	MPI_Comm_rank(all, &me);
	if (me == 3)
		pause_ms(50);
	MPI_Ireduce(&me, &sum, 1, MPI_INT, op, 0, all, &request);
	if (me == 2) {
		while (looks && !flag)
			MPI_Iprobe(in_world[0], GO, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		MPI_Recv(NULL, 0, MPI_INT, in_world[0], GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (me == 0) {
		MPI_Send(NULL, 0, MPI_INT, in_world[2], GO, MPI_COMM_WORLD);
		printf("sum: %d\n", sum);
	}
}

int main(int argc, char **argv) {
	char port[MPI_MAX_PORT_NAME] = "";
	int rank, sum = -1, flag = 0;
	MPI_Comm side, inter, all;
	MPI_Request request;
	MPI_Op op;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &side);
	if (rank == 0)
		MPI_Open_port(MPI_INFO_NULL, port);
	MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
	if (rank % 2 == 0)
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, side, &inter);
	else
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, side, &inter);
	if (rank == 0)
		MPI_Close_port(port);
	MPI_Intercomm_merge(inter, rank % 2, &all);
	MPI_Op_create(add, 1, &op);

	merged(all, op, 1);
	merged(all, op, 0);

	if (rank == 3)
		pause_ms(50);
	MPI_Iallreduce(&rank, &sum, 1, MPI_INT, op, inter, &request);
	while (!flag)
		MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
	if (sum != (rank % 2 ? 0 + 2 : 1 + 3))
		printf("rank %d: sum between groups: %d\n", rank, sum);

	MPI_Op_free(&op);
	MPI_Comm_free(&all);
	MPI_Comm_disconnect(&inter);
	MPI_Comm_free(&side);
	MPI_Finalize();
	return 0;
}
