/* np: 2, peers: no */
/* Functions of a program's representation: the extents are those of predefined types, the counts those of their items. */
#include "files.h"
#include <stddef.h>

static int others, items;
static MPI_Datatype asked;

/* Ints and doubles as decimal texts, of 12 and of 24 characters; bytes as they are. */
static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra) {
    (void)extra;
    asked = type;
    *bytes = type == MPI_INT ? 12 : type == MPI_DOUBLE ? 24 : type == MPI_2INT ? 24 : type == MPI_BYTE ? 1 : -1;
    others += *bytes < 0;
    return *bytes < 0 ? MPI_ERR_TYPE : MPI_SUCCESS;
}

struct mixed {
    int number;
    double real;
};
/* Places and kinds of the items of the types that the program uses: structures of an int and a double, or ints. */
static MPI_Datatype mixed, two, sparse;
static char *item(char *memory, MPI_Datatype type, long index, int *real) {
    MPI_Aint lb, bytes;
    MPI_Type_get_extent(type, &lb, &bytes);
    *real = bytes == (MPI_Aint)sizeof(struct mixed) && index % 2;
    if (bytes == (MPI_Aint)sizeof(struct mixed))
        return memory + index / 2 * bytes + index % 2 * offsetof(struct mixed, real);
    /* Every other int: the last one of an element has no gap behind it. */
    if (bytes == 3 * sizeof(int))
        return memory + (index / 2 * 3 + index % 2 * 2) * sizeof(int);
    return memory + index * sizeof(int);
}
static int to_memory(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    char *from = file;
    (void)extra;
    for (int i = 0; i < count; i++) {
        char text[25] = "";
        int real;
        char *into = item(memory, type, position + i, &real);
        memcpy(text, from, real ? 24 : 12);
        from += real ? 24 : 12;
        if (real)
            *(double *)into = atof(text);
        else
            *(int *)into = atoi(text);
    }
    items = count;
    return MPI_SUCCESS;
}
static int to_file(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    char *into = file;
    (void)extra;
    for (int i = 0; i < count; i++) {
        char text[25];
        int real;
        char *from = item(memory, type, position + i, &real);
        if (real)
            snprintf(text, sizeof text, "%-24.6f", *(double *)from);
        else
            snprintf(text, sizeof text, "%-12d", *(int *)from);
        memcpy(into, text, real ? 24 : 12);
        into += real ? 24 : 12;
    }
    items = count;
    return MPI_SUCCESS;
}

/* The number of basic elements that a read gave, and whether the program's function was called for as many. */
static int got(MPI_Status *status, MPI_Datatype type, int expected) {
    int count, given = items;
    items = 0;
    MPI_Get_elements(status, type, &count);
    if (count != expected || given != expected)
        fprintf(stderr, "%d elements, %d items, not %d\n", count, given, expected);
    return count == expected && given == expected;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    /* Each rank has a file of its own. */
    snprintf(name + strlen(name), 16, "-%d", rank);
    MPI_File file = open_new(MPI_COMM_SELF);
    MPI_Aint bytes;
    MPI_Status status;
    MPI_Datatype every;
    char raw[100];
    int out[6] = {11, 22, 33, 44, 55, 66}, in[6], blocks[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct mixed, number), offsetof(struct mixed, real)};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_vector(2, 1, 2, MPI_INT, &every);
    MPI_Type_vector(2, 1, 2, MPI_INT, &sparse);
    MPI_Type_create_struct(2, blocks, places, types, &mixed);
    MPI_Type_commit(&two);
    MPI_Type_commit(&every);
    MPI_Type_commit(&sparse);
    MPI_Type_commit(&mixed);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_Register_datarep("texts", to_memory, to_file, extent, NULL);

    /* The view has every other int, except between its elements. */
    check(MPI_File_set_view(file, 0, MPI_INT, every, "texts", MPI_INFO_NULL) == MPI_SUCCESS, "a view of a derived type");
    MPI_File_get_type_extent(file, every, &bytes);
    check(bytes == 36 && asked == MPI_INT, "the extent of a derived type");
    MPI_File_get_type_extent(file, MPI_2INT, &bytes);
    check(bytes == 24 && asked == MPI_2INT, "the extent of a pair");
    int code = MPI_File_write_at(file, 0, out, 2, two, &status);
    check(code == MPI_SUCCESS && items == 4, "a write of a derived type has as many items as its ints");
    memset(in, 0, sizeof in);
    code = MPI_File_read_at(file, 0, in, 2, two, &status);
    check(code == MPI_SUCCESS && got(&status, two, 4) && !memcmp(in, out, 4 * sizeof(int)), "a read of a derived type");
    memset(in, 0, sizeof in);
    MPI_File_read_at(file, 1, in, 3, two, &status);
    check(got(&status, two, 3) && !memcmp(in, out + 1, 3 * sizeof(int)) && !in[3], "a read over the end, of half an element");
    memset(in, 0, sizeof in);
    MPI_File_read_at(file, 0, in, 2, sparse, &status);
    check(got(&status, sparse, 4) && in[0] == 11 && in[2] == 22 && in[3] == 33 && in[5] == 44 && !in[1] && !in[4],
          "a read into a type with gaps");
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, raw, 72, MPI_BYTE, &status);
    check(!memcmp(raw, "11          ", 12) && !memcmp(raw + 24, "22          33          ", 24) &&
              !memcmp(raw + 60, "44          ", 12), "the texts are where the view has them");

    /* Pairs. */
    MPI_File_set_size(file, 0);
    code = MPI_File_set_view(file, 0, MPI_2INT, MPI_2INT, "texts", MPI_INFO_NULL);
    check(code == MPI_SUCCESS && asked == MPI_2INT, "a view of pairs");
    code = MPI_File_write_at(file, 1, out, 2, MPI_2INT, &status);
    check(code == MPI_SUCCESS && items == 4, "a write of pairs");
    memset(in, 0, sizeof in);
    code = MPI_File_read_at(file, 2, in, 3, MPI_2INT, &status);
    check(code == MPI_SUCCESS && got(&status, MPI_2INT, 2) && in[0] == 33 && in[1] == 44 && !in[2], "a read of pairs");

    /* Types of several kinds, and an end inside of an item. */
    struct mixed from[2] = {{1, 1.5}, {2, 2.5}}, into[2] = {{0, 0}, {0, 0}};
    MPI_File_set_size(file, 0);
    check(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "texts", MPI_INFO_NULL) == MPI_SUCCESS, "a view of bytes");
    code = MPI_File_write_at(file, 0, from, 2, mixed, &status);
    MPI_Offset length;
    MPI_File_get_size(file, &length);
    check(code == MPI_SUCCESS && items == 4 && length == 72, "a write of structures");
    code = MPI_File_read_at(file, 0, into, 2, mixed, &status);
    check(code == MPI_SUCCESS && got(&status, mixed, 4) && into[1].number == 2 && into[1].real == 2.5, "a read of structures");
    memset(into, 0, sizeof into);
    MPI_File_set_size(file, 60);
    code = MPI_File_read_at(file, 0, into, 2, mixed, &status);
    check(code == MPI_SUCCESS && got(&status, mixed, 3) && into[0].real == 1.5 && into[1].number == 2 && !into[1].real,
          "a read that ends inside of an item");
    MPI_File_set_size(file, 10);
    code = MPI_File_read_at(file, 0, into, 2, mixed, &status);
    check(code == MPI_SUCCESS && got(&status, mixed, 0), "a read that ends inside of the first item");
    check(others == 0, "only extents of predefined types are asked for");
    MPI_Type_free(&two);
    MPI_Type_free(&every);
    MPI_Type_free(&sparse);
    MPI_Type_free(&mixed);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
