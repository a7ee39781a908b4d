/* np: 3, peers: openmpi */
/* A process may finalize while others have receives from it which nothing matches: they look in vain, cancel and free them. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int cancelled(MPI_Request *request) {
	MPI_Status status;
	int flag;
	MPI_Cancel(request);
	MPI_Wait(request, &status);
	MPI_Test_cancelled(&status, &flag);
	return flag;
}

int main(int argc, char **argv) {
	int rank, probed, tested, asked, all, index, count, at[3], value[6], sent = 7;
	MPI_Request request, freed, again, late, some[2];
	MPI_Status status, statuses[2];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank > 0) {
		MPI_Irecv(&value[0], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
		MPI_Irecv(&value[1], 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &freed);
		MPI_Recv_init(&value[2], 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &again);
		MPI_Start(&again);
		MPI_Irecv(&value[3], 1, MPI_INT, 0, 4, MPI_COMM_WORLD, &some[0]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Finalize();
		return 0;
	}
	usleep(300000);
	MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &probed, &status);
	MPI_Test(&request, &tested, &status);
	MPI_Request_get_status(again, &asked, &status);
	/* Beside one that a message comes for. */
	MPI_Irecv(&value[4], 1, MPI_INT, 3 - rank, 5, MPI_COMM_WORLD, &some[1]);
	MPI_Testall(2, some, &all, statuses);
	MPI_Send(&sent, 1, MPI_INT, 3 - rank, 5, MPI_COMM_WORLD);
	MPI_Waitany(2, some, &index, &status);
	MPI_Testsome(2, some, &count, at, statuses);
	MPI_Irecv(&value[5], 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &late);
	int found[10] = {probed, tested, asked, all, index, count, cancelled(&request), cancelled(&again), cancelled(&some[0]), cancelled(&late)};
	for (int from = 1; from < 3; from++) {
		if (rank == 2 && from == 2)
			MPI_Send(found, 10, MPI_INT, 1, 7, MPI_COMM_WORLD);
		if (rank == 1) {
			if (from == 2)
				MPI_Recv(found, 10, MPI_INT, 2, 7, MPI_COMM_WORLD, &status);
			printf("rank %d: probed: %d, tested: %d, asked: %d, all: %d, first: %d, then: %d, cancelled: %d %d %d %d\n", from, found[0],
			       found[1], found[2], found[3], found[4], found[5], found[6], found[7], found[8], found[9]);
		}
	}
	MPI_Request_free(&freed);
	MPI_Request_free(&again);
	MPI_Finalize();
	return 0;
}
