/* np: 1 2 3 4, peers-np: 4 */
/* Accumulations: every predefined operator on every type that it takes, against MPI_Reduce_local; what they fetch; derived
 * datatypes; and that they are atomic while all ranks update the same elements. */
#include <mpi.h>
#include <complex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define N 7
#define MANY 3000
#define TURNS 300

enum { INTEGER = 1, FLOATING = 2, COMPLEX = 4, LOGICAL = 8, BYTE = 16, PAIR = 32, MULTI = 64 };

struct float_int { float v; int i; };
struct double_int { double v; int i; };
struct long_int { long v; int i; };
struct short_int { short v; int i; };
struct two_int { int v, i; };

/* Element `i` of rank `who`: small, so that no sum and no product is rounded or overflows. */
#define SET(type) { type v = (type)(1 + (who * 3 + i) % 3); memcpy(at, &v, sizeof v); break; }
#define SET_PAIR(type) { struct type v; memset(&v, 0, sizeof v); v.v = (who * 5 + i) % 4; v.i = who; memcpy(at, &v, sizeof v); break; }
enum kind { SCHAR, UCHAR, SHORT, USHORT, INT, UINT, LONG, ULONG, LLONG, ULLONG, I8, U16, I32, U64, AINT, OFFSET, COUNT, FLOAT,
            DOUBLE, LDOUBLE, BOOL, CFLOAT, CDOUBLE, RAW, FLOAT_INT, DOUBLE_INT, LONG_INT, SHORT_INT, TWO_INT, KINDS };

static void set(enum kind kind, void *at, int who, int i) {
    switch (kind) {
    case SCHAR: case I8: SET(signed char)
    case UCHAR: case RAW: SET(unsigned char)
    case SHORT: SET(short)
    case USHORT: case U16: SET(unsigned short)
    case INT: case I32: SET(int)
    case UINT: SET(unsigned)
    case LONG: SET(long)
    case ULONG: case U64: SET(unsigned long)
    case LLONG: SET(long long)
    case ULLONG: SET(unsigned long long)
    case AINT: SET(MPI_Aint)
    case OFFSET: SET(MPI_Offset)
    case COUNT: SET(MPI_Count)
    case FLOAT: SET(float)
    case DOUBLE: SET(double)
    case LDOUBLE: { long double v = 1 + (who * 3 + i) % 3; memset(at, 0, sizeof v); memcpy(at, &v, 10); break; }
    case BOOL: { bool v = (who + i) % 2; memcpy(at, &v, sizeof v); break; }
    case CFLOAT: SET(float complex)
    case CDOUBLE: SET(double complex)
    case FLOAT_INT: SET_PAIR(float_int)
    case DOUBLE_INT: SET_PAIR(double_int)
    case LONG_INT: SET_PAIR(long_int)
    case SHORT_INT: SET_PAIR(short_int)
    case TWO_INT: SET_PAIR(two_int)
    case KINDS: break;
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const struct { MPI_Datatype type; int class; const char *name; } types[KINDS] = {
        {MPI_SIGNED_CHAR, INTEGER, "signed char"}, {MPI_UNSIGNED_CHAR, INTEGER, "unsigned char"}, {MPI_SHORT, INTEGER, "short"},
        {MPI_UNSIGNED_SHORT, INTEGER, "unsigned short"}, {MPI_INT, INTEGER, "int"}, {MPI_UNSIGNED, INTEGER, "unsigned"},
        {MPI_LONG, INTEGER, "long"}, {MPI_UNSIGNED_LONG, INTEGER, "unsigned long"}, {MPI_LONG_LONG, INTEGER, "long long"},
        {MPI_UNSIGNED_LONG_LONG, INTEGER, "unsigned long long"}, {MPI_INT8_T, INTEGER, "int8"}, {MPI_UINT16_T, INTEGER, "uint16"},
        {MPI_INT32_T, INTEGER, "int32"}, {MPI_UINT64_T, INTEGER, "uint64"}, {MPI_AINT, MULTI, "MPI_Aint"},
        {MPI_OFFSET, MULTI, "MPI_Offset"}, {MPI_COUNT, MULTI, "MPI_Count"}, {MPI_FLOAT, FLOATING, "float"},
        {MPI_DOUBLE, FLOATING, "double"}, {MPI_LONG_DOUBLE, FLOATING, "long double"}, {MPI_C_BOOL, LOGICAL, "bool"},
        {MPI_C_FLOAT_COMPLEX, COMPLEX, "float complex"}, {MPI_C_DOUBLE_COMPLEX, COMPLEX, "double complex"}, {MPI_BYTE, BYTE, "byte"},
        {MPI_FLOAT_INT, PAIR, "float and int"}, {MPI_DOUBLE_INT, PAIR, "double and int"}, {MPI_LONG_INT, PAIR, "long and int"},
        {MPI_SHORT_INT, PAIR, "short and int"}, {MPI_2INT, PAIR, "two ints"}};
    const struct { MPI_Op op; int classes; const char *name; } ops[] = {
        {MPI_SUM, INTEGER | MULTI | FLOATING | COMPLEX, "sum"}, {MPI_PROD, INTEGER | MULTI | FLOATING | COMPLEX, "product"},
        {MPI_MIN, INTEGER | MULTI | FLOATING, "minimum"}, {MPI_MAX, INTEGER | MULTI | FLOATING, "maximum"}, {MPI_LAND, INTEGER | LOGICAL, "and"},
        {MPI_LOR, INTEGER | LOGICAL, "or"}, {MPI_LXOR, INTEGER | LOGICAL, "exclusive or"}, {MPI_BAND, INTEGER | MULTI | BYTE, "bitwise and"},
        {MPI_BOR, INTEGER | MULTI | BYTE, "bitwise or"}, {MPI_BXOR, INTEGER | MULTI | BYTE, "bitwise exclusive or"},
        {MPI_MINLOC, PAIR, "minimum with place"}, {MPI_MAXLOC, PAIR, "maximum with place"},
        {MPI_REPLACE, 127, "replace"}, {MPI_NO_OP, 127, "no operation"}};
    char *memory, mine[N * 32], old[N * 32], want[N * 32], other[N * 32];
    MPI_Win win;
    MPI_Win_allocate(N * 32, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    int last = size - 1;
    for (int o = 0; o < (int)(sizeof ops / sizeof *ops); o++) {
        for (int t = 0; t < KINDS; t++) {
            if (!(ops[o].classes & types[t].class))
                continue;
            char label[100];
            MPI_Aint low, extent;
            MPI_Type_get_extent(types[t].type, &low, &extent);
            sprintf(label, "%s of %s", ops[o].name, types[t].name);
            memset(mine, 0, sizeof mine), memset(want, 0, sizeof want), memset(old, 0, sizeof old);
            for (int i = 0; i < N; i++)
                set(t, mine + i * extent, rank, i), set(t, want + i * extent, size, i);
            /* To all ranks at once. */
            MPI_Win_fence(0, win);
            memset(memory, 0, N * 32);
            memcpy(memory, want, N * extent);
            MPI_Win_fence(0, win);
            for (int to = 0; to < size; to++)
                if (ops[o].op != MPI_NO_OP && (ops[o].op != MPI_REPLACE || rank == last))
                    MPI_Accumulate(mine, N, types[t].type, to, 0, N, types[t].type, ops[o].op, win);
            MPI_Win_fence(0, win);
            for (int who = 0; who < size; who++) {
                memset(other, 0, sizeof other);
                for (int i = 0; i < N; i++)
                    set(t, other + i * extent, who, i);
                if (ops[o].op == MPI_REPLACE)
                    memcpy(want, other, N * extent);
                else if (ops[o].op != MPI_NO_OP)
                    MPI_Reduce_local(other, want, N, types[t].type, ops[o].op);
            }
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
            expect(!memcmp(memory, want, N * extent), label);
            MPI_Win_unlock(rank, win);
            MPI_Barrier(MPI_COMM_WORLD);
            /* One after the other: what was there before, and what is there then. */
            int next = (rank + 1) % size, before = (rank + last) % size;
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
            MPI_Get_accumulate(mine, N, types[t].type, old, N, types[t].type, next, 0, N, types[t].type, ops[o].op, win);
            MPI_Win_unlock(next, win);
            expect(!memcmp(old, want, N * extent), label);
            MPI_Barrier(MPI_COMM_WORLD);
            memset(other, 0, sizeof other);
            for (int i = 0; i < N; i++)
                set(t, other + i * extent, before, i);
            if (ops[o].op == MPI_REPLACE)
                memcpy(want, other, N * extent);
            else if (ops[o].op != MPI_NO_OP)
                MPI_Reduce_local(other, want, N, types[t].type, ops[o].op);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
            MPI_Fetch_and_op(mine, old, types[t].type, rank, 0, ops[o].op, win);
            MPI_Win_unlock(rank, win);
            expect(!memcmp(old, want, extent), label);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        report(ops[o].name);
    }
    MPI_Win_free(&win);

    /* All ranks update rank 0's elements, rank 0 too. */
    long *longs, one = 1, *seen = calloc(size * TURNS, sizeof(long)), *ones = malloc(2 * MANY * sizeof(long));
    MPI_Datatype every_second;
    MPI_Type_vector(MANY, 1, 2, MPI_LONG, &every_second);
    MPI_Type_commit(&every_second);
    for (int i = 0; i < 2 * MANY; i++)
        ones[i] = 1;
    for (int form = 0; form < 2; form++) {
        MPI_Aint bytes = 2 * MANY * sizeof(long);
        if (form == 0) {
            MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &longs, &win);
        } else {
            longs = malloc(bytes);
            MPI_Win_create(longs, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        memset(longs, 0, bytes);
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(seen, 0, size * TURNS * sizeof(long));
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < TURNS; i++) {
            long before;
            MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 3, MPI_SUM, win);
            MPI_Win_flush(0, win);
            expect(before >= 0 && before < size * TURNS, "a counter");
            if (before >= 0 && before < size * TURNS)
                seen[before]++;
        }
        MPI_Win_unlock_all(win);
        MPI_Allreduce(MPI_IN_PLACE, seen, size * TURNS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < size * TURNS; i++)
            expect(seen[i] == 1, "each count is fetched once");
        MPI_Barrier(MPI_COMM_WORLD);
        report("fetch and op by all");
        MPI_Win_fence(0, win);
        memset(longs, 0, rank == 0 ? bytes : 0);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 10; i++) {
            MPI_Accumulate(ones, 2 * MANY, MPI_LONG, 0, 0, 2 * MANY, MPI_LONG, MPI_SUM, win);
            MPI_Accumulate(ones, MANY, MPI_LONG, 0, 0, 1, every_second, MPI_SUM, win);
            MPI_Accumulate(ones, 1, every_second, 0, 0, MANY, MPI_LONG, MPI_SUM, win);
        }
        MPI_Win_fence(0, win);
        for (int i = 0; i < 2 * MANY && rank == 0; i++)
            expect(longs[i] == 10 * size * (1 + (i % 2 == 0) + (i < MANY)), "a sum");
        report("long and derived accumulations by all");
        MPI_Win_fence(0, win);
        if (rank == 0)
            longs[0] = 0;
        MPI_Win_fence(0, win);
        MPI_Win_lock_all(0, win);
        for (int won = 0; won < 50;) {
            int now, then, found;
            MPI_Fetch_and_op(NULL, &now, MPI_INT, 0, 0, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
            then = now + 1;
            MPI_Compare_and_swap(&then, &now, &found, MPI_INT, 0, 0, win); /* with longs Open MPI 4.1.4 crashes */
            MPI_Win_flush(0, win);
            won += found == now;
        }
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        int now;
        MPI_Get(&now, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
        expect(now == 50 * size, "as many swaps as were won");
        report("compare and swap by all");
        MPI_Win_free(&win);
        if (form == 1)
            free(longs);
    }
    MPI_Type_free(&every_second);
    free(seen), free(ones);
    MPI_Finalize();
    return 0;
}
