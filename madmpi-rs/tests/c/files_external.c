/* np: 2, peers: no */
/* Representations: external32, internal, and one of the program's. */
#include "files.h"

static int extents, reads, writes;
/* Ints as decimal texts of 12 characters. */
static int extent(MPI_Datatype type, MPI_Aint *bytes, void *extra) {
    int each;
    MPI_Type_size(type, &each);
    extents += extra == (void *)7;
    *bytes = each / sizeof(int) * 12;
    return MPI_SUCCESS;
}
static int to_memory(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    for (int i = 0; i < count; i++) {
        char text[13] = "";
        memcpy(text, (char *)file + i * 12, 12);
        ((int *)memory)[position + i] = atoi(text);
    }
    reads++;
    return type == MPI_INT && extra == (void *)7 ? MPI_SUCCESS : MPI_ERR_OTHER;
}
static int to_file(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    for (int i = 0; i < count; i++) {
        char text[13];
        snprintf(text, sizeof text, "%-12d", ((int *)memory)[position + i]);
        memcpy((char *)file + i * 12, text, 12);
    }
    writes++;
    return type == MPI_INT && extra == (void *)7 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_File file = open_new(MPI_COMM_WORLD);
    MPI_Aint bytes;
    MPI_Status status;
    MPI_Offset length;
    unsigned char raw[64];
    int count, out[10], in[10];
    long longs[10], back[10];
    for (int i = 0; i < 10; i++)
        out[i] = 0x01020304 + i, longs[i] = -2 - i;
    /* A read through a view ends with the file. */
    MPI_Datatype pair;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &pair);
    MPI_Type_commit(&pair);
    MPI_File_set_view(file, rank * sizeof(int), MPI_INT, pair, "native", MPI_INFO_NULL);
    MPI_File_write_at(file, 0, longs, 4 + rank, MPI_INT, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, 2, in, 10, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(count == 3 && in[1] == ((int *)longs)[3], "a read over the end through a view");
    MPI_File_read_at_all(file, 1, in, 10, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(count == 4 && in[2] == ((int *)longs)[3], "a collective one");
    MPI_Type_free(&pair);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
    MPI_File_set_size(file, 0);
    if (rank == 0)
        MPI_File_write_at(file, 0, out, 10, MPI_INT, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, 2, in, 10, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(count == 8 && in[0] == out[2] && in[7] == out[9], "external32 comes back");
    MPI_File_get_type_extent(file, MPI_LONG, &bytes);
    check(bytes == 4, "the extent of a long in external32");
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, raw, 40, MPI_BYTE, &status);
    check(raw[0] == 1 && raw[3] == 4 && raw[39] == 13, "the bytes are those of the standard");
    MPI_File_set_size(file, 0);
    /* Longs have four bytes: each rank has every other one, written together. */
    MPI_Datatype every;
    MPI_Type_create_resized(MPI_LONG, 0, size * sizeof(long), &every);
    MPI_Type_commit(&every);
    MPI_File_set_view(file, rank * 4, MPI_LONG, every, "external32", MPI_INFO_NULL);
    MPI_File_write_all(file, longs, 10, MPI_LONG, &status);
    MPI_Get_count(&status, MPI_LONG, &count);
    MPI_File_get_size(file, &length);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &length);
    check(count == 10 && length == size * 40, "longs are short in external32");
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    MPI_File_read_all(file, back, 10, MPI_LONG, &status);
    check(!memcmp(longs, back, sizeof back), "longs come back");
    longs[0] = 1L << 40;
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    int code = MPI_File_write_at(file, 0, longs, 1, MPI_LONG, &status);
    check(class_of(code) == MPI_ERR_CONVERSION, "a value that does not fit");
    MPI_Type_free(&every);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL);
    if (rank == 0)
        MPI_File_write_at(file, 0, out, 10, MPI_INT, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, 0, in, 10, MPI_INT, &status);
    check(!memcmp(in, out, sizeof in), "internal");

    MPI_Register_datarep("decimal", to_memory, to_file, extent, (void *)7);
    code = MPI_Register_datarep("decimal", to_memory, to_file, extent, (void *)7);
    check(class_of(code) == MPI_ERR_DUP_DATAREP, "a name that is taken");
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "decimal", MPI_INFO_NULL);
    MPI_File_get_type_extent(file, MPI_INT, &bytes);
    check(bytes == 12, "the extent in the program's representation");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request request;
    MPI_File_iwrite_at(file, rank * 10, out, 10, MPI_INT, &request);
    MPI_Wait(&request, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    memset(in, 0, sizeof in);
    MPI_File_read_at_all(file, (1 - rank) * 10 + 3, in, 7, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(count == 7 && in[0] == out[3] && in[6] == out[9] && extents && reads && writes, "the program's representation comes back");
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 12, raw, 12, MPI_BYTE, &status);
    check(!memcmp(raw, "16909061    ", 12), "the bytes are the program's");
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
