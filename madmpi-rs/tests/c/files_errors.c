/* np: 2, peers: mpich */
/* What goes wrong with files: each error has its class, and returns by itself. */
#include "files.h"

static void expect(int code, int class, const char *what) {
    if (code == MPI_SUCCESS || class_of(code) != class) {
        char text[MPI_MAX_ERROR_STRING] = "no error";
        int len;
        if (code != MPI_SUCCESS)
            MPI_Error_string(code, text, &len);
        fprintf(stderr, "rank %d: %s: class %d: %s\n", rank, what, code ? class_of(code) : 0, text);
    }
    check(code != MPI_SUCCESS && class_of(code) == class, what);
}

static int calls;
static void handler(MPI_File *file, int *code, ...) {
    calls += *file != MPI_FILE_NULL && *code != MPI_SUCCESS;
}

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Errhandler errhandler;
    char bytes[100] = "";
    int value = 1;
    begin(&argc, &argv);
    MPI_File_get_errhandler(MPI_FILE_NULL, &errhandler);
    check(errhandler == MPI_ERRORS_RETURN, "files return errors at first");
    expect(MPI_File_open(MPI_COMM_WORLD, "/no/such/folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE, "no such file");
    expect(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE, "no such file to write");
    expect(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE, "no such file to delete");
    expect(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_AMODE, "two modes");
    expect(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE, "no mode");
    expect(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE, "a new file to read");

    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    expect(MPI_File_read_at(file, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS, "a read of a file to write");
    MPI_File_close(&file);
    expect(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_ERR_FILE_EXISTS, "the file exists");
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    expect(MPI_File_write_at(file, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY, "a write of a file to read");
    MPI_File_close(&file);
    expect(MPI_File_get_size(file, (MPI_Offset *)bytes), MPI_ERR_FILE, "no file");

    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    expect(MPI_File_write_at(file, -1, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG, "a negative offset");
    expect(MPI_File_write_at(file, 0, bytes, -1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_COUNT, "a negative count");
    expect(MPI_File_write_at(file, 0, bytes, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE, "no type");
    expect(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG, "a seek to before the beginning");
    expect(MPI_File_seek(file, 0, 12345), MPI_ERR_ARG, "a seek from nowhere");
    expect(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "extern", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP, "no representation");
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    expect(MPI_File_write(file, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO, "a part of an element");
    /* A handler of the program's. */
    MPI_File_create_errhandler(handler, &errhandler);
    MPI_File_set_errhandler(file, errhandler);
    MPI_Errhandler_free(&errhandler);
    expect(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG, "with a handler");
    MPI_File_call_errhandler(file, MPI_ERR_OTHER);
    check(calls == 2, "the handler is called");
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);

    /* A file that vanishes is there as long as it is open. */
    if (rank == 0)
        unlink(name);
    MPI_Barrier(MPI_COMM_WORLD);
    value = MPI_File_write_at(file, 0, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE);
    check(value == MPI_SUCCESS, "a write to a file without a name");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    unlink(name);
    MPI_Finalize();
    return 0;
}
