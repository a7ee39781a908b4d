/* np: 1 2 4, peers: mpich, peers-np: 4 */
/* What the program asks of a file, and what it may set: sizes, atomic mode, hints. (Open MPI's atomic mode hangs.) */
#include "files.h"

static void questions(void) {
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_Group group;
    MPI_Info info;
    MPI_Offset length;
    MPI_Aint extent;
    int amode, members, flag;
    MPI_File_get_amode(file, &amode);
    check(amode == (MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE), "get_amode");
    MPI_File_get_group(file, &group);
    MPI_Group_size(group, &members);
    check(members == size, "get_group");
    MPI_Group_free(&group);
    MPI_File_set_size(file, 1000);
    MPI_File_get_size(file, &length);
    check(length == 1000, "set_size");
    MPI_File_preallocate(file, 5000);
    MPI_File_get_size(file, &length);
    check(length == 5000, "preallocate");
    MPI_File_preallocate(file, 100);
    MPI_File_set_size(file, 10);
    MPI_File_get_size(file, &length);
    check(length == 10, "set_size cuts");
    MPI_File_get_atomicity(file, &flag);
    check(!flag, "not atomic");
    MPI_File_set_atomicity(file, 1);
    MPI_File_get_atomicity(file, &flag);
    check(flag, "atomic");
    int mine = rank, found = -1;
    MPI_File_write_at(file, rank * 4, &mine, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, (size - 1 - rank) * 4, &found, 1, MPI_INT, MPI_STATUS_IGNORE);
    check(found == size - 1 - rank, "atomic accesses");
    MPI_File_set_atomicity(file, 0);
    MPI_File_sync(file);
    MPI_File_get_type_extent(file, MPI_DOUBLE, &extent);
    check(extent == sizeof(double), "get_type_extent");
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "no_such_hint", "1");
    MPI_File_set_info(file, info);
    MPI_Info_free(&info);
    MPI_File_get_info(file, &info);
    char value[100];
    MPI_Info_get(info, "cb_buffer_size", 99, value, &flag);
    check(flag, "get_info");
    MPI_Info_free(&info);
    MPI_File_close(&file);
    /* Of a part of the ranks. */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    strcat(name, rank % 2 ? ".odd" : ".even");
    file = open_new(half);
    MPI_Comm_rank(half, &mine);
    MPI_File_write_at(file, mine, &mine, 1, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Barrier(half);
    MPI_File_get_size(file, &length);
    MPI_Comm_size(half, &members);
    check(length == members, "files of two groups");
    MPI_File_close(&file);
    MPI_Comm_free(&half);
}

static void append(void) {
    MPI_File file;
    MPI_Offset position;
    /* At the end of what is there. */
    FILE *plain = rank == 0 ? fopen(name, "w") : NULL;
    if (plain) {
        fputs("0123456789", plain);
        fclose(plain);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &file);
    MPI_File_get_position(file, &position);
    MPI_Offset shared;
    MPI_File_get_position_shared(file, &shared);
    check(position == 10 && shared == 10, "append");
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_File_delete(name, MPI_INFO_NULL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    append();
    MPI_Barrier(MPI_COMM_WORLD);
    questions();
    MPI_Finalize();
    return 0;
}
