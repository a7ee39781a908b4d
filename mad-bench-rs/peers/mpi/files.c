/* Writes and reads of two ranks in one file. A sample is the time until both have ended, from a barrier to the end of
 * another one; without the time that they compute, if they do.
 * A: bytes of each rank. B: number of the operation in the list below, and 16 more if the ranks have blocks in turn instead
 * of half of the file each. C: bytes of a block.
 * `iwrite` and `iread` compute COMPUTED microseconds between the call and its wait.
 *
 * The file is in TMPDIR, or in /tmp. All that is written and read is checked. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#define BLOCKS 5
#define BY_HAND "200", "0:65536:0:0", "0:65536:1:0", "0:1048576:0:0", "0:1048576:1:0", "0:1048576:16:1024", "0:1048576:17:1024", \
    "0:1048576:18:1024", "0:1048576:19:1024", "0:1048576:4:0", "0:1048576:5:0"
#include "peer.h"
#include "spin.h"

enum { WRITE, READ, WRITE_ALL, READ_ALL, IWRITE, IREAD, OPERATIONS };
enum { IN_TURN = 16, COMPUTED = 2000 };

static MPI_File file;
static unsigned char *memory;

static unsigned char mark(int of, long turn, long i)
{
    return (unsigned char)(of * 89 + turn * 31 + i * 7 + i / 251);
}

static long count(const struct point *point, long samples)
{
    return by_bytes(samples, point->a);
}

static void may(int code, const char *what)
{
    if (code != MPI_SUCCESS)
        fail(what);
}

static void once(long operation, int bytes)
{
    MPI_Request request;
    switch (operation) {
    case WRITE:
        may(MPI_File_write_at(file, 0, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write_at");
        break;
    case READ:
        may(MPI_File_read_at(file, 0, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
        break;
    case WRITE_ALL:
        may(MPI_File_write_at_all(file, 0, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write_at_all");
        break;
    case READ_ALL:
        may(MPI_File_read_at_all(file, 0, memory, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "read_at_all");
        break;
    case IWRITE:
        may(MPI_File_iwrite_at(file, 0, memory, bytes, MPI_BYTE, &request), "iwrite_at");
        steps(steps_of(COMPUTED));
        may(MPI_Wait(&request, MPI_STATUS_IGNORE), "the wait of iwrite_at");
        break;
    default:
        may(MPI_File_iread_at(file, 0, memory, bytes, MPI_BYTE, &request), "iread_at");
        steps(steps_of(COMPUTED));
        may(MPI_Wait(&request, MPI_STATUS_IGNORE), "the wait of iread_at");
    }
}

static void block(struct point *point, long warm, long n)
{
    static long turn;
    static char name[256];
    const char *folder = getenv("TMPDIR");
    long operation = point->b % IN_TURN, bytes = point->a;
    int reads = operation == READ || operation == READ_ALL || operation == IREAD;
    turn++;
    memory = allocate((size_t)bytes);
    if (rank == 0)
        snprintf(name, sizeof name, "%s/mad-bench-files-%ld", folder ? folder : "/tmp", (long)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    calibrate();
    may(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file),
        "MPI_File_open");
    MPI_Datatype part = MPI_BYTE;
    if (point->b >= IN_TURN) {
        MPI_Datatype row;
        MPI_Type_contiguous((int)point->c, MPI_BYTE, &row);
        MPI_Type_create_resized(row, 0, point->c * ranks, &part);
        MPI_Type_commit(&part);
        MPI_Type_free(&row);
    }
    MPI_Offset begin = rank * (point->b >= IN_TURN ? point->c : bytes);
    may(MPI_File_set_view(file, begin, MPI_BYTE, part, "native", MPI_INFO_NULL), "MPI_File_set_view");
    for (long i = 0; i < bytes; i++)
        memory[i] = mark(rank, turn, i);
    /* The file is in the kernel's cache from here on. */
    once(WRITE, (int)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (reads)
        memset(memory, 0, (size_t)bytes);
    for (long i = 0; i < warm + n; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns();
        once(operation, (int)bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t took = now_ns() - start - (operation >= IWRITE ? COMPUTED * 1000 : 0);
        if (i >= warm)
            sample(&point->series[0], (double)took);
    }
    if (!reads) {
        memset(memory, 0, (size_t)bytes);
        once(READ, (int)bytes);
    }
    for (long i = 0; i < bytes; i++)
        if (memory[i] != mark(rank, turn, i))
            fail("the file holds something else than it should");
    MPI_File_close(&file);
    if (part != MPI_BYTE)
        MPI_Type_free(&part);
    free(memory);
}

static void finish(struct point *point)
{
    emit(point, "access_time", &point->series[0]);
}
