/* Handles that C writes when a request ends, not in the call that starts it: those of MPI_Comm_idup.
 *
 * C writes a handle of its own width, for which the program's place is too narrow. So it gets a place here, and the
 * call of Fortran in which the request ends copies the number to the program's. `madmpi_owed` is the number of places;
 * at 0, as mostly, calls look no further. A request that is freed before it ends leaves its place behind: C may still
 * write there. */
#include "binding.h"

#include <pthread.h>

struct owed {
    MPI_Comm handle;
    MPI_Fint *place;
    MPI_Fint request;
    struct owed *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct owed *all;
int madmpi_owed;

MPI_Comm *madmpi_owe(MPI_Fint *place) {
    struct owed *owed = madmpi_memory(1, sizeof(*owed));
    owed->handle = MPI_COMM_NULL;
    owed->place = place;
    return &owed->handle;
}

void madmpi_owe_by(MPI_Comm *handle, MPI_Request request) {
    struct owed *owed = (struct owed *)handle;
    *owed->place = MPI_Comm_toint(MPI_COMM_NULL);
    if (request == MPI_REQUEST_NULL) {
        /* The call has failed, or has ended the request at once. */
        *owed->place = MPI_Comm_toint(owed->handle);
        free(owed);
        return;
    }
    owed->request = MPI_Request_toint(request);
    pthread_mutex_lock(&lock);
    owed->next = all;
    all = owed;
    __atomic_add_fetch(&madmpi_owed, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

void madmpi_settle(MPI_Fint request) {
    pthread_mutex_lock(&lock);
    for (struct owed **link = &all; *link; link = &(*link)->next) {
        struct owed *owed = *link;
        if (owed->request != request) continue;
        *owed->place = MPI_Comm_toint(owed->handle);
        *link = owed->next;
        __atomic_sub_fetch(&madmpi_owed, 1, __ATOMIC_RELEASE);
        free(owed);
        break;
    }
    pthread_mutex_unlock(&lock);
}
