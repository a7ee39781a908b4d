/* np: 1 2 4, peers-np: 4 */
/* Accesses of random shape, by every kind of call, compared byte by byte with a picture of the file. */
#include "files.h"

#define UNITS 4000
static unsigned seed;
static int draw(int n) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % n;
}

/* The same at all ranks: the tile has blocks of random lengths, of which each belongs to a random rank or to none. */
static int lengths[64], places[64], owners[64], blocks, tile;
static MPI_Datatype type_of(int owner) {
    MPI_Datatype part, type;
    int n = 0, len[64], at[64];
    for (int b = 0; b < blocks; b++)
        if (owners[b] == owner)
            len[n] = lengths[b], at[n] = places[b], n++;
    MPI_Type_indexed(n, len, at, MPI_SHORT, &part);
    MPI_Type_create_resized(part, 0, tile * sizeof(short), &type);
    MPI_Type_free(&part);
    MPI_Type_commit(&type);
    return type;
}

/* The place in the file of element i of an owner's view; -1: the view has none. */
static int place_of(int owner, int i) {
    int each = 0;
    for (int b = 0; b < blocks; b++)
        each += owners[b] == owner ? lengths[b] : 0;
    if (!each)
        return -1;
    int rest = i % each;
    for (int b = 0; b < blocks; b++) {
        if (owners[b] != owner)
            continue;
        if (rest < lengths[b])
            return i / each * tile + places[b] + rest;
        rest -= lengths[b];
    }
    return -1;
}

static const char *kinds[] = {"at", "at_all", "own", "all", "iat", "iat_all", "iown", "iall", "at_all split", "all split"};
enum { AT, AT_ALL, OWN, ALL, IAT, IAT_ALL, IOWN, IALL, SPLIT_AT, SPLIT, KINDS };

static void move(MPI_File file, int kind, int write, int offset, short *memory, int count, MPI_Datatype type, MPI_Status *status) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (kind == OWN || kind == ALL || kind == IOWN || kind == IALL || kind == SPLIT)
        MPI_File_seek(file, offset, MPI_SEEK_SET);
#define CALL(name, ...) (write ? MPI_File_write##name(__VA_ARGS__) : MPI_File_read##name(__VA_ARGS__))
#define ICALL(name, ...) (write ? MPI_File_iwrite##name(__VA_ARGS__) : MPI_File_iread##name(__VA_ARGS__))
    switch (kind) {
    case AT: CALL(_at, file, offset, memory, count, type, status); break;
    case AT_ALL: CALL(_at_all, file, offset, memory, count, type, status); break;
    case OWN: CALL(, file, memory, count, type, status); break;
    case ALL: CALL(_all, file, memory, count, type, status); break;
    case IAT: ICALL(_at, file, offset, memory, count, type, &request); break;
    case IAT_ALL: ICALL(_at_all, file, offset, memory, count, type, &request); break;
    case IOWN: ICALL(, file, memory, count, type, &request); break;
    case IALL: ICALL(_all, file, memory, count, type, &request); break;
    case SPLIT_AT: CALL(_at_all_begin, file, offset, memory, count, type); CALL(_at_all_end, file, memory, status); break;
    case SPLIT: CALL(_all_begin, file, memory, count, type); CALL(_all_end, file, memory, status); break;
    }
    if (request != MPI_REQUEST_NULL)
        MPI_Wait(&request, status);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_Datatype pairs, spread;
    /* Two shorts, a gap of one. */
    MPI_Type_contiguous(2, MPI_SHORT, &pairs);
    MPI_Type_create_resized(pairs, 0, 3 * sizeof(short), &spread);
    MPI_Type_free(&pairs);
    MPI_Type_commit(&spread);
    static short picture[1 << 20], memory[3 * UNITS], all[1 << 20];
    int right[KINDS];
    for (int k = 0; k < KINDS; k++)
        right[k] = 1;
    for (int round = 0; round < 60; round++) {
        int kind = round % KINDS;
        seed = round * 7919 + 1;
        tile = 0;
        blocks = 1 + draw(40);
        for (int b = 0; b < blocks; b++) {
            tile += draw(3) ? 0 : draw(9);
            owners[b] = b < size ? b : draw(size + 1);
            lengths[b] = 1 + draw(draw(4) ? 6 : 200);
            places[b] = tile;
            tile += lengths[b];
        }
        if (blocks < size)
            for (int b = 0; b < blocks; b++)
                owners[b] = b;
        tile += draw(5);
        int disp = draw(100), scattered = draw(2);
        /* Small buffers make rounds of collectives. */
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "cb_buffer_size", draw(2) ? "4096" : "16777216");
        MPI_Info_set(info, "romio_cb_write", draw(2) ? "enable" : "automatic");
        MPI_Info_set(info, "romio_cb_read", draw(2) ? "enable" : "automatic");
        for (int i = 0; i < 1 << 20; i++)
            picture[i] = -7;
        /* What lies between stays as it is. */
        MPI_File_set_view(file, disp, MPI_SHORT, MPI_SHORT, "native", MPI_INFO_NULL);
        if (rank == 0)
            MPI_File_write_at(file, 0, picture, 1 << 19, MPI_SHORT, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        int have = rank < blocks;
        MPI_Datatype type = have ? type_of(rank) : MPI_SHORT;
        MPI_File_set_view(file, disp, MPI_SHORT, type, "native", info);
        MPI_Info_free(&info);
        int last = 0, counts[16], offsets[16];
        for (int owner = 0; owner < size; owner++) {
            offsets[owner] = draw(50);
            counts[owner] = owner < blocks ? 2 * draw(UNITS / 2) : 0;
            for (int i = 0; i < counts[owner]; i++) {
                int place = place_of(owner, offsets[owner] + i);
                picture[place] = owner * 10000 + i + 1;
                last = place >= last ? place + 1 : last;
            }
        }
        int count = counts[rank], got;
        MPI_Datatype element = scattered ? spread : MPI_SHORT;
        int elements = scattered ? count / 2 : count;
        MPI_Status status;
        for (int i = 0; i < count; i++)
            memory[scattered ? i / 2 * 3 + i % 2 : i] = rank * 10000 + i + 1;
        move(file, kind, 1, offsets[rank], memory, elements, element, &status);
        MPI_Get_count(&status, element, &got);
        int ok = got == elements;
        MPI_Barrier(MPI_COMM_WORLD);
        if (ok && count) {
            memset(memory, 0, sizeof memory);
            move(file, kind, 0, offsets[rank], memory, elements, element, &status);
            MPI_Get_count(&status, element, &got);
            ok &= got == elements;
            for (int i = 0; i < count; i++)
                ok &= memory[scattered ? i / 2 * 3 + i % 2 : i] == (short)(rank * 10000 + i + 1);
        } else
            move(file, kind, 0, offsets[rank], memory, 0, element, &status);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_set_view(file, disp, MPI_SHORT, MPI_SHORT, "native", MPI_INFO_NULL);
        MPI_File_read_at(file, 0, all, last + 10, MPI_SHORT, &status);
        ok &= !memcmp(all, picture, (last + 10) * sizeof(short));
        if (have)
            MPI_Type_free(&type);
        right[kind] &= ok;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int k = 0; k < KINDS; k++)
        check(right[k], kinds[k]);
    MPI_Type_free(&spread);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
