/* np: 1, peers: mpich */
/* A key may be freed more than once while attributes have it: by each delete function, say, that frees its own key. */
#include "classes.h"
#include <mpi.h>
#include <stdio.h>

static int deleted, freed;

static int on_comm(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)value, (void)extra;
    deleted++;
    freed += MPI_Comm_free_keyval(&key) == MPI_SUCCESS && key == MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

static int on_type(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)value, (void)extra;
    deleted++;
    freed += MPI_Type_free_keyval(&key) == MPI_SUCCESS && key == MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

static int on_win(MPI_Win win, int key, void *value, void *extra) {
    (void)win, (void)value, (void)extra;
    deleted++;
    freed += MPI_Win_free_keyval(&key) == MPI_SUCCESS && key == MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

static void tell(const char *kind) {
    printf("%s: %d deleted, %d of their keys freed\n", kind, deleted, freed);
    deleted = freed = 0;
}

int main(int argc, char **argv) {
    int key, again, memory[2];
    MPI_Comm comms[2];
    MPI_Datatype types[2];
    MPI_Win wins[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    /* Each delete function frees the key; no other call does. */
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_comm, &key, NULL);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &comms[i]);
        MPI_Comm_set_attr(comms[i], key, NULL);
    }
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&comms[i]);
    tell("communicators");

    /* The program frees it twice, too. */
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_type, &key, NULL);
    for (int i = 0; i < 2; i++) {
        MPI_Type_contiguous(3, MPI_INT, &types[i]);
        MPI_Type_set_attr(types[i], key, NULL);
    }
    for (int i = 0; i < 2; i++) {
        again = key;
        int code = class_of(MPI_Type_free_keyval(&again));
        printf("freed: %d %d\n", code, again == MPI_KEYVAL_INVALID);
    }
    for (int i = 0; i < 2; i++)
        MPI_Type_free(&types[i]);
    tell("types");

    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_win, &key, NULL);
    for (int i = 0; i < 2; i++) {
        MPI_Win_create(&memory[i], sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_SELF, &wins[i]);
        MPI_Win_set_attr(wins[i], key, NULL);
    }
    for (int i = 0; i < 2; i++)
        MPI_Win_free(&wins[i]);
    tell("windows");
    MPI_Finalize();
    return 0;
}
