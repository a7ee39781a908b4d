/* State Threads: one kernel thread, so one worker only. Its conditions have no lock: nothing happens between the unlock
 * and the wait. What it has for yielding is a sleep of no length. */

#include <st.h>

#define VERSION "State Threads"

typedef void *(*body_t)(void *);
#define BODY(name) static void *name(void *arg)
#define END return NULL

static void fail(const char *why);

typedef st_thread_t thread_t;
static inline void start_thread(thread_t *thread, body_t body, void *arg)
{
    if (!(*thread = st_thread_create(body, arg, 1, 0)))
        fail("no more threads: no memory for a stack, or more mappings than vm.max_map_count");
}
static inline void join_thread(thread_t *thread)
{
    st_thread_join(*thread, NULL);
}
static inline void yield_thread(void)
{
    st_usleep(0);
}

typedef st_mutex_t mutex_t;
static inline void mutex_init(mutex_t *mutex)
{
    *mutex = st_mutex_new();
}
static inline void mutex_lock(mutex_t *mutex)
{
    st_mutex_lock(*mutex);
}
static inline void mutex_unlock(mutex_t *mutex)
{
    st_mutex_unlock(*mutex);
}

typedef st_cond_t cond_t;
static inline void cond_init(cond_t *cond)
{
    *cond = st_cond_new();
}
static inline void cond_wait(cond_t *cond, mutex_t *mutex)
{
    st_mutex_unlock(*mutex);
    st_cond_wait(*cond);
    st_mutex_lock(*mutex);
}
static inline void cond_signal(cond_t *cond)
{
    st_cond_signal(*cond);
}
static inline void cond_broadcast(cond_t *cond)
{
    st_cond_broadcast(*cond);
}

#include "ops.h"

int main(int argc, char **argv)
{
    arguments(argc, argv);
    if (workers != 1)
        fail("it has one kernel thread");
    if (st_init())
        fail("State Threads does not start");
    measure(argv);
    return 0;
}
