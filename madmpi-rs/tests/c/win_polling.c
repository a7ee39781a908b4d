/* np: 4 */
/* Ranks that loop around one-sided calls until another one has written: each waits for its turn, which its neighbour gives it. Where
 * ranks share a core, or a process without other progress, such calls have to let the neighbour go on. */
#include <mpi.h>
#include <stdio.h>

enum { FETCHES, FLUSHES_LOCALLY, LOCKS, SYNCHRONISES, WAYS };

static const char *const names[WAYS] = {"fetch and flush", "fetch, flush locally and flush", "lock, get and unlock", "sync"};
static int rank, size;
static MPI_Win win;

/* The own word. */
static int look(int way, volatile int *own) {
	int value = 0;

	switch (way) {
	case FETCHES:
		MPI_Fetch_and_op(NULL, &value, MPI_INT, rank, 0, MPI_NO_OP, win);
		MPI_Win_flush(rank, win);
		break;
	case FLUSHES_LOCALLY:
		MPI_Fetch_and_op(NULL, &value, MPI_INT, rank, 0, MPI_NO_OP, win);
		MPI_Win_flush_local(rank, win);
		break;
	case LOCKS:
		MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
		MPI_Get(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win);
		MPI_Win_unlock(rank, win);
		break;
	default:
		MPI_Win_sync(win);
		value = *own;
	}
	return value;
}

static void tell(int way, int to, int turn) {
	if (way == LOCKS)
		MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
	MPI_Accumulate(&turn, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_REPLACE, win);
	if (way == LOCKS)
		MPI_Win_unlock(to, win);
	else
		MPI_Win_flush(to, win);
}

int main(int argc, char **argv) {
	int *own;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Win_allocate(sizeof *own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
	for (int way = 0; way < WAYS; way++) {
		*own = 0;
		MPI_Barrier(MPI_COMM_WORLD);
		if (way != LOCKS)
			MPI_Win_lock_all(0, win);
		for (int turn = 1; turn <= 10; turn++) {
			/* Rank 0 begins, and waits for the last one. */
			if (rank == 0)
				tell(way, 1 % size, turn);
			while (look(way, own) != turn)
				;
			if (rank != 0)
				tell(way, (rank + 1) % size, turn);
		}
		if (way != LOCKS)
			MPI_Win_unlock_all(win);
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0)
			printf("%s: done\n", names[way]);
	}
	MPI_Win_free(&win);
	MPI_Finalize();
	return 0;
}
