/* np: 3, peers: no */
/* Many windows of a process that may have few files open: windows share what watches over their processes. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>

enum { WINDOWS = 20, SPARE = 12 };

static int in_use(void) {
    DIR *folder = opendir("/proc/self/fd");
    int number = 0;
    while (folder && readdir(folder))
        number++;
    if (folder)
        closedir(folder);
    return number - 3; /* itself, and two names that are no numbers */
}

int main(int argc, char **argv) {
    int rank, size, before, wrong = 0, all;
    struct rlimit limit;
    MPI_Comm near;
    MPI_Win first, wins[WINDOWS];
    int *memory[WINDOWS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* Those that share memory: all, or each alone. */
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &size);
    MPI_Comm_set_errhandler(near, MPI_ERRORS_RETURN);
    /* What the first window needs, later ones may use. */
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, near, &memory[0], &first);
    before = in_use();
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = before + SPARE;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < WINDOWS; i++) {
        wins[i] = MPI_WIN_NULL;
        if (MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, near, &memory[i], &wins[i]) != MPI_SUCCESS)
            wrong++;
    }
    int more = in_use() - before;
    if (more >= SPARE)
        wrong += 100;
    for (int i = 0; i < WINDOWS; i++) {
        int value = -1, me;
        if (wins[i] == MPI_WIN_NULL)
            continue;
        MPI_Comm_rank(near, &me);
        MPI_Win_fence(0, wins[i]);
        MPI_Put(&me, 1, MPI_INT, (me + 1) % size, 0, 1, MPI_INT, wins[i]);
        MPI_Win_fence(0, wins[i]);
        MPI_Get(&value, 1, MPI_INT, me, 0, 1, MPI_INT, wins[i]);
        MPI_Win_fence(0, wins[i]);
        if (value != (me + size - 1) % size)
            wrong += 10000;
    }
    for (int i = 0; i < WINDOWS; i++)
        if (wins[i] != MPI_WIN_NULL)
            MPI_Win_free(&wins[i]);
    MPI_Win_free(&first);
    MPI_Comm_free(&near);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("wrong: %d\n", all);
    MPI_Finalize();
    return 0;
}
