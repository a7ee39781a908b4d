/* Ping-pong of threads, each with a tag of its own. A: threads of a process. B: 0, rank 0 has one thread that plays with
 * every thread of rank 1 in turn while the others are blocked; 1, pairs of threads play all at once. C: bytes. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_MULTIPLE
#include <pthread.h>
#include "peer.h"

struct part {
    long tag, trips, size;
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
    for (long i = 0; i < part->trips; i++)
        trip(buffer, part->size, DATA + (int)part->tag);
    free(buffer);
    return NULL;
}

/* The threads of this process, each with so many trips; the time until the last has ended. */
static void play(const struct point *point, long trips)
{
    pthread_t *threads = allocate((size_t)point->a * sizeof *threads);
    struct part *parts = allocate((size_t)point->a * sizeof *parts);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof all_cores, &all_cores);
    for (long i = 0; i < point->a; i++) {
        parts[i] = (struct part){i, trips, point->c};
        if (pthread_create(&threads[i], &attributes, player, &parts[i]))
            fail("a thread could not be started");
    }
    for (long i = 0; i < point->a; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    free(parts);
}

static void block(struct point *point, long warm, long n)
{
    long each = (n + point->a - 1) / point->a, all = each + (warm + point->a - 1) / point->a;
    if (point->b) {
        int64_t before = now_ns();
        play(point, all);
        sample(&point->series[0], (double)(now_ns() - before) / 2000.0 / (double)(all * point->a));
    } else if (rank != 0) {
        play(point, all);
    } else {
        char *buffer = allocate((size_t)point->c);
        int64_t before = now_ns();
        for (long i = 0; i < all * point->a; i++) {
            trip(buffer, point->c, DATA + (int)(i % point->a));
            int64_t now = now_ns();
            if (i >= (all - each) * point->a)
                sample(&point->series[0], (double)(now - before) / 2000.0);
            before = now;
        }
        free(buffer);
    }
}

static void finish(struct point *point)
{
    emit(point, "half_round_trip", &point->series[0]);
}
