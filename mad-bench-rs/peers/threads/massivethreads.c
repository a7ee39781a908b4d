/* MassiveThreads with its defaults: a started thread runs at once (child first), idle workers steal its parent. */

#include <myth/myth.h>

#define VERSION "MassiveThreads"

typedef myth_func_t body_t;
#define BODY(name) static void *name(void *arg)
#define END return NULL

typedef myth_thread_t thread_t;
static inline void start_thread(thread_t *thread, body_t body, void *arg)
{
    *thread = myth_create(body, arg);
}
static inline void join_thread(thread_t *thread)
{
    myth_join(*thread, NULL);
}
static inline void yield_thread(void)
{
    myth_yield();
}

typedef myth_mutex_t mutex_t;
static inline void mutex_init(mutex_t *mutex)
{
    myth_mutex_init(mutex, NULL);
}
static inline void mutex_lock(mutex_t *mutex)
{
    myth_mutex_lock(mutex);
}
static inline void mutex_unlock(mutex_t *mutex)
{
    myth_mutex_unlock(mutex);
}

typedef myth_cond_t cond_t;
static inline void cond_init(cond_t *cond)
{
    myth_cond_init(cond, NULL);
}
static inline void cond_wait(cond_t *cond, mutex_t *mutex)
{
    myth_cond_wait(cond, mutex);
}
static inline void cond_signal(cond_t *cond)
{
    myth_cond_signal(cond);
}
static inline void cond_broadcast(cond_t *cond)
{
    myth_cond_broadcast(cond);
}

#include "ops.h"

int main(int argc, char **argv)
{
    arguments(argc, argv);
    myth_globalattr_t attributes;
    myth_globalattr_init(&attributes);
    myth_globalattr_set_n_workers(&attributes, workers);
    if (myth_init_ex(&attributes) < 0)
        fail("MassiveThreads does not start");
    measure(argv);
    fflush(stdout);
    _Exit(0);
}
