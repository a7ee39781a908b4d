/* np: 4, peers: no */
/* Reductions of REAL*16, COMPLEX*32 and INTEGER*16 are those of the compiler's own arithmetic, bit for bit. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define COUNT 2000
typedef __float128 quad;
typedef _Complex float __attribute__((mode(TC))) pair;

static int rank, size;

/* Numbers of all sizes, some of them special. */
static quad number(int who, int index) {
    unsigned __int128 bits = (unsigned __int128)(who + 1) * 0x9e3779b97f4a7c15u * (index + 7);
    bits ^= bits << 61 ^ (unsigned __int128)index << 90;
    bits *= 0xbf58476d1ce4e5b9u;
    quad value;
    switch (index % 5) {
    case 0: /* near one */
        bits = (bits >> 16) | (unsigned __int128)(16383 + index % 3) << 112;
        break;
    case 1: /* subnormal, or nearly */
        bits = (bits >> 20) | (unsigned __int128)(index % 3) << 112;
        break;
    default: /* of any exponent that does not overflow at once */
        bits = (bits & ~((unsigned __int128)0x7fff << 112)) | (unsigned __int128)(12000 + (index * 37) % 8000) << 112;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void say(const char *what, const void *found, const void *expected, size_t len) {
    int wrong = memcmp(found, expected, len) != 0, any;
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", what, any ? "differs" : "as the compiler's");
}

static quad own[COUNT], out[COUNT], want[COUNT];
static pair cown[COUNT], cout[COUNT], cwant[COUNT];
static __int128 iown[COUNT], iout[COUNT], iwant[COUNT];

int main(int argc, char **argv) {
    MPI_Op ops[4] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
    const char *names[4] = {"sum", "product", "minimum", "maximum"};
    int length, real, complex;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_size(MPI_REAL16, &real);
    MPI_Type_size(MPI_COMPLEX32, &complex);
    if (rank == 0)
        printf("sizes: %d %d\n", real, complex);
    for (int op = 0; op < 4; op++) {
        for (int i = 0; i < COUNT; i++)
            own[i] = number(rank, i);
        /* A scan has one order of operations only. */
        MPI_Scan(own, out, COUNT, MPI_REAL16, ops[op], MPI_COMM_WORLD);
        if (rank > 1)
            memcpy(want, out, sizeof want); /* of three numbers there are two orders */
        else
            for (int i = 0; i < COUNT; i++) {
                quad a = number(0, i), b = number(1, i);
                quad two = op == 0 ? a + b : op == 1 ? a * b : op == 2 ? (a < b ? a : b) : a > b ? a : b;
                want[i] = rank == 0 ? a : two;
            }
        say(names[op], out, want, sizeof want);
    }
    for (int op = 0; op < 2; op++) {
        for (int i = 0; i < COUNT; i++)
            __real__ cown[i] = number(rank, 5 * i), __imag__ cown[i] = number(rank + 4, 5 * i);
        MPI_Scan(cown, cout, COUNT, MPI_COMPLEX32, ops[op], MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++) {
            quad a = number(0, 5 * i), b = number(4, 5 * i), c = number(1, 5 * i), d = number(5, 5 * i);
            cwant[i] = cout[i];
            if (rank == 0)
                __real__ cwant[i] = a, __imag__ cwant[i] = b;
            else if (rank == 1 && op == 0)
                __real__ cwant[i] = a + c, __imag__ cwant[i] = b + d;
            else if (rank == 1)
                __real__ cwant[i] = a * c - b * d, __imag__ cwant[i] = a * d + b * c;
        }
        say(op ? "complex product" : "complex sum", cout, cwant, sizeof cwant);
    }
    for (int i = 0; i < COUNT; i++) {
        iown[i] = ((__int128)(i + rank) << 70) - i;
        iwant[i] = ((__int128)(size * i + size * (size - 1) / 2) << 70) - size * i;
    }
    MPI_Allreduce(iown, iout, COUNT, MPI_INTEGER16, MPI_SUM, MPI_COMM_WORLD);
    say("integer sum", iout, iwant, sizeof iwant);
    /* All of them: the sum of small integers has one value, whatever the order. */
    for (int i = 0; i < COUNT; i++)
        own[i] = i + rank, want[i] = size * i + size * (size - 1) / 2;
    MPI_Allreduce(own, out, COUNT, MPI_REAL16, MPI_SUM, MPI_COMM_WORLD);
    say("sum of all", out, want, sizeof want);
    /* Big-endian in external32, and back. */
    char packed[16];
    MPI_Aint place = 0;
    MPI_Pack_external("external32", own, 1, MPI_REAL16, packed, 16, &place);
    length = (int)place;
    for (int i = 0; i < 8; i++) {
        char byte = packed[i];
        packed[i] = packed[15 - i], packed[15 - i] = byte;
    }
    if (length != 16)
        packed[0] ^= 1;
    say("external32", packed, own, 16);
    MPI_Finalize();
    return 0;
}
