/* np: 2 */
/* A program that asks for no MPI_THREAD_MULTIPLE: its operators are called inside its own MPI calls only, one at a time. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif
#define ROUNDS 200

static volatile long counter, in_operator;
static volatile int computing, outside;

static void add(void *in, void *inout, int *len, MPI_Datatype *type) {
	(void)type;
	for (int i = 0; i < *len; i++) {
		((int *)inout)[i] += ((int *)in)[i];
		counter++;
		in_operator++;
	}
	if (computing)
		outside++;
}

static long compute(void) {
	struct timespec begin, now;
	long done = 0;
	computing = 1;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 100; i++, done++)
			counter++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 1000000);
	computing = 0;
	return done;
}

int main(int argc, char **argv) {
	int level, rank, size, wrong = 0, total[2];
	long own = 0;
	MPI_Op op;

	MPI_Init_thread(&argc, &argv, LEVEL, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Op_create(add, 1, &op);
	for (int round = 0; round < ROUNDS; round++) {
		static int data[2][2000], sum[2][2000];
		MPI_Request requests[2];
		int count = round % 2 ? 2000 : 3, flag = 0;
		for (int which = 0; which < 2; which++) {
			for (int i = 0; i < count; i++)
				data[which][i] = rank + i + which;
			MPI_Iallreduce(data[which], sum[which], count, MPI_INT, op, MPI_COMM_WORLD, &requests[which]);
		}
		own += compute();
		if (round % 3 == 0) {
			while (!flag) {
				MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
				counter++;
				own++;
			}
		} else if (round % 3 == 1) {
			MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		} else {
			for (int which = 0; which < 2; which++)
				MPI_Wait(&requests[which], MPI_STATUS_IGNORE);
		}
		for (int which = 0; which < 2; which++)
			for (int i = 0; i < count; i++)
				wrong += sum[which][i] != size * (i + which) + size * (size - 1) / 2;
		/* One that waits, beside one that goes on. */
		MPI_Iallreduce(data[0], sum[0], count, MPI_INT, op, MPI_COMM_WORLD, &requests[0]);
		MPI_Allreduce(data[1], sum[1], count, MPI_INT, op, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		own += compute();
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
	}
	int found[2] = {wrong + outside, counter != own + in_operator};
	MPI_Reduce(found, total, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("wrong sums and operators outside calls: %d; processes whose counter lost updates: %d\n", total[0], total[1]);
	MPI_Op_free(&op);
	MPI_Finalize();
	return 0;
}
