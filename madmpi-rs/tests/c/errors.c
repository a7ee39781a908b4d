/* np: 1, peers: no */
/* Error classes, codes and handlers; what the errors are of calls that have wrong arguments. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int told;
static MPI_Comm teller;

static void tell(MPI_Comm *comm, int *code, ...) {
    told = *code;
    teller = *comm;
}

static void other(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    told = -*code;
}

int main(int argc, char **argv) {
    int class, code, length, flag, value, *last;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Errhandler handler, again, second;
    MPI_Comm comm, copy, null = MPI_COMM_NULL;
    MPI_Group group;
    MPI_Init(&argc, &argv);

    /* Handlers: one handle however often it is asked for; an attached one outlives its handle. */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_get_errhandler(comm, &again);
    CHECK(again == handler);
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    MPI_Comm_create_errhandler(other, &second);
    CHECK(second != again);
    MPI_Errhandler_free(&again);
    CHECK(MPI_Send(&value, 1, MPI_INT, 1, 0, comm) == MPI_ERR_RANK);
    CHECK(told == MPI_ERR_RANK && teller == comm);
    MPI_Comm_get_errhandler(comm, &again);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, again);
    MPI_Errhandler_free(&again);

    /* Duplicates inherit it. */
    MPI_Comm_dup(comm, &copy);
    CHECK(MPI_Send(&value, -1, MPI_INT, 0, 0, copy) == MPI_ERR_COUNT && teller == copy);
    CHECK(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, copy) == MPI_ERR_TYPE);
    CHECK(MPI_Send(&value, 1, MPI_INT, 0, -5, copy) == MPI_ERR_TAG);
    MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER);
    CHECK(told == MPI_ERR_OTHER);
    MPI_Comm_set_errhandler(copy, second);
    CHECK(MPI_Send(&value, 1, MPI_INT, 9, 0, copy) == MPI_ERR_RANK && told == -MPI_ERR_RANK);
    MPI_Errhandler_free(&second);

    /* What concerns no object is told COMM_SELF's. */
    CHECK(MPI_Comm_rank(MPI_COMM_NULL, &value) == MPI_ERR_COMM && teller == MPI_COMM_SELF);
    MPI_Comm_free(&copy);
    CHECK(MPI_Comm_free(&null) == MPI_ERR_COMM);
    CHECK(MPI_Comm_rank(copy, &value) == MPI_ERR_COMM);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}) == MPI_ERR_COMM);
    CHECK(MPI_Comm_set_errhandler(comm, MPI_ERRHANDLER_NULL) == MPI_ERR_ERRHANDLER && teller == comm);
    CHECK(MPI_Comm_split(comm, -7, 0, &copy) == MPI_ERR_ARG);
    CHECK(MPI_Comm_dup(comm, NULL) == MPI_ERR_ARG);
    CHECK(MPI_Comm_create(comm, MPI_GROUP_NULL, &copy) == MPI_ERR_GROUP);
    CHECK(MPI_Comm_get_attr(comm, 12345, &last, &flag) == MPI_ERR_KEYVAL);
    CHECK(MPI_Comm_set_attr(comm, MPI_TAG_UB, &last) == MPI_ERR_KEYVAL);
    CHECK(MPI_Comm_remote_size(comm, &value) == MPI_ERR_COMM);
    CHECK(MPI_Cart_create(comm, 1, (int[]){2}, (int[]){0}, 0, &copy) == MPI_ERR_DIMS);
    CHECK(MPI_Cart_shift(comm, 0, 1, &value, &value) == MPI_ERR_TOPOLOGY);
    CHECK(MPI_Comm_group(comm, &group) == MPI_SUCCESS);
    CHECK(MPI_Group_incl(group, 2, (int[]){0, 0}, &group) == MPI_ERR_RANK);
    MPI_Comm_group(comm, &group);
    CHECK(MPI_Group_free(&group) == MPI_SUCCESS && MPI_Group_free(&group) == MPI_ERR_GROUP);
    CHECK(MPI_Info_set(MPI_INFO_NULL, "key", "value") == MPI_ERR_INFO);
    CHECK(MPI_Info_set(MPI_INFO_ENV, "key", "value") == MPI_ERR_INFO);
    CHECK(MPI_Init(&argc, &argv) == MPI_ERR_OTHER);
    CHECK(MPI_Close_port("none") == MPI_ERR_PORT);

    /* What an error was, in words: with the function, the argument and the value. */
    MPI_Send(&value, 1, MPI_INT, 77, 0, comm);
    MPI_Error_string(MPI_ERR_RANK, text, &length);
    CHECK(strstr(text, "MPI_Send") && strstr(text, "dest") && strstr(text, "77") && length == (int)strlen(text));

    /* Classes and codes of the program's. */
    MPI_Add_error_class(&class);
    CHECK(class > MPI_ERR_LASTCODE);
    MPI_Add_error_code(class, &code);
    MPI_Comm_get_attr(comm, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last == code);
    MPI_Add_error_string(code, "out of coffee");
    MPI_Error_class(code, &value);
    CHECK(value == class);
    MPI_Error_string(code, text, &length);
    CHECK(!strcmp(text, "out of coffee"));
    MPI_Comm_call_errhandler(comm, code);
    CHECK(told == code);
    CHECK(MPI_Remove_error_class(class) == MPI_ERR_ARG);
    CHECK(MPI_Remove_error_code(code) == MPI_ERR_ARG);
    CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS && MPI_Remove_error_code(code) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
    CHECK(MPI_Error_class(code, &value) == MPI_ERR_ARG);
    CHECK(MPI_Error_class(MPI_ERR_TRUNCATE, &value) == MPI_SUCCESS && value == MPI_ERR_TRUNCATE);

    /* Info: room that is too short is filled, and the room that is needed comes back. */
    MPI_Info info;
    char small[4];
    int room = sizeof small;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get_string(info, "key", &room, small, &flag);
    CHECK(flag && room == 6 && !strcmp(small, "val"));
    room = 0;
    MPI_Info_get_string(info, "key", &room, NULL, &flag);
    CHECK(flag && room == 6);
    MPI_Info_get_string(info, "none", &room, small, &flag);
    CHECK(!flag);
    CHECK(MPI_Info_delete(info, "none") == MPI_ERR_INFO_NOKEY);
    CHECK(MPI_Info_get_nthkey(info, 1, text) == MPI_ERR_ARG);
    MPI_Info_free(&info);

    /* Memory. */
    void *memory;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096");
    MPI_Alloc_mem(100, info, &memory);
    CHECK((size_t)memory % 4096 == 0);
    memset(memory, 1, 100);
    CHECK(MPI_Free_mem(memory) == MPI_SUCCESS);
    CHECK(MPI_Alloc_mem(-1, info, &memory) == MPI_ERR_SIZE);
    MPI_Info_free(&info);

    /* An empty status has no error in it. */
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status;
    int index;
    for (int which = 0; which < 3; which++) {
        status.MPI_ERROR = MPI_ERR_OTHER;
        if (which == 0)
            MPI_Wait(none, &status);
        else if (which == 1)
            MPI_Waitany(2, none, &index, &status);
        else
            MPI_Request_get_status_any(2, none, &index, &flag, &status);
        CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
        CHECK(status.MPI_ERROR == MPI_SUCCESS);
    }

    MPI_Comm_free(&comm);
    printf("errors: fine\n");
    MPI_Finalize();
    return 0;
}
