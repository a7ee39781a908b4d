/* Breadth-first search in a random graph that is spread over the ranks: vertices that were found go to their owners in
 * pieces, several of them on their way at once, and every wait is a loop around MPI_Test. A step is a search. A: logarithm
 * of the number of vertices. B: edges per vertex. C: vertices in a piece.
 *
 * Each level ends with a piece from every rank to every other that says so, and an allreduce of the number of vertices
 * found. The levels of all vertices are compared with those that each rank finds by itself, once per root. */
#define _GNU_SOURCE
#define RANKS 16
#define BY_HAND "500", "0:14:8:512"
#include "app.h"

enum { ROOTS = 8, SLOTS = 4, LOOK = 64, UNSEEN = -1 };

/* A piece: how many vertices, whether it is the last of its level, the vertices. */
enum { COUNT, LAST, HEADER };

/* Pieces to one rank: one is being filled, the others are on their way. */
struct outlet {
    uint32_t *pieces[SLOTS];
    MPI_Request sent[SLOTS];
    int filling;
};

static long vertices, piece;
static uint32_t *starts, *edges;
static int8_t *levels, *expected[ROOTS];
static uint32_t *frontier, *next;
static long in_next;
static struct outlet *outlets;
static uint32_t *arriving[SLOTS];
static MPI_Request arrivals[SLOTS];
static int oldest, lasts;
static int8_t level;

static int owner(uint32_t vertex)
{
    return (int)(vertex % (uint32_t)ranks);
}

/* The whole graph, both directions of an edge, by vertex. */
static void make_graph(long degree)
{
    long all = vertices * degree / 2;
    uint32_t mask = (uint32_t)vertices - 1;
    starts = allocate((size_t)(vertices + 2) * 4);
    edges = allocate((size_t)(2 * all) * 4);
    for (int fill = 0; fill < 2; fill++) {
        for (long e = 0; e < all; e++) {
            uint64_t drawn = mix((uint64_t)e);
            uint32_t ends[2] = {(uint32_t)drawn & mask, (uint32_t)(drawn >> 32) & mask};
            for (int i = 0; i < 2; i++)
                if (fill)
                    edges[starts[ends[i] + 1]++] = ends[1 - i];
                else
                    starts[ends[i] + 2]++;
        }
        for (long v = 0; !fill && v <= vertices; v++)
            starts[v + 1] += starts[v];
    }
}

static uint32_t root_of(long s)
{
    return (uint32_t)mix((uint64_t)(s % ROOTS) + 77) & ((uint32_t)vertices - 1);
}

static void search_alone(uint32_t root, int8_t *found)
{
    memset(found, UNSEEN, (size_t)vertices);
    long head = 0, tail = 0;
    uint32_t *queue = next;
    queue[tail++] = root;
    found[root] = 0;
    for (; head < tail; head++)
        for (uint32_t e = starts[queue[head]]; e < starts[queue[head] + 1]; e++)
            if (found[edges[e]] == UNSEEN) {
                found[edges[e]] = (int8_t)(found[queue[head]] + 1);
                queue[tail++] = edges[e];
            }
}

static void receive(int slot)
{
    MPI_Irecv(arriving[slot], (int)(HEADER + piece), MPI_UINT32_T, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &arrivals[slot]);
}

static void begin(struct point *point)
{
    if (point->a < 4 || point->a > 24 || point->b < 2 || point->b > 64 || point->c < 1)
        fail("bfs: 2^4 to 2^24 vertices with 2 to 64 edges each, and a vertex in a piece at least");
    vertices = 1L << point->a;
    piece = point->c;
    make_graph(point->b);
    frontier = allocate((size_t)vertices * 4);
    next = allocate((size_t)vertices * 4);
    levels = allocate((size_t)vertices);
    for (int i = 0; i < ROOTS; i++) {
        expected[i] = allocate((size_t)vertices);
        search_alone(root_of(i), expected[i]);
    }
    outlets = allocate((size_t)ranks * sizeof *outlets);
    for (int to = 0; to < ranks; to++)
        for (int slot = 0; slot < SLOTS; slot++) {
            outlets[to].pieces[slot] = allocate((size_t)(HEADER + piece) * 4);
            outlets[to].sent[slot] = MPI_REQUEST_NULL;
        }
    oldest = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        arriving[slot] = allocate((size_t)(HEADER + piece) * 4);
        arrivals[slot] = MPI_REQUEST_NULL;
        if (ranks > 1)
            receive(slot);
    }
}

static void found(uint32_t vertex)
{
    if (levels[vertex] != UNSEEN)
        return;
    levels[vertex] = (int8_t)(level + 1);
    next[in_next++] = vertex;
}

/* Takes what has come, in the order in which receives were posted: the last piece of a sender is not seen before its others.
 * A piece of the next level may be there already; it is taken in the next level, since this one needs no more then. */
static void look(void)
{
    for (int come = ranks > 1; come && lasts < ranks - 1;) {
        enter();
        MPI_Test(&arrivals[oldest], &come, MPI_STATUS_IGNORE);
        leave();
        if (!come)
            break;
        const uint32_t *in = arriving[oldest];
        for (uint32_t i = 0; i < in[COUNT]; i++)
            found(in[HEADER + i]);
        lasts += (int)in[LAST];
        enter();
        receive(oldest);
        leave();
        oldest = (oldest + 1) % SLOTS;
    }
}

/* Sends the piece that is being filled, and waits until another is free; what comes meanwhile is taken. */
static void send(int to, int last)
{
    struct outlet *outlet = &outlets[to];
    uint32_t *out = outlet->pieces[outlet->filling];
    out[LAST] = (uint32_t)last;
    enter();
    MPI_Isend(out, (int)(HEADER + out[COUNT]), MPI_UINT32_T, to, 0, MPI_COMM_WORLD, &outlet->sent[outlet->filling]);
    leave();
    outlet->filling = (outlet->filling + 1) % SLOTS;
    for (int free = 0; !free;) {
        enter();
        MPI_Test(&outlet->sent[outlet->filling], &free, MPI_STATUS_IGNORE);
        leave();
        if (!free)
            look();
    }
    outlet->pieces[outlet->filling][COUNT] = 0;
}

/* Follows the edges of the frontier; the number of vertices that all ranks found. */
static long search_level(long in_frontier)
{
    lasts = 0;
    in_next = 0;
    for (long f = 0; f < in_frontier; f++) {
        uint32_t vertex = frontier[f];
        for (uint32_t e = starts[vertex]; e < starts[vertex + 1]; e++) {
            int to = owner(edges[e]);
            if (to == rank) {
                found(edges[e]);
                continue;
            }
            struct outlet *outlet = &outlets[to];
            uint32_t *out = outlet->pieces[outlet->filling];
            out[HEADER + out[COUNT]++] = edges[e];
            if (out[COUNT] == (uint32_t)piece)
                send(to, 0);
        }
        if (f % LOOK == LOOK - 1)
            look();
    }
    for (int to = 0; to < ranks; to++)
        if (to != rank)
            send(to, 1);
    while (lasts < ranks - 1)
        look();
    long all = 0;
    enter();
    MPI_Allreduce(&in_next, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    leave();
    return all;
}

static void step(struct point *point, long s)
{
    (void)point;
    memset(levels, UNSEEN, (size_t)vertices);
    uint32_t root = root_of(s);
    long in_frontier = 0;
    if (owner(root) == rank) {
        levels[root] = 0;
        frontier[in_frontier++] = root;
    }
    for (level = 0; search_level(in_frontier) > 0; level++) {
        uint32_t *swapped = frontier;
        frontier = next;
        next = swapped;
        in_frontier = in_next;
    }
    checking();
    for (long v = rank; v < vertices; v += ranks)
        if (levels[v] != expected[s % ROOTS][v])
            wrong("the level of a vertex");
    checked();
}

static void end(struct point *point)
{
    (void)point;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (ranks > 1) {
            MPI_Cancel(&arrivals[slot]);
            MPI_Wait(&arrivals[slot], MPI_STATUS_IGNORE);
        }
        free(arriving[slot]);
        for (int to = 0; to < ranks; to++) {
            MPI_Wait(&outlets[to].sent[slot], MPI_STATUS_IGNORE);
            free(outlets[to].pieces[slot]);
        }
    }
    for (int i = 0; i < ROOTS; i++)
        free(expected[i]);
    free(outlets), free(starts), free(edges), free(frontier), free(next), free(levels);
}
