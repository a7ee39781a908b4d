/* np: 2 */
/* An operator may have 600 KB of local variables, whichever thread calls it. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif

static void add(void *in, void *inout, int *len, MPI_Datatype *type) {
	(void)type;
	volatile char local[600000];
	memset((char *)local, *len & 1, sizeof local);
	for (int i = 0; i < *len; i++)
		((int *)inout)[i] += ((int *)in)[i] + local[i] + local[sizeof local - 1] - 2 * (*len & 1);
}

static void compute(void) {
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 2000000);
}

int main(int argc, char **argv) {
	int level, rank, size, wrong = 0, total, data[3], sum[3];
	MPI_Op op;

	MPI_Init_thread(&argc, &argv, LEVEL, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Op_create(add, 1, &op);
	for (int round = 0; round < 100; round++) {
		MPI_Request request;
		for (int i = 0; i < 3; i++)
			data[i] = rank + i + round;
		MPI_Iallreduce(data, sum, 3, MPI_INT, op, MPI_COMM_WORLD, &request);
		compute();
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		for (int i = 0; i < 3; i++)
			wrong += sum[i] != size * (i + round) + size * (size - 1) / 2;
	}
	MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("wrong sums: %d\n", total);
	MPI_Op_free(&op);
	MPI_Finalize();
	return 0;
}
