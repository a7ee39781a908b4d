/* The programs of `mad bench threads` for libraries in C and C++: step by step those of src/experiments/threads/ops.rs.
 *
 * A program is one file that includes this one after it has defined, over its library:
 *   thread_t, start_thread(thread_t *, body_t, void *), join_thread(thread_t *), yield_thread()
 *   mutex_t, mutex_init, mutex_lock, mutex_unlock
 *   cond_t, cond_init, cond_wait(cond_t *, mutex_t *), cond_signal, cond_broadcast
 *   body_t, BODY(name): the head of a function that a thread runs, with an argument `arg`; END: its return
 * Channels that hold one number are made of lock and condition, unless HAS_CHANNEL says that it has
 *   channel_t, channel_init, channel_send(channel_t *, long), long channel_receive(channel_t *)
 * What it calls on a thread of the library: measure(argc, argv).
 *
 *   VERSION: what it was built with, or an empty string
 *
 * Arguments: operation, workers, samples, threads. Output: a line of JSON per sample. Compiled with -O2. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUN_NS = 10 * 1000 * 1000, BATCH = 1000, MEET_NS = 200 * 1000 * 1000, FIB = 25 };

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    if (!memory)
        fail("no memory");
    return memory;
}

struct run {
    int64_t ns;
    long operations;
};

static int workers;

/* One thread at a time. */

BODY(nothing)
{
    (void)arg;
    END;
}

static struct run create_join(long n)
{
    int64_t start = now_ns();
    for (long i = 0; i < n; i++) {
        thread_t thread;
        start_thread(&thread, nothing, (void *)i);
        join_thread(&thread);
    }
    return (struct run){now_ns() - start, n};
}

/* A thousand at a time, joined in the order in which they were started. */
static struct run batch(long n)
{
    static thread_t *threads;
    if (!threads)
        threads = (thread_t *)allocate(BATCH, sizeof *threads);
    long batches = (n + BATCH - 1) / BATCH;
    int64_t start = now_ns();
    for (long b = 0; b < batches; b++) {
        for (long i = 0; i < BATCH; i++)
            start_thread(&threads[i], nothing, (void *)i);
        for (long i = 0; i < BATCH; i++)
            join_thread(&threads[i]);
    }
    return (struct run){now_ns() - start, batches * BATCH};
}

/* First a thread for each worker, which computes until all of them run, then each of these starts its share. */

struct spread {
    long first, threads;
    body_t body;
    void *arg;
    int64_t start; /* written by the last to come, before `all_here` */
    long arrived, all_here;
};

struct share {
    struct spread *all;
    long index;
    int64_t ns;
};

BODY(start_share)
{
    struct share *share = (struct share *)arg;
    struct spread *all = share->all;
    if (__atomic_add_fetch(&all->arrived, 1, __ATOMIC_SEQ_CST) == all->first) {
        all->start = now_ns();
        __atomic_store_n(&all->all_here, 1, __ATOMIC_RELEASE);
    }
    int64_t come = now_ns();
    while (!__atomic_load_n(&all->all_here, __ATOMIC_ACQUIRE))
        if (now_ns() - come > MEET_NS)
            yield_thread();
    thread_t threads[64];
    long own = 0;
    for (long i = share->index; i < all->threads && own < 64; i += all->first)
        start_thread(&threads[own++], all->body, all->arg);
    for (long i = 0; i < own; i++)
        join_thread(&threads[i]);
    share->ns = now_ns() - all->start;
    END;
}

static int64_t spread(long threads, body_t body, void *arg)
{
    struct spread *all = (struct spread *)allocate(1, sizeof *all);
    long first = workers < threads ? workers : threads;
    all->first = first, all->threads = threads, all->body = body, all->arg = arg;
    struct share *shares = (struct share *)allocate(first, sizeof *shares);
    thread_t *handles = (thread_t *)allocate(first, sizeof *handles);
    for (long i = 0; i < first; i++) {
        shares[i].all = all, shares[i].index = i;
        start_thread(&handles[i], start_share, &shares[i]);
    }
    int64_t longest = 0;
    for (long i = 0; i < first; i++) {
        join_thread(&handles[i]);
        if (shares[i].ns > longest)
            longest = shares[i].ns;
    }
    free(handles), free(shares), free(all);
    return longest;
}

/* Two threads for each worker, which do nothing else. Time of one switch of a worker. */

BODY(yield_often)
{
    for (long i = 0, n = (long)arg; i < n; i++)
        yield_thread();
    END;
}

static struct run yields(long n)
{
    return (struct run){spread(2 * workers, yield_often, (void *)n), 2 * n};
}

/* So many threads lock and unlock, n times together. */

struct locked {
    mutex_t mutex;
    long each;
    volatile long count;
};

BODY(lock_often)
{
    struct locked *locked = (struct locked *)arg;
    for (long i = 0; i < locked->each; i++) {
        mutex_lock(&locked->mutex);
        locked->count = locked->count + 1;
        mutex_unlock(&locked->mutex);
    }
    END;
}

static struct run locks(long threads, long n)
{
    struct locked *locked = (struct locked *)allocate(1, sizeof *locked);
    mutex_init(&locked->mutex);
    locked->each = (n + threads - 1) / threads;
    int64_t ns = spread(threads, lock_often, locked);
    if (locked->count != locked->each * threads)
        fail("a lock that does not lock");
    return (struct run){ns, locked->each * threads};
}

static struct run lock_alone(long n)
{
    int all = workers;
    workers = 1;
    struct run run = locks(1, n);
    workers = all;
    return run;
}

static struct run lock_by_four(long n)
{
    return locks(4, n);
}

/* Two threads take turns by a lock and a condition. */

struct turns {
    mutex_t mutex;
    cond_t cond;
    int now;
    long n;
};

static void take_turns(struct turns *turns, int mine)
{
    for (long i = 0; i < turns->n; i++) {
        mutex_lock(&turns->mutex);
        while (turns->now != mine)
            cond_wait(&turns->cond, &turns->mutex);
        turns->now = 1 - mine;
        cond_signal(&turns->cond);
        mutex_unlock(&turns->mutex);
    }
}

BODY(other_turns)
{
    take_turns((struct turns *)arg, 1);
    END;
}

static struct run hand_over(long n)
{
    struct turns *turns = (struct turns *)allocate(1, sizeof *turns);
    mutex_init(&turns->mutex), cond_init(&turns->cond);
    turns->n = n;
    int64_t start = now_ns();
    thread_t other;
    start_thread(&other, other_turns, turns);
    take_turns(turns, 0);
    join_thread(&other);
    return (struct run){now_ns() - start, 2 * n};
}

/* A number goes to and fro by two channels that hold one. */

#ifndef HAS_CHANNEL
typedef struct {
    mutex_t mutex;
    cond_t changed;
    int full;
    long number;
} channel_t;

static void channel_init(channel_t *channel)
{
    mutex_init(&channel->mutex), cond_init(&channel->changed);
    channel->full = 0;
}

static void channel_send(channel_t *channel, long number)
{
    mutex_lock(&channel->mutex);
    while (channel->full)
        cond_wait(&channel->changed, &channel->mutex);
    channel->full = 1, channel->number = number;
    cond_signal(&channel->changed);
    mutex_unlock(&channel->mutex);
}

static long channel_receive(channel_t *channel)
{
    mutex_lock(&channel->mutex);
    while (!channel->full)
        cond_wait(&channel->changed, &channel->mutex);
    channel->full = 0;
    long number = channel->number;
    cond_signal(&channel->changed);
    mutex_unlock(&channel->mutex);
    return number;
}
#endif

struct exchange {
    channel_t to, back;
    long n;
};

BODY(answer)
{
    struct exchange *exchange = (struct exchange *)arg;
    for (long i = 0; i < exchange->n; i++)
        channel_send(&exchange->back, channel_receive(&exchange->to) + 1);
    END;
}

static struct run to_and_fro(long n)
{
    struct exchange *exchange = (struct exchange *)allocate(1, sizeof *exchange);
    channel_init(&exchange->to), channel_init(&exchange->back);
    exchange->n = n;
    int64_t start = now_ns();
    thread_t other;
    start_thread(&other, answer, exchange);
    long x = 0;
    for (long i = 0; i < n; i++) {
        channel_send(&exchange->to, x);
        x = channel_receive(&exchange->back);
    }
    join_thread(&other);
    if (x != n)
        fail("a channel that loses or repeats");
    return (struct run){now_ns() - start, 2 * n};
}

/* Fork and join: a thread for one half of the work, the other half oneself. */

struct fib {
    long n, result;
};

static long fibonacci(long n);

BODY(fib_thread)
{
    struct fib *fib = (struct fib *)arg;
    fib->result = fibonacci(fib->n);
    END;
}

static long fibonacci(long n)
{
    if (n < 2)
        return n;
    struct fib first = {n - 1, 0};
    thread_t thread;
    start_thread(&thread, fib_thread, &first);
    long second = fibonacci(n - 2);
    join_thread(&thread);
    return first.result + second;
}

static struct run fork_join(long n)
{
    long a = 0, b = 1;
    for (int i = 0; i < FIB; i++) {
        long next = a + b;
        a = b, b = next;
    }
    long threads = b - 1, times = (n + threads - 1) / threads;
    int64_t start = now_ns();
    for (long i = 0; i < times; i++)
        if (fibonacci(FIB) != a)
            fail("threads that do not return what they should");
    return (struct run){now_ns() - start, times * threads};
}

/* Resident bytes of threads that wait for one condition, for each, their handles included. The last to come wakes the
 * thread that counts. */

struct gate {
    mutex_t mutex;
    cond_t opened, all_here;
    long waiting, threads;
    int open;
};

BODY(wait_at_gate)
{
    struct gate *gate = (struct gate *)arg;
    mutex_lock(&gate->mutex);
    if (++gate->waiting == gate->threads)
        cond_signal(&gate->all_here);
    while (!gate->open)
        cond_wait(&gate->opened, &gate->mutex);
    mutex_unlock(&gate->mutex);
    END;
}

static double resident(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (kib < 0)
        fail("no VmRSS in /proc/self/status");
    fclose(status);
    return kib * 1024.0;
}

static double memory(long threads)
{
    create_join(1);
    struct gate *gate = (struct gate *)allocate(1, sizeof *gate);
    mutex_init(&gate->mutex), cond_init(&gate->opened), cond_init(&gate->all_here);
    gate->threads = threads;
    double before = resident();
    thread_t *handles = (thread_t *)allocate(threads, sizeof *handles);
    for (long i = 0; i < threads; i++)
        start_thread(&handles[i], wait_at_gate, gate);
    mutex_lock(&gate->mutex);
    while (gate->waiting < threads)
        cond_wait(&gate->all_here, &gate->mutex);
    mutex_unlock(&gate->mutex);
    double bytes = (resident() - before) / threads;
    mutex_lock(&gate->mutex);
    gate->open = 1;
    cond_broadcast(&gate->opened);
    mutex_unlock(&gate->mutex);
    for (long i = 0; i < threads; i++)
        join_thread(&handles[i]);
    return bytes;
}

/* Whether a run is long enough; thrice, since another process may hold up one. */
static int is_long(struct run (*run)(long), long n)
{
    return run(n).ns >= RUN_NS && run(n).ns >= RUN_NS && run(n).ns >= RUN_NS;
}

static void sample(const char *op, long samples, long n, struct run (*run)(long))
{
    while (!is_long(run, n))
        n *= 2;
    for (long i = 0; i < samples; i++) {
        struct run one = run(n);
        printf("{\"op\":\"%s\",\"ns\":%.3f}\n", op, (double)one.ns / one.operations);
        fflush(stdout);
    }
}

static void measure(char **argv)
{
    const char *op = argv[1];
    long samples = atol(argv[3]), threads = atol(argv[4]);
    static const struct {
        const char *op;
        long least;
        struct run (*run)(long);
    } programs[] = {
        {"createjoin", 100, create_join}, {"batch", BATCH, batch},        {"yield", 100, yields},
        {"handoff", 1000, hand_over},     {"mutex", 100000, lock_alone}, {"mutex4", 100000, lock_by_four},
        {"channel", 1000, to_and_fro},    {"fib", 1, fork_join},
    };
    if (!strcmp(op, "memory")) {
        printf("{\"op\":\"memory\",\"bytes\":%.1f}\n", memory(threads));
        fflush(stdout);
        return;
    }
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(op, programs[i].op)) {
            sample(op, samples, programs[i].least, programs[i].run);
            return;
        }
    fail("no such operation");
}

/* Checks the arguments; the number of workers is known after it. */
static void arguments(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "version")) {
        puts(VERSION);
        exit(0);
    }
    if (argc != 5 || (workers = atoi(argv[2])) < 1)
        fail("usage: OPERATION WORKERS SAMPLES THREADS, as `mad bench threads` starts it");
}
