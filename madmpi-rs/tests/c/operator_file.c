/* np: 2, peers: no */
/* A program of one thread: its operator is called inside its calls only, also while an access to a file waits for another rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile int computes, disturbed;

static void add(void *in, void *inout, int *len, MPI_Datatype *type) {
	(void)type;
	disturbed |= computes;
	for (int i = 0; i < *len; i++)
		((int *)inout)[i] += ((int *)in)[i];
}

static void pause_ms(long ms) {
	struct timespec time = {0, ms * 1000 * 1000};
	nanosleep(&time, NULL);
}

static void compute_ms(long ms) {
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	computes = 1;
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
	computes = 0;
}

int main(int argc, char **argv) {
	char name[256] = "";
	int rank, sum = -1, data = 0;
	MPI_Request requests[2];
	MPI_File file;
	MPI_Op op;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0)
		snprintf(name, sizeof name, "%s/operator_file.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
	MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
	MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
	MPI_Op_create(add, 1, &op);
	for (int turn = 0; turn < 5; turn++) {
		if (rank == 1)
			pause_ms(20);
		MPI_Ireduce(&rank, &sum, 1, MPI_INT, op, 0, MPI_COMM_WORLD, &requests[0]);
		if (rank == 1)
			pause_ms(60);
		MPI_File_iwrite_at_all(file, rank * sizeof data, &data, 1, MPI_INT, &requests[1]);
		if (rank == 0)
			compute_ms(60);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	}
	if (rank == 0)
		printf("sum: %d, %s\n", sum, disturbed ? "the operator ran beside the program" : "undisturbed");
	MPI_Op_free(&op);
	MPI_File_close(&file);
	MPI_Finalize();
	return 0;
}
