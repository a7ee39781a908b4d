/* Ping-pong of threads, each with a tag of its own. A: threads of a process. B: 0, rank 0 has one thread that plays with
 * every thread of rank 1 in turn while the others are blocked; 1, pairs of threads play all at once. C: bytes.
 *
 * Rank 0 says in the first byte which trip of a thread is the last: after so many, or when the block has taken its time,
 * since threads that poll without a core of their own need milliseconds for each. A point that has taken its time in
 * some blocks is left out in the others. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_MULTIPLE
#include <pthread.h>
#include <stdbool.h>
#include "peer.h"

enum { BLOCK_NS = 200 * 1000 * 1000, POINT_NS = 1000 * 1000 * 1000 };

struct part {
    long tag, trips, size, made;
    int64_t until;
};

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

static void trip(char *buffer, long size, int tag)
{
    int peer = 1 - rank;
    if (rank == 0) {
        MPI_Send(buffer, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
        MPI_Recv(buffer, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffer, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
    }
}

static void *player(void *arg)
{
    struct part *part = arg;
    char *buffer = allocate((size_t)part->size);
    while (!buffer[0]) {
        if (rank == 0)
            buffer[0] = part->made + 1 == part->trips || now_ns() > part->until;
        trip(buffer, part->size, DATA + (int)part->tag);
        part->made++;
    }
    free(buffer);
    return NULL;
}

/* The threads of this process, each with so many trips at the most; how many all of them have made when the last has ended. */
static long play(const struct point *point, long trips)
{
    pthread_t *threads = allocate((size_t)point->a * sizeof *threads);
    struct part *parts = allocate((size_t)point->a * sizeof *parts);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof all_cores, &all_cores);
    for (long i = 0; i < point->a; i++) {
        parts[i] = (struct part){i, trips, point->c, 0, now_ns() + BLOCK_NS};
        if (pthread_create(&threads[i], &attributes, player, &parts[i]))
            fail("a thread could not be started");
    }
    long made = 0;
    for (long i = 0; i < point->a; i++) {
        pthread_join(threads[i], NULL);
        made += parts[i].made;
    }
    free(threads);
    free(parts);
    return made;
}

/* Rank 0's thread plays with each of the other side's in turn. */
static void turns(struct point *point, long all, long each)
{
    char *buffer = allocate((size_t)point->c);
    bool *ended = allocate((size_t)point->a * sizeof *ended);
    int64_t before = now_ns(), until = before + BLOCK_NS;
    for (long pass = 0, left = point->a; left > 0; pass++)
        for (long i = 0; i < point->a; i++) {
            if (ended[i])
                continue;
            ended[i] = buffer[0] = pass + 1 == all || before > until;
            left -= ended[i];
            trip(buffer, point->c, DATA + (int)i);
            int64_t now = now_ns();
            if (pass >= all - each || ended[i])
                sample(&point->series[0], (double)(now - before) / 2000.0);
            before = now;
        }
    free(ended);
    free(buffer);
}

static void block(struct point *point, long warm, long n)
{
    long each = (n + point->a - 1) / point->a, all = each + (warm + point->a - 1) / point->a;
    int64_t before = now_ns();
    int enough = point->spent > POINT_NS;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (enough)
        return;
    if (point->b) {
        long made = play(point, all);
        sample(&point->series[0], (double)(now_ns() - before) / 2000.0 / (double)made);
    } else if (rank != 0) {
        play(point, all);
    } else {
        turns(point, all, each);
    }
    point->spent += now_ns() - before;
}

static void finish(struct point *point)
{
    emit(point, "half_round_trip", &point->series[0]);
}
