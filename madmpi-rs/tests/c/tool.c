/* np: 2, ranks: no, peers: no */
/* The tool interface: knobs are control variables, counters are performance variables. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); exit(1); } } while (0)

static unsigned long long read_one(MPI_T_pvar_session session, const char *name, int class) {
    int index, count;
    unsigned long long value;
    MPI_T_pvar_handle handle;
    CHECK(MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_reset(session, handle) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_start(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_handle_free(session, &handle) == MPI_SUCCESS && handle == MPI_T_PVAR_HANDLE_NULL);
    return value;
}

int main(int argc, char **argv) {
    int n, index, count, length, verbosity, bind, scope, class, read_only, continuous, atomic, provided, sum, rank;
    char name[128], meaning[512], value[2048], small[5];
    MPI_Datatype type;
    MPI_T_enum words;
    MPI_T_cvar_handle variable;
    MPI_T_pvar_session session;

    CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS && provided == MPI_THREAD_MULTIPLE);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);

    /* Control variables: all have a name by which they are found again. */
    MPI_T_cvar_get_num(&n);
    CHECK(n > 30);
    for (int i = 0; i < n; i++) {
        length = sizeof name;
        count = sizeof meaning;
        CHECK(MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &words, meaning, &count, &bind, &scope) ==
              MPI_SUCCESS);
        CHECK(length == (int)strlen(name) + 1 && count > 1 && type == MPI_CHAR && words == MPI_T_ENUM_NULL);
        CHECK(bind == MPI_T_BIND_NO_OBJECT && scope == MPI_T_SCOPE_ALL_EQ);
        CHECK(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS && index == i);
    }
    CHECK(MPI_T_cvar_get_info(n, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_get_index("NO_SUCH_KNOB", &index) == MPI_T_ERR_INVALID_NAME);

    /* They can be written until the process enters the job. */
    CHECK(MPI_T_cvar_get_index("NMAD_RDV_THRESHOLD", &index) == MPI_SUCCESS);
    length = sizeof small;
    MPI_T_cvar_get_info(index, small, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    CHECK(!strcmp(small, "NMAD") && length == 19);
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &variable, &count) == MPI_SUCCESS && count <= (int)sizeof value);
    CHECK(MPI_T_cvar_write(variable, "many") == MPI_T_ERR_INVALID);
    CHECK(MPI_T_cvar_write(variable, "54321") == MPI_SUCCESS);
    CHECK(MPI_T_cvar_read(variable, value) == MPI_SUCCESS && !strcmp(value, "54321"));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(MPI_T_cvar_write(variable, "12345") == MPI_T_ERR_CVAR_SET_NEVER);
    MPI_T_cvar_handle again = variable;
    CHECK(MPI_T_cvar_handle_free(&variable) == MPI_SUCCESS && variable == MPI_T_CVAR_HANDLE_NULL);
    CHECK(MPI_T_cvar_read(again, value) == MPI_T_ERR_INVALID_HANDLE);

    /* Performance variables. */
    MPI_T_pvar_get_num(&n);
    CHECK(n > 10);
    for (int i = 0; i < n; i++) {
        length = sizeof name;
        MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &words, NULL, NULL, &bind, &read_only,
                            &continuous, &atomic);
        CHECK(type == MPI_UNSIGNED_LONG_LONG && read_only && continuous && !atomic);
        CHECK(MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS && index == i);
    }
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    MPI_Comm comm;
    CHECK(read_one(session, "madmpi_communicators", MPI_T_PVAR_CLASS_LEVEL) == 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK(read_one(session, "madmpi_communicators", MPI_T_PVAR_CLASS_LEVEL) == 1);
    CHECK(read_one(session, "newmad_connections", MPI_T_PVAR_CLASS_LEVEL) == 1);
    MPI_Comm_free(&comm);
    CHECK(read_one(session, "madmpi_communicators", MPI_T_PVAR_CLASS_LEVEL) == 0);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);

    /* Every variable has a category. */
    int indices[256], variables, counters;
    MPI_T_category_get_num(&n);
    for (int i = sum = 0; i < n; i++) {
        length = sizeof name;
        CHECK(MPI_T_category_get_info(i, name, &length, NULL, NULL, &variables, &counters, &count) == MPI_SUCCESS);
        CHECK(count == 0 && MPI_T_category_get_index(name, &index) == MPI_SUCCESS && index == i);
        MPI_T_category_get_cvars(i, 256, indices);
        for (int j = 1; j < variables; j++)
            CHECK(indices[j] > indices[j - 1]);
        sum += variables;
        MPI_T_category_get_num_events(i, &count);
        CHECK(count == (strcmp(name, "newmad") ? 0 : 3));
    }
    MPI_T_cvar_get_num(&n);
    CHECK(sum == n);
    MPI_T_event_get_num(&n);
    CHECK(n == 3);
    MPI_T_source_get_num(&n);
    CHECK(n == 1);
    MPI_Finalize();
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    if (rank == 0)
        printf("tool interface: fine\n");
    return 0;
}
