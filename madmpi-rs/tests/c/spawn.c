/* np: 2, peers: no */
/* Processes start others: of this very program, which says what it is by its arguments. "no-hints": the launcher takes
   none where it starts several programs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); fflush(stdout); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static MPI_Errhandler handler_of(MPI_Comm comm) {
    MPI_Errhandler handler, predefined;
    MPI_Comm_get_errhandler(comm, &handler);
    predefined = handler;
    MPI_Errhandler_free(&handler);
    return predefined;
}

static void child(int argc, char **argv, MPI_Comm parent) {
    int rank, size, n, theirs, sum, *number, flag;
    MPI_Comm all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc >= 2);
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm_get_name(parent, name, &n);
    CHECK(!strcmp(name, "MPI_COMM_PARENT") && n == (int)strlen(name));
    MPI_Comm_remote_size(parent, &n);
    if (!strcmp(argv[1], "plain")) {
        CHECK(argc == 4 && !strcmp(argv[2], "two words") && !strcmp(argv[3], ""));
        CHECK(size == 3 && n == 2);
        MPI_Recv(&theirs, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
        CHECK(theirs == 100 + rank);
        theirs += 1000;
        MPI_Send(&theirs, 1, MPI_INT, 1, 2, parent);
        MPI_Intercomm_merge(parent, 1, &all);
        MPI_Comm_rank(all, &n);
        CHECK(n == 2 + rank);
        MPI_Allreduce(&n, &sum, 1, MPI_INT, MPI_SUM, all);
        CHECK(sum == 10);
        MPI_Comm_disconnect(&all);
    } else if (!strcmp(argv[1], "folder") || !strcmp(argv[1], "first")) {
        char here[1000];
        CHECK(getcwd(here, sizeof here) && (!strcmp(here, "/") || !strcmp(argv[1], "first")));
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
        CHECK(flag && *number == 0 && size == 3 && rank == 0);
    } else {
        CHECK(!strcmp(argv[1], "second") && argc == 2);
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
        CHECK(flag && *number == 1 && size == 3 && rank > 0);
    }
    MPI_Bcast(&n, 1, MPI_INT, 0, parent);
    CHECK(n == 42);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    MPI_Finalize();
    exit(0);
}

int main(int argc, char **argv) {
    char *words[] = {"plain", "two words", "", NULL}, *folder[] = {"folder", NULL}, *second[] = {"second", NULL};
    char **lists[] = {folder, second}, *programs[2], path[4096];
    int rank, size, i, n, sum, codes[3] = {-1, -1, -1}, counts[] = {1, 2}, *number, flag;
    int hints = argc < 2 || strcmp(argv[1], "no-hints");
    MPI_Comm parent, children, all, single;
    MPI_Info info, infos[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        child(argc, argv, parent);
    if (!hints)
        folder[0] = "first";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(realpath(argv[0], path));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &number, &flag);
    CHECK(!flag || *number >= 1);

    /* All of a communicator start three. */
    MPI_Comm_spawn(path, words, 3, MPI_INFO_NULL, 1, MPI_COMM_WORLD, &children, codes);
    for (i = 0; i < 3; i++)
        CHECK(codes[i] == MPI_SUCCESS);
    MPI_Comm_remote_size(children, &n);
    CHECK(n == 3 && handler_of(children) == MPI_ERRORS_ARE_FATAL);
    for (i = 0; i < 3; i++) {
        n = 100 + i;
        if (rank == 0)
            MPI_Send(&n, 1, MPI_INT, i, 1, children);
        else {
            MPI_Recv(&n, 1, MPI_INT, i, 2, children, MPI_STATUS_IGNORE);
            CHECK(n == 1100 + i);
        }
    }
    MPI_Intercomm_merge(children, 0, &all);
    MPI_Comm_rank(all, &n);
    CHECK(n == rank);
    MPI_Allreduce(&n, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == 10);
    MPI_Comm_disconnect(&all);
    n = 42;
    MPI_Bcast(&n, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    MPI_Comm_disconnect(&children);

    /* One process alone starts two programs. */
    if (rank == 0) {
        programs[0] = programs[1] = path;
        MPI_Info_create(&info);
        MPI_Info_set(info, "wdir", "/");
        /* One of up to three: there is a code for each of these. */
        MPI_Info_set(info, "soft", "1");
        int most[] = {-1, -1, -1, -1, -1, -1};
        counts[0] = hints ? 3 : 1;
        infos[0] = hints ? info : MPI_INFO_NULL;
        infos[1] = MPI_INFO_NULL;
        MPI_Comm_dup(MPI_COMM_SELF, &single);
        MPI_Comm_set_errhandler(single, MPI_ERRORS_RETURN);
        MPI_Comm_spawn_multiple(2, programs, lists, counts, infos, 0, single, &children, most);
        for (i = 0; i < counts[0] + 2; i++)
            CHECK(most[i] == (i > 0 && i < counts[0] ? MPI_ERR_SPAWN : MPI_SUCCESS));
        CHECK(most[i] == -1);
        MPI_Comm_remote_size(children, &n);
        CHECK(n == 3 && handler_of(children) == MPI_ERRORS_RETURN);
        n = 42;
        MPI_Bcast(&n, 1, MPI_INT, MPI_ROOT, children);
        MPI_Comm_disconnect(&children);
        MPI_Comm_free(&single);
        MPI_Info_free(&info);
        printf("started and ended\n");
    }
    MPI_Finalize();
    return 0;
}
