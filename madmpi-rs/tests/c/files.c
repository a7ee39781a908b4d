/* np: 1 2 4, peers-np: 4 */
/* Files: opening and closing, explicit offsets, own pointers, views, sizes, and what the program asks of a file. */
#include "files.h"

#define N 1000

static int count_of(MPI_Status *status, MPI_Datatype type) {
    int count;
    MPI_Get_count(status, type, &count);
    return count;
}

static void offsets(void) {
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_Status status;
    int out[N], in[N], ok = 1;
    for (int i = 0; i < N; i++)
        out[i] = rank * N + i;
    MPI_File_write_at(file, (MPI_Offset)rank * sizeof out, out, N, MPI_INT, &status);
    check(count_of(&status, MPI_INT) == N, "write_at");
    MPI_Barrier(MPI_COMM_WORLD);
    int other = (rank + 1) % size;
    memset(in, -1, sizeof in);
    MPI_File_read_at(file, (MPI_Offset)other * sizeof in, in, N, MPI_INT, &status);
    for (int i = 0; i < N; i++)
        ok &= in[i] == other * N + i;
    check(ok && count_of(&status, MPI_INT) == N, "read_at");
    MPI_Offset length, position;
    MPI_File_get_size(file, &length);
    check(length == (MPI_Offset)size * sizeof out, "get_size");
    /* Beyond the end: as much as there is. */
    MPI_File_read_at(file, length - 8, in, N, MPI_INT, &status);
    check(count_of(&status, MPI_INT) == 2 && in[1] == size * N - 1, "a read over the end");
    MPI_File_read_at(file, length, in, N, MPI_INT, &status);
    check(count_of(&status, MPI_INT) == 0, "a read at the end");
    MPI_File_get_position(file, &position);
    check(position == 0, "explicit offsets move no pointer");
    MPI_File_close(&file);
    check(file == MPI_FILE_NULL, "close");
    check(access(name, F_OK) != 0, "delete on close");
}

static void pointers(void) {
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_Status status;
    MPI_Offset position;
    double out[N], in[N];
    int ok = 1;
    MPI_File_set_view(file, (MPI_Offset)rank * 3 * sizeof out, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
    for (int i = 0; i < N; i++)
        out[i] = rank + i / 7.0;
    MPI_File_write(file, out, N, MPI_DOUBLE, &status);
    MPI_File_write(file, out, N, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_get_position(file, &position);
    check(position == 2 * N, "write moves the pointer");
    MPI_File_seek(file, -N, MPI_SEEK_CUR);
    MPI_File_read(file, in, N, MPI_DOUBLE, &status);
    for (int i = 0; i < N; i++)
        ok &= in[i] == out[i];
    check(ok && count_of(&status, MPI_DOUBLE) == N, "seek and read");
    MPI_File_seek(file, 5, MPI_SEEK_SET);
    MPI_File_read(file, in, 1, MPI_DOUBLE, &status);
    MPI_File_get_position(file, &position);
    check(in[0] == out[5] && position == 6, "seek to a place");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek(file, -1, MPI_SEEK_END);
    MPI_File_get_position(file, &position);
    check(position == (size - 1 - rank) * 3 * N + 2 * N - 1, "seek from the end");
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_get_position(file, &position);
    check(position == 0, "a view begins at its beginning");
    MPI_File_close(&file);
    file = open_new(MPI_COMM_WORLD);
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_File_delete(name, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    check(access(name, F_OK) != 0, "delete");
}

static void views(void) {
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_Datatype blocks, mine, etype, memory;
    MPI_Status status;
    MPI_Offset disp, place;
    int out[N], in[N], ok = 1;
    char rep[MPI_MAX_DATAREP_STRING];
    /* Blocks of 5 ints, those of each rank in turn. */
    MPI_Type_contiguous(5, MPI_INT, &blocks);
    MPI_Type_create_resized(blocks, 0, size * 5 * sizeof(int), &mine);
    MPI_Type_commit(&mine);
    MPI_File_set_view(file, 16 + rank * 5 * sizeof(int), MPI_INT, mine, "native", MPI_INFO_NULL);
    for (int i = 0; i < N; i++)
        out[i] = rank * N + i;
    MPI_File_write_at(file, 0, out, N, MPI_INT, &status);
    check(count_of(&status, MPI_INT) == N, "write through a view");
    MPI_File_get_byte_offset(file, 7, &place);
    check(place == 16 + rank * 20 + size * 20 + 8, "get_byte_offset");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, 3, in, N - 3, MPI_INT, &status);
    for (int i = 3; i < N; i++)
        ok &= in[i - 3] == out[i];
    check(ok && count_of(&status, MPI_INT) == N - 3, "read through a view");
    MPI_File_get_view(file, &disp, &etype, &memory, rep);
    MPI_Aint lower, extent;
    int bytes;
    MPI_Type_get_extent(memory, &lower, &extent);
    MPI_Type_size(memory, &bytes);
    check(disp == 16 + rank * 20 && etype == MPI_INT && bytes == 20 && extent == size * 20 && !strcmp(rep, "native"), "get_view");
    MPI_Type_free(&memory);
    /* The whole file: everything is where it belongs. */
    MPI_File_set_view(file, 16, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    ok = 1;
    for (int i = 0; i < size * N; i++) {
        int found, block = i / 5;
        if (i % 97 && i > 10)
            continue;
        MPI_File_read_at(file, i, &found, 1, MPI_INT, &status);
        ok &= found == block % size * N + block / size * 5 + i % 5;
    }
    check(ok, "blocks in turn");
    MPI_Barrier(MPI_COMM_WORLD);
    /* Every other double of memory. */
    double pairs[2 * N], back[2 * N];
    MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &memory);
    MPI_Type_commit(&memory);
    for (int i = 0; i < 2 * N; i++)
        pairs[i] = rank + i, back[i] = -1;
    MPI_File_set_view(file, (MPI_Offset)rank * N * sizeof(double), MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
    MPI_File_write_at(file, 0, pairs, 1, memory, &status);
    check(count_of(&status, memory) == 1 && count_of(&status, MPI_DOUBLE) == N, "scattered memory");
    MPI_File_read_at(file, 0, back, 1, memory, &status);
    ok = 1;
    for (int i = 0; i < 2 * N; i++)
        ok &= back[i] == (i % 2 ? -1 : pairs[i]);
    check(ok, "scattered memory comes back");
    MPI_Type_free(&memory);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Rows of a matrix of which each rank has some columns. */
    int whole[2] = {20, 6 * size}, part[2] = {20, 6}, at[2] = {0, 6 * rank};
    MPI_Type_create_subarray(2, whole, part, at, MPI_ORDER_C, MPI_INT, &memory);
    MPI_Type_commit(&memory);
    MPI_File_set_view(file, 0, MPI_INT, memory, "native", MPI_INFO_NULL);
    MPI_File_write(file, out, 120, MPI_INT, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    ok = 1;
    for (int row = 0; row < 20; row++) {
        MPI_File_read_at(file, row * 6 * size, in, 6 * size, MPI_INT, &status);
        for (int column = 0; column < 6 * size; column++)
            ok &= in[column] == column / 6 * N + row * 6 + column % 6;
    }
    check(ok, "columns of a matrix");
    MPI_File_close(&file);
    MPI_Type_free(&memory);
    MPI_Type_free(&mine);
    MPI_Type_free(&blocks);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    offsets();
    pointers();
    views();
    MPI_Finalize();
    return 0;
}
