/* np: 2, peers: openmpi mpich */
/* What a receive brings that the program has freed is in its memory when it has come, whatever the datatype; nothing comes later. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define N 100

static int rank, buffer[2 * N], data[N], word;

/* The message, and one behind it. */
static void exchange(int tag, int synchronous) {
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		(synchronous ? MPI_Ssend : MPI_Send)(data, N, MPI_INT, 1, tag, MPI_COMM_WORLD);
		MPI_Send(&word, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
	} else {
		MPI_Recv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static void show(const char *what) {
	if (rank == 1)
		printf("%s: %d %d %d\n", what, buffer[0], buffer[1], buffer[2 * N - 2]);
	memset(buffer, 0, sizeof buffer);
}

int main(int argc, char **argv) {
	MPI_Datatype every_second;
	MPI_Request request;
	int flag;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < N; i++)
		data[i] = 100 + i;
	MPI_Type_vector(N, 1, 2, MPI_INT, &every_second);
	MPI_Type_commit(&every_second);
	for (int synchronous = 0; synchronous < 2; synchronous++) {
		if (rank == 1) {
			MPI_Irecv(buffer, 1, every_second, 0, 1, MPI_COMM_WORLD, &request);
			MPI_Request_free(&request);
		}
		exchange(1, synchronous);
		show("freed");
		if (rank == 1) {
			MPI_Recv_init(buffer, 1, every_second, 0, 2, MPI_COMM_WORLD, &request);
			MPI_Start(&request);
			MPI_Request_free(&request);
		}
		exchange(2, synchronous);
		show("persistent");
	}
	memset(buffer, 0x55, sizeof buffer);
	MPI_Irecv(&word, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
	MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
	if (rank == 1)
		printf("later: %x\n", (unsigned)buffer[0]);
	/* One that is under way when the process finalizes. */
	if (rank == 1) {
		MPI_Irecv(buffer, 1, every_second, 0, 3, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		MPI_Send(data, N, MPI_INT, 1, 3, MPI_COMM_WORLD);
	MPI_Type_free(&every_second);
	MPI_Finalize();
	if (rank == 1)
		printf("finalized: %d\n", buffer[0]);
	return 0;
}
