/* np: 2, peers: no */
/* Events of the tool interface: messages that come before their receives, rendezvous, what callbacks may read. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

struct event {
    int rank;
    unsigned long tag;
    MPI_Count length;
};

static int rank, fine = 1, freed, found[3], in_order = 1;
static MPI_Count last_time;
static MPI_T_event_registration registrations[3];

#define CHECK(condition) ((void)((condition) || (fine = 0, printf("rank %d: line %d: %s\n", rank, __LINE__, #condition))))

/* Tags 5, 6 and 7 are short messages of 4, 8 and 12 bytes; 8 is a long one. */
static void seen(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    int which = *(int *)data, source = -1, from;
    struct event event = {-1, 0, -1};
    unsigned long tag;
    MPI_Count length, when;
    CHECK(registration == registrations[which] && safety == MPI_T_CB_REQUIRE_NONE);
    CHECK(MPI_T_event_copy(instance, &event) == MPI_SUCCESS);
    CHECK(MPI_T_event_read(instance, 0, &from) == MPI_SUCCESS && from == event.rank);
    CHECK(MPI_T_event_read(instance, 1, &tag) == MPI_SUCCESS && tag == event.tag);
    CHECK(MPI_T_event_read(instance, 2, &length) == MPI_SUCCESS && length == event.length);
    CHECK(MPI_T_event_read(instance, 3, &length) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_get_source(instance, &source) == MPI_SUCCESS && source == 0);
    CHECK(MPI_T_event_get_timestamp(instance, &when) == MPI_SUCCESS);
    if (event.tag < 5 || event.tag > 8 || event.rank != 1)
        return; /* the library's own messages are events, too */
    CHECK(event.length == (event.tag == 8 ? 1 << 20 : 4 * ((MPI_Count)event.tag - 4)));
    in_order &= when >= last_time;
    last_time = when;
    found[which]++;
    /* A callback may call MPI, and is not called meanwhile. */
    CHECK(MPI_Iprobe(0, 99, MPI_COMM_SELF, &from, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

static void dropped(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety, void *data) {
    CHECK(count < 0); /* nothing is lost here */
}

static void gone(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) { freed += *(int *)data; }

int main(int argc, char **argv) {
    static char large[1 << 20];
    static int numbers[3] = {0, 1, 2};
    int provided, values[3] = {1, 2, 3}, flag, index, elements = 8, length, verbosity, bind;
    char name[64];
    MPI_Datatype datatypes[8];
    MPI_Aint places[8];
    MPI_T_source_order order;
    MPI_Count ticks, first, second;
    MPI_Info info;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    for (int i = 0; i < 2; i++) {
        CHECK(MPI_T_event_handle_alloc(i, NULL, MPI_INFO_NULL, &registrations[i]) == MPI_SUCCESS);
        CHECK(MPI_T_event_register_callback(registrations[i], MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &numbers[i], seen) == MPI_SUCCESS);
        CHECK(MPI_T_event_set_dropped_handler(registrations[i], dropped) == MPI_SUCCESS);
    }
    CHECK(MPI_T_event_handle_alloc(3, NULL, MPI_INFO_NULL, &registrations[2]) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_get_index("newmad_rendezvous", &index) == MPI_SUCCESS && index == 1);
    length = sizeof name;
    CHECK(MPI_T_event_get_info(0, name, &length, &verbosity, datatypes, places, &elements, NULL, NULL, NULL, NULL, &bind) == MPI_SUCCESS);
    CHECK(!strcmp(name, "newmad_unexpected") && elements == 3);
    CHECK(datatypes[0] == MPI_INT && datatypes[1] == MPI_UINT64_T && datatypes[2] == MPI_COUNT);
    CHECK(places[0] == 0 && places[1] == 8 && places[2] == 16);
    CHECK(MPI_T_source_get_info(0, NULL, NULL, NULL, NULL, &order, &ticks, NULL, NULL) == MPI_SUCCESS);
    CHECK(order == MPI_T_SOURCE_ORDERED && ticks == 1000000000);
    CHECK(MPI_T_source_get_timestamp(0, &first) == MPI_SUCCESS && MPI_T_source_get_timestamp(0, &second) == MPI_SUCCESS && second >= first);
    CHECK(MPI_T_source_get_timestamp(1, &first) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_handle_get_info(registrations[0], &info) == MPI_SUCCESS);
    MPI_Info_free(&info);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* Events are recorded from MPI_Init on. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        for (int i = 0; i < 3; i++)
            MPI_Send(values, i + 1, MPI_INT, 0, 5 + i, MPI_COMM_WORLD);
        MPI_Send(large, sizeof large, MPI_CHAR, 0, 8, MPI_COMM_WORLD);
    } else {
        MPI_Probe(1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Iprobe(0, 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        CHECK(found[0] == 4 && found[1] == 0 && in_order);
        for (int i = 0; i < 3; i++)
            MPI_Recv(values, i + 1, MPI_INT, 1, 5 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(large, sizeof large, MPI_CHAR, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Iprobe(0, 99, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        CHECK(found[0] == 4 && found[1] == 1 && in_order);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++)
        CHECK(MPI_T_event_handle_free(registrations[i], &numbers[1], gone) == MPI_SUCCESS);
    CHECK(freed == 2);
    CHECK(MPI_T_event_handle_free(registrations[0], NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
    MPI_Finalize();
    MPI_T_finalize();
    if (fine && rank == 0)
        printf("events: fine\n");
    return 0;
}
