/* np: 2, peers: no */
/* Collectives with requests where functions of the program convert the data: beginning one waits for no other rank, and the
   functions are called inside calls of the program, once for each access. They may ask for the type that they are given,
   also if the program has freed its own handle by then. */
#include "files.h"

enum { N = 3000 };

static int inside, calls, outside;

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra) {
    MPI_Aint lb;
    (void)extra;
    return MPI_Type_get_extent(type, &lb, bytes);
}
/* The file has each int less one. All types here are made of ints. */
static int convert(int *to, const int *from, MPI_Datatype type, int count, int more) {
    int bytes;
    calls++;
    outside += !inside;
    if (MPI_Type_size(type, &bytes) || !bytes || count * (int)sizeof(int) % bytes)
        return MPI_ERR_TYPE;
    for (int i = 0; i < count; i++)
        to[i] = from[i] + more;
    return MPI_SUCCESS;
}
static int to_memory(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    (void)position, (void)extra;
    return convert(memory, file, type, count, 1);
}
static int to_file(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    (void)position, (void)extra;
    return convert(file, memory, type, count, -1);
}

/* The first rank begins, and says so to the other, which begins then. */
static void in_turn(void (*begin_it)(void)) {
    if (rank == 1)
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    inside = 1;
    begin_it();
    inside = 0;
    if (rank == 0)
        MPI_Send(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
}

static MPI_File file;
static MPI_Request request;
static MPI_Status status;
static int out[N], in[N];

static void write_request(void) { MPI_File_iwrite_at_all(file, 0, out, N, MPI_INT, &request); }
static void write_split(void) { MPI_File_write_at_all_begin(file, N, out, N, MPI_INT); }
static void read_request(void) { MPI_File_iread_at_all(file, 0, in, N, MPI_INT, &request); }
static void read_split(void) { MPI_File_read_at_all_begin(file, N, in, N, MPI_INT); }
/* The type is gone before the wait. */
static void read_freed(void) {
    MPI_Datatype all;
    MPI_Type_contiguous(N, MPI_INT, &all);
    MPI_Type_commit(&all);
    MPI_File_iread_at_all(file, 0, in, 1, all, &request);
    MPI_Type_free(&all);
}

static void end_request(void) {
    inside = 1;
    MPI_Wait(&request, &status);
    inside = 0;
}

/* Whether a call has converted all elements, once. */
static int converted(const int *data) {
    int count, right = calls == 1 && !outside;
    MPI_Get_count(&status, MPI_INT, &count);
    for (int i = 0; i < N; i++)
        right &= data[i] == rank * N + i;
    calls = 0;
    memset(in, 0, sizeof in);
    return right && count == N;
}

int main(int argc, char **argv) {
    int over = 0;
    begin(&argc, &argv);
    file = open_new(MPI_COMM_WORLD);
    MPI_Register_datarep("less", to_memory, to_file, extent, NULL);
    for (int i = 0; i < N; i++)
        out[i] = rank * N + i;
    MPI_Datatype blocks, mine;
    MPI_Type_contiguous(10, MPI_INT, &blocks);
    MPI_Type_create_resized(blocks, 0, size * 10 * sizeof(int), &mine);
    MPI_Type_commit(&mine);
    MPI_File_set_view(file, rank * 10 * sizeof(int), MPI_INT, mine, "less", MPI_INFO_NULL);
    in_turn(write_request);
    end_request();
    check(converted(out), "a write with a request");
    in_turn(write_split);
    MPI_File_write_at_all_end(file, out, &status);
    check(converted(out), "a split write");
    in_turn(read_request);
    end_request();
    check(converted(in), "a read with a request");
    in_turn(read_split);
    inside = 1;
    MPI_File_read_at_all_end(file, in, &status);
    inside = 0;
    check(converted(in), "a split read");
    in_turn(read_request);
    inside = 1;
    while (!over)
        MPI_Request_get_status(request, &over, MPI_STATUS_IGNORE);
    end_request();
    check(converted(in), "a read that is asked for its status");
    in_turn(read_freed);
    end_request();
    check(converted(in), "a read whose type is freed");
    MPI_Type_free(&mine);
    MPI_Type_free(&blocks);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
