/* Argobots: an execution stream per worker, each with a pool of its own, as its own benchmarks have it; threads are
 * dealt out to the pools in turn. Fork-join takes the pools and schedulers that steal (ABT_POOL_RANDWS, its last in
 * first out order keeps the number of threads small) and leaves a forked thread where it was forked. */

#include <abt.h>

#define VERSION "Argobots " ABT_VERSION
#if ABT_NUMVERSION < 10200000
#define ABT_POOL_RANDWS ABT_POOL_FIFO /* older ones have no other */
#endif

typedef void (*body_t)(void *);
#define BODY(name) static void name(void *arg)
#define END return

static ABT_pool *pools;
static int pool_count, steal;
static unsigned next_pool;

static void check(int result);

typedef ABT_thread thread_t;
static inline void start_thread(thread_t *thread, body_t body, void *arg)
{
    int rank = 0;
    if (pool_count > 1 && steal)
        check(ABT_xstream_self_rank(&rank));
    else if (pool_count > 1)
        rank = __atomic_fetch_add(&next_pool, 1, __ATOMIC_RELAXED) % pool_count;
    check(ABT_thread_create(pools[rank], body, arg, ABT_THREAD_ATTR_NULL, thread));
}
static inline void join_thread(thread_t *thread)
{
    check(ABT_thread_free(thread));
}
static inline void yield_thread(void)
{
    ABT_thread_yield();
}

typedef ABT_mutex mutex_t;
static inline void mutex_init(mutex_t *mutex)
{
    check(ABT_mutex_create(mutex));
}
static inline void mutex_lock(mutex_t *mutex)
{
    ABT_mutex_lock(*mutex);
}
static inline void mutex_unlock(mutex_t *mutex)
{
    ABT_mutex_unlock(*mutex);
}

typedef ABT_cond cond_t;
static inline void cond_init(cond_t *cond)
{
    check(ABT_cond_create(cond));
}
static inline void cond_wait(cond_t *cond, mutex_t *mutex)
{
    ABT_cond_wait(*cond, *mutex);
}
static inline void cond_signal(cond_t *cond)
{
    ABT_cond_signal(*cond);
}
static inline void cond_broadcast(cond_t *cond)
{
    ABT_cond_broadcast(*cond);
}

#include "ops.h"

static void check(int result)
{
    char words[256] = "an error without a name";
    if (result == ABT_SUCCESS)
        return;
    ABT_error_get_str(result, words, NULL);
    fail(words);
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    /* Streams on cores of their own, unless the user knows better. */
    setenv("ABT_SET_AFFINITY", workers > 1 ? "1" : "0", 0);
    check(ABT_init(argc, argv));
    pools = (ABT_pool *)allocate(workers, sizeof *pools);
    pool_count = workers;
    steal = !strcmp(argv[1], "fib");
    ABT_xstream self, stream;
    check(ABT_xstream_self(&self));
    if (steal) {
        for (int i = 0; i < workers; i++)
            check(ABT_pool_create_basic(ABT_POOL_RANDWS, ABT_POOL_ACCESS_MPMC, ABT_TRUE, &pools[i]));
        for (int i = 0; i < workers; i++) {
            /* Its own pool comes first. */
            ABT_pool order[workers];
            for (int j = 0; j < workers; j++)
                order[j] = pools[(i + j) % workers];
            if (i == 0) {
                check(ABT_xstream_set_main_sched_basic(self, ABT_SCHED_RANDWS, workers, order));
                continue;
            }
            check(ABT_xstream_create_basic(ABT_SCHED_RANDWS, workers, order, ABT_SCHED_CONFIG_NULL, &stream));
        }
    } else {
        check(ABT_xstream_get_main_pools(self, 1, &pools[0]));
        for (int i = 1; i < workers; i++) {
            check(ABT_xstream_create(ABT_SCHED_NULL, &stream));
            check(ABT_xstream_get_main_pools(stream, 1, &pools[i]));
        }
    }
    measure(argv);
    fflush(stdout);
    _Exit(0);
}
