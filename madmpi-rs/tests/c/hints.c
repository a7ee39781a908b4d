/* np: 2, peers: no */
/* Hints that are in force: what MPI_Comm_get_info says, and what a program that breaks its promise is told. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void show(const char *what, MPI_Comm comm) {
    const char *names[3] = {"mpi_assert_no_any_source", "mpi_assert_no_any_tag", "mpi_assert_exact_length"};
    MPI_Info info;
    MPI_Comm_get_info(comm, &info);
    if (rank == 0) {
        printf("%s:", what);
        for (int i = 0; i < 3; i++) {
            char value[16] = "-";
            int flag, len = sizeof value;
            MPI_Info_get_string(info, names[i], &len, value, &flag);
            printf(" %s", flag ? value : "-");
        }
        printf("\n");
    }
    MPI_Info_free(&info);
}

static void told(const char *what, int code) {
    int class;
    MPI_Error_class(code, &class);
    if (rank == 0)
        printf("%s: %s\n", what, class == MPI_SUCCESS ? "fine" : class == MPI_ERR_TAG ? "tag" : class == MPI_ERR_RANK ? "rank" : "else");
}

int main(int argc, char **argv) {
    MPI_Info info;
    MPI_Comm comm, dup;
    MPI_Request request;
    int flag, value = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    show("world", MPI_COMM_WORLD);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_source", "true");
    MPI_Info_set(info, "mpi_assert_exact_length", "true");
    MPI_Info_set(info, "mpi_assert_no_any_tag", "perhaps");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    show("made with a hint", comm);
    MPI_Comm_dup(comm, &dup);
    show("its duplicate", dup);
    MPI_Comm_free(&dup);
    told("any source", MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, &request));
    told("probe", MPI_Iprobe(MPI_ANY_SOURCE, 0, comm, &flag, MPI_STATUS_IGNORE));
    told("any tag", MPI_Iprobe(0, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
    MPI_Info_set(info, "mpi_assert_no_any_source", "false");
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_set_info(comm, info);
    show("changed", comm);
    told("any source", MPI_Iprobe(MPI_ANY_SOURCE, 0, comm, &flag, MPI_STATUS_IGNORE));
    told("any tag", MPI_Recv(&value, 1, MPI_INT, 1 - rank, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
    told("neither", MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 3, &value, 1, MPI_INT, 1 - rank, 3, comm, MPI_STATUS_IGNORE));
    MPI_Comm_free(&comm);
    MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &comm, &request);
    MPI_Info_free(&info);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    show("made in the background, of an info object that is gone", comm);
    told("any tag", MPI_Iprobe(0, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
    MPI_Comm_idup(comm, &dup, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    show("its duplicate", dup);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&comm);
    MPI_Group world, one, other;
    int there = 1 - rank;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &rank, &one);
    MPI_Group_incl(world, 1, &there, &other);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_source", "true");
    MPI_Intercomm_create_from_groups(one, 0, other, 0, "hints", info, MPI_ERRORS_RETURN, &comm);
    MPI_Info_free(&info);
    show("made of two groups", comm);
    told("any source", MPI_Iprobe(MPI_ANY_SOURCE, 0, comm, &flag, MPI_STATUS_IGNORE));
    MPI_Comm_free(&comm);
    MPI_Group_free(&world);
    MPI_Group_free(&one);
    MPI_Group_free(&other);
    MPI_Finalize();
    return 0;
}
