/* np: 1, peers: mpich */
/* Sizes for which an int has no room are MPI_UNDEFINED. */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
	int size = 0, len = 0;
	size_t large = (size_t)3 << 30;
	void *memory, *at = NULL;

	MPI_Init(&argc, &argv);
	MPI_Pack_size(INT_MAX, MPI_INT, MPI_COMM_SELF, &size);
	printf("packed: %s\n", size == MPI_UNDEFINED ? "undefined" : "a number");
	memory = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Buffer_attach_c(memory, (MPI_Count)large);
	MPI_Buffer_detach(&at, &len);
	printf("detached: %s, %s\n", at == memory ? "the buffer" : "another one", len == MPI_UNDEFINED ? "undefined" : "a number");
	MPI_Finalize();
	return 0;
}
