/* np: 2, peers: no */
/* What is wrong with calls of one-sided communication is said: the class, the function, the argument or the epoch. The other
 * libraries say it of fewer calls, and partly by other classes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

static void expect(const char *what, int code, int expected, const char *function, const char *argument) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &len);
    if (code != expected || !strstr(text, function) || !strstr(text, argument))
        printf("rank %d: %s: %d instead of %d: %s\n", rank, what, code, expected, text);
    else if (rank == 0)
        printf("%s\n", what);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Win win = MPI_WIN_NULL, freed;
    MPI_Request request;
    int *memory, words[40] = {0}, flag, other = 1 - rank, unit;
    MPI_Aint size;
    void *base;
    const int n = 10; /* ints in the window */

    /* No window. */
    expect("put, null window", MPI_Put(words, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_WIN, "MPI_Put", "win");
    expect("get, null window", MPI_Get(words, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_WIN, "MPI_Get", "win");
    expect("fence, null window", MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN, "MPI_Win_fence", "win");
    expect("lock, null window", MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, MPI_WIN_NULL), MPI_ERR_WIN, "MPI_Win_lock", "win");
    expect("free, null window", MPI_Win_free(&win), MPI_ERR_WIN, "MPI_Win_free", "win");
    expect("free, no address", MPI_Win_free(NULL), MPI_ERR_ARG, "MPI_Win_free", "win");

    /* Making one. */
    expect("create, null communicator", MPI_Win_create(words, 4, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM, "MPI_Win_create", "comm");
    expect("create, negative size", MPI_Win_create(words, -4, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_SIZE, "MPI_Win_create", "size");
    expect("create, unit 0", MPI_Win_create(words, 4, 0, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_DISP, "MPI_Win_create", "disp_unit");
    expect("create, null base", MPI_Win_create(NULL, 4, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_BASE, "MPI_Win_create", "base");
    expect("create, no address for the window", MPI_Win_create(words, 4, 1, MPI_INFO_NULL, MPI_COMM_SELF, NULL), MPI_ERR_ARG, "MPI_Win_create", "win");
    expect("allocate, negative size", MPI_Win_allocate(-1, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win), MPI_ERR_SIZE, "MPI_Win_allocate", "size");
    expect("allocate, no address for the base", MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, NULL, &win), MPI_ERR_ARG, "MPI_Win_allocate", "baseptr");
    expect("allocate, more than there is", MPI_Win_allocate((MPI_Aint)1 << 62, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win), MPI_ERR_NO_MEM, "MPI_Win_allocate", "memory");
    expect("allocate, freed info", MPI_Win_allocate(8, 1, (MPI_Info)12345, MPI_COMM_SELF, &base, &win), MPI_ERR_INFO, "MPI_Win_allocate", "info");
    expect("allocate, more than there is at one rank", MPI_Win_allocate(rank == 1 ? (MPI_Aint)1 << 62 : 8, 1, MPI_INFO_NULL, world, &base, &win), MPI_ERR_NO_MEM, "MPI_Win_allocate", "memory");

    MPI_Win_allocate(n * sizeof(int), sizeof(int), MPI_INFO_NULL, world, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);

    /* A count by which the number of bytes overflows: 2^62 + 1 ints at every second place, and at the same place. */
    MPI_Datatype sparse, stacked;
    MPI_Type_create_resized(MPI_INT, 0, 8, &sparse);
    MPI_Type_create_resized(MPI_INT, 0, 0, &stacked);
    MPI_Type_commit(&sparse);
    MPI_Type_commit(&stacked);
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    expect("put, more bytes than there can be, apart", MPI_Put_c(words, 1, MPI_INT, other, 0, ((MPI_Count)1 << 62) + 1, sparse, win), MPI_ERR_COUNT, "MPI_Put_c", "target_count");
    expect("put, more bytes than there can be, at one place", MPI_Put_c(words, 1, MPI_INT, other, 0, ((MPI_Count)1 << 62) + 1, stacked, win), MPI_ERR_COUNT, "MPI_Put_c", "target_count");
    expect("put, more places than there are", MPI_Put_c(words, 1, MPI_INT, other, 0, ((MPI_Count)1 << 60) + 1, sparse, win), MPI_ERR_RMA_RANGE, "MPI_Put_c", "target_disp");
    MPI_Win_unlock(other, win);
    MPI_Type_free(&sparse);
    MPI_Type_free(&stacked);

    /* No epoch, or another one. */
    expect("put, no epoch", MPI_Put(words, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Put", "epoch");
    expect("get, no epoch", MPI_Get(words, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Get", "epoch");
    expect("accumulate, no epoch", MPI_Accumulate(words, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC, "MPI_Accumulate", "epoch");
    expect("unlock, no lock", MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock", "MPI_Win_lock");
    expect("unlock all, no lock", MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock_all", "MPI_Win_lock_all");
    expect("flush, no lock", MPI_Win_flush(other, win), MPI_ERR_RMA_SYNC, "MPI_Win_flush", "lock");
    expect("flush all, no lock", MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC, "MPI_Win_flush_all", "lock");
    expect("flush local, no lock", MPI_Win_flush_local(other, win), MPI_ERR_RMA_SYNC, "MPI_Win_flush_local", "lock");
    expect("complete, no start", MPI_Win_complete(win), MPI_ERR_RMA_SYNC, "MPI_Win_complete", "MPI_Win_start");
    expect("wait, no post", MPI_Win_wait(win), MPI_ERR_RMA_SYNC, "MPI_Win_wait", "MPI_Win_post");
    expect("test, no post", MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC, "MPI_Win_test", "MPI_Win_post");
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    expect("lock twice", MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_lock", "locked the target already");
    expect("lock all in a lock", MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC, "MPI_Win_lock_all", "lock is held");
    expect("fence in a lock", MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC, "MPI_Win_fence", "lock is held");
    expect("start in a lock", MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_start", "lock is held");
    expect("put, another rank is locked", MPI_Put(words, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Put", "epoch");
    expect("free in a lock", MPI_Win_free(&win), MPI_ERR_RMA_SYNC, "MPI_Win_free", "lock is held");
    MPI_Win_unlock(other, win);
    expect("lock, no such kind", MPI_Win_lock(7777, other, 0, win), MPI_ERR_LOCKTYPE, "MPI_Win_lock", "lock_type");
    expect("lock, no such rank", MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win), MPI_ERR_RANK, "MPI_Win_lock", "rank");
    expect("lock, assertion of fences", MPI_Win_lock(MPI_LOCK_SHARED, other, MPI_MODE_NOPRECEDE, win), MPI_ERR_ASSERT, "MPI_Win_lock", "assert");
    expect("fence, unknown assertion", MPI_Win_fence(1 << 28, win), MPI_ERR_ASSERT, "MPI_Win_fence", "assert");
    MPI_Win_start(MPI_GROUP_EMPTY, 0, win);
    expect("start twice", MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_start", "MPI_Win_complete");
    expect("put, not in the group", MPI_Put(words, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Put", "epoch");
    MPI_Win_complete(win);
    MPI_Win_post(MPI_GROUP_EMPTY, 0, win);
    expect("post twice", MPI_Win_post(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC, "MPI_Win_post", "MPI_Win_wait");
    expect("free after post", MPI_Win_free(&win), MPI_ERR_RMA_SYNC, "MPI_Win_free", "MPI_Win_wait");
    MPI_Win_wait(win);
    expect("start, null group", MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP, "MPI_Win_start", "group");
    MPI_Win_fence(0, win);
    expect("put with a request in a fence", MPI_Rput(words, 1, MPI_INT, other, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC, "MPI_Rput", "lock");
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);

    /* Arguments of accesses. */
    MPI_Datatype pair, open;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_INT, MPI_FLOAT}, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_contiguous(2, MPI_INT, &open);
    MPI_Win_lock_all(0, win);
    expect("put, no such rank", MPI_Put(words, 1, MPI_INT, 2, 0, 1, MPI_INT, win), MPI_ERR_RANK, "MPI_Put", "rank");
    expect("put, negative rank", MPI_Put(words, 1, MPI_INT, -9, 0, 1, MPI_INT, win), MPI_ERR_RANK, "MPI_Put", "rank");
    expect("put, negative displacement", MPI_Put(words, 1, MPI_INT, other, -1, 1, MPI_INT, win), MPI_ERR_DISP, "MPI_Put", "target_disp");
    expect("put, behind the end", MPI_Put(words, 1, MPI_INT, other, n, 1, MPI_INT, win), MPI_ERR_RMA_RANGE, "MPI_Put", "target_disp");
    expect("put, over the end", MPI_Put(words, 2, MPI_INT, other, n - 1, 2, MPI_INT, win), MPI_ERR_RMA_RANGE, "MPI_Put", "target_disp");
    expect("get, far behind", MPI_Get(words, 1, MPI_INT, other, (MPI_Aint)1 << 61, 1, MPI_INT, win), MPI_ERR_RMA_RANGE, "MPI_Get", "target_disp");
    expect("accumulate, over the end", MPI_Accumulate(words, 2, MPI_INT, rank, n - 1, 2, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_RANGE, "MPI_Accumulate", "target_disp");
    expect("put, negative count", MPI_Put(words, -1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_COUNT, "MPI_Put", "origin_count");
    expect("put, negative target count", MPI_Put(words, 1, MPI_INT, other, 0, -1, MPI_INT, win), MPI_ERR_COUNT, "MPI_Put", "target_count");
    expect("put, null type", MPI_Put(words, 1, MPI_DATATYPE_NULL, other, 0, 1, MPI_INT, win), MPI_ERR_TYPE, "MPI_Put", "origin_datatype");
    expect("put, null target type", MPI_Put(words, 1, MPI_INT, other, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE, "MPI_Put", "target_datatype");
    expect("get, type not committed", MPI_Get(words, 2, MPI_INT, other, 0, 1, open, win), MPI_ERR_TYPE, "MPI_Get", "target_datatype");
    expect("put, null buffer", MPI_Put(NULL, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_BUFFER, "MPI_Put", "origin_addr");
    expect("get, null buffer", MPI_Get(NULL, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_BUFFER, "MPI_Get", "origin_addr");
    expect("put, other length at the target", MPI_Put(words, 2, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_TRUNCATE, "MPI_Put", "bytes");
    expect("accumulate, operator of the program's", MPI_Accumulate(words, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP, "MPI_Accumulate", "op");
    expect("accumulate, no operation", MPI_Accumulate(words, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP, "MPI_Accumulate", "MPI_NO_OP");
    expect("accumulate, operator for other types", MPI_Accumulate(words, 1, MPI_FLOAT, other, 0, 1, MPI_FLOAT, MPI_BAND, win), MPI_ERR_OP, "MPI_Accumulate", "op");
    expect("accumulate, of several types", MPI_Accumulate(words, 1, pair, other, 0, 1, pair, MPI_SUM, win), MPI_ERR_TYPE, "MPI_Accumulate", "target_datatype");
    expect("accumulate, another type at the origin", MPI_Accumulate(words, 1, MPI_INT, other, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE, "MPI_Accumulate", "type");
    expect("get accumulate, null result", MPI_Get_accumulate(words, 1, MPI_INT, NULL, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER, "MPI_Get_accumulate", "result_addr");
    expect("fetch and op, derived type", MPI_Fetch_and_op(words, words + 20, pair, other, 0, MPI_REPLACE, win), MPI_ERR_TYPE, "MPI_Fetch_and_op", "datatype");
    expect("compare and swap, of floats", MPI_Compare_and_swap(words, words + 1, words + 2, MPI_FLOAT, other, 0, win), MPI_ERR_TYPE, "MPI_Compare_and_swap", "datatype");
    expect("compare and swap, null comparand", MPI_Compare_and_swap(words, NULL, words + 2, MPI_INT, other, 0, win), MPI_ERR_BUFFER, "MPI_Compare_and_swap", "compare_addr");
    expect("get with a request, no address", MPI_Rget(words, 1, MPI_INT, other, 0, 1, MPI_INT, win, NULL), MPI_ERR_ARG, "MPI_Rget", "request");
    expect("put to nobody", MPI_Put(words, 1, MPI_INT, MPI_PROC_NULL, 99, 1, MPI_INT, win), MPI_SUCCESS, "", "");
    MPI_Rput(words, 1, MPI_INT, MPI_PROC_NULL, 99, 1, MPI_INT, win, &request);
    expect("put to nobody with a request", MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "", "");
    MPI_Win_unlock_all(win);

    /* Memory. */
    expect("attach to memory that is there", MPI_Win_attach(win, words, 4), MPI_ERR_RMA_FLAVOR, "MPI_Win_attach", "MPI_Win_create_dynamic");
    expect("shared query, no such rank", MPI_Win_shared_query(win, 5, &size, &unit, &base), MPI_ERR_RANK, "MPI_Win_shared_query", "rank");
    freed = win;
    MPI_Win_free(&win);
    expect("fence, freed window", MPI_Win_fence(0, freed), MPI_ERR_WIN, "MPI_Win_fence", "win");
    expect("put, freed window", MPI_Put(words, 1, MPI_INT, 0, 0, 1, MPI_INT, freed), MPI_ERR_WIN, "MPI_Put", "win");
    expect("free, freed window", MPI_Win_free(&freed), MPI_ERR_WIN, "MPI_Win_free", "win");

    MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int *large = calloc(100000, sizeof(int));
    MPI_Aint at[2] = {0, 0}, theirs[2];
    MPI_Get_address(large, &at[0]);
    MPI_Sendrecv(at, 2, MPI_AINT, other, 0, theirs, 2, MPI_AINT, other, 0, world, MPI_STATUS_IGNORE);
    expect("detach what is not attached", MPI_Win_detach(win, large), MPI_ERR_RMA_ATTACH, "MPI_Win_detach", "base");
    MPI_Win_attach(win, large, 100000 * sizeof(int));
    expect("attach twice", MPI_Win_attach(win, large + 5, 4), MPI_ERR_RMA_ATTACH, "MPI_Win_attach", "base");
    expect("attach, negative size", MPI_Win_attach(win, words, -1), MPI_ERR_SIZE, "MPI_Win_attach", "size");
    expect("shared query of dynamic memory", MPI_Win_shared_query(win, rank, &size, &unit, &base), MPI_ERR_RMA_FLAVOR, "MPI_Win_shared_query", "MPI_Win_create_dynamic");
    MPI_Win_detach(win, large);
    MPI_Barrier(world);
    /* The target has not attached it: the access or the flush says so. What the kernel finds is said only where there is no
     * memory at all, so the address is none. */
    int code, lengths[] = {1, 50000};
    for (int kind = 0; kind < 4; kind++)
        for (int l = 0; l < 2; l++) {
            MPI_Aint nowhere = 64;
            MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
            code = kind == 0   ? MPI_Put(large, lengths[l], MPI_INT, other, nowhere, lengths[l], MPI_INT, win)
                   : kind == 1 ? MPI_Get(large, lengths[l], MPI_INT, other, nowhere, lengths[l], MPI_INT, win)
                   : kind == 2 ? MPI_Accumulate(large, lengths[l], MPI_INT, other, nowhere, lengths[l], MPI_INT, MPI_SUM, win)
                               : MPI_Get_accumulate(large, lengths[l], MPI_INT, large, lengths[l], MPI_INT, other, nowhere, lengths[l], MPI_INT, MPI_SUM, win);
            if (code == MPI_SUCCESS)
                code = MPI_Win_flush(other, win);
            if (code != MPI_ERR_RMA_RANGE)
                printf("access %d of %d ints to memory that is not attached: class %d\n", kind, lengths[l], code);
            code = MPI_Win_unlock(other, win);
            if (code != MPI_SUCCESS)
                printf("an error is told once, not again by unlock: %d\n", code);
        }
    MPI_Win_free(&win);
    expect("freed", win == MPI_WIN_NULL ? MPI_SUCCESS : MPI_ERR_OTHER, MPI_SUCCESS, "", "");
    free(large);
    MPI_Type_free(&pair);
    MPI_Type_free(&open);
    MPI_Finalize();
    return 0;
}
