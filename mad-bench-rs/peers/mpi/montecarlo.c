/* Particles that move at random through slabs, one slab a rank. One that leaves its slab is handed over, in messages of
 * several, to the rank whose slab it is in. Receivers ask by MPI_Iprobe, from any source, while they have particles, and
 * wait by MPI_Probe when they have none and some are on their way. A step is a cycle: all of its particles until the last
 * has ended. A: particles. B: collisions of a particle, on average. C: particles in a message.
 *
 * A rank without particles takes part in an allreduce of how many particles have ended and how many messages went to
 * which rank. What a particle does depends on its number and the cycle only: at the end of a cycle the ranks compare the sums
 * over all particles with those that they know from moving all of them by themselves, once per kind of cycle. */
#define _GNU_SOURCE
#define RANKS 16
#define BY_HAND "500", "0:4000:16:64"
#include "app.h"

enum { KINDS = 4, LOOK = 16, SENT_AT_ONCE = 8 };

struct particle {
    uint64_t drawn;
    int64_t position;
    uint64_t path;
    uint32_t collisions, number;
};

static const int64_t WIDTH = 1L << 40;

struct outlet {
    struct particle *messages[SENT_AT_ONCE];
    MPI_Request sent[SENT_AT_ONCE];
    int filling;
    long filled;
};

static struct particle *bank;
static long banked, per_message;
static struct particle *arriving;
static struct outlet *outlets;
static uint64_t expected[KINDS], tally;
static long ended;
/* Messages of this cycle: sent to each rank, and how many have come here. */
static long sent_to[RANKS], received;

static struct particle born(long number, long kind)
{
    uint64_t drawn = mix((uint64_t)kind << 32 | (uint64_t)number);
    struct particle particle = {drawn, (int64_t)(mix(drawn) % (uint64_t)WIDTH), 0, 0, (uint32_t)number};
    return particle;
}

/* Moves a particle to its next collision; whether it goes on from there. */
static int move(struct particle *particle, long collisions)
{
    uint64_t drawn = particle->drawn;
    /* Several draws a collision, as for energies and angles. */
    for (int i = 0; i < 8; i++)
        drawn = mix(drawn);
    particle->drawn = drawn;
    int64_t flight = (int64_t)(drawn >> 29) * ((drawn & 7) ? 1 : 4);
    particle->position += drawn & 8 ? flight : -flight;
    if (particle->position < 0)
        particle->position = -particle->position;
    if (particle->position >= WIDTH)
        particle->position = 2 * WIDTH - 1 - particle->position;
    particle->path += (uint64_t)flight;
    particle->collisions++;
    return mix(drawn) % (uint64_t)collisions != 0;
}

static uint64_t tallied(const struct particle *particle)
{
    return mix(particle->path ^ (uint64_t)particle->position << 8 ^ particle->number) + particle->collisions;
}

static int slab_of(const struct particle *particle)
{
    return (int)(particle->position / (WIDTH / ranks) < ranks ? particle->position / (WIDTH / ranks) : ranks - 1);
}

static void begin(struct point *point)
{
    if (point->a < 1 || point->a > 1 << 24 || point->b < 1 || point->c < 1 || point->c > 1 << 16)
        fail("montecarlo: 1 to 2^24 particles, a collision each at least, and 1 to 65536 particles in a message");
    per_message = point->c;
    bank = allocate((size_t)point->a * sizeof *bank);
    arriving = allocate((size_t)per_message * sizeof *arriving);
    outlets = allocate((size_t)ranks * sizeof *outlets);
    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < SENT_AT_ONCE; i++) {
            outlets[to].messages[i] = allocate((size_t)per_message * sizeof *arriving);
            outlets[to].sent[i] = MPI_REQUEST_NULL;
        }
    for (int kind = 0; kind < KINDS; kind++) {
        expected[kind] = 0;
        for (long number = 0; number < point->a; number++) {
            struct particle particle = born(number, kind);
            while (move(&particle, point->b))
                ;
            expected[kind] += tallied(&particle);
        }
    }
}

/* Receives the message that `status` is about. */
static void receive(MPI_Status *status)
{
    int bytes;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    MPI_Recv(arriving, (int)(per_message * (long)sizeof *arriving), MPI_BYTE, MPI_ANY_SOURCE, status->MPI_TAG,
             MPI_COMM_WORLD, status);
    long n = bytes / (long)sizeof *arriving;
    memcpy(bank + banked, arriving, (size_t)n * sizeof *bank);
    banked += n;
    received++;
}

/* Takes what has come. */
static void look(void)
{
    MPI_Status status;
    int come = 1;
    enter();
    while (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &come, &status), come)
        receive(&status);
    leave();
}

/* Sends the message that is being filled. Before the next can be filled, what was sent from there has gone; until it has,
 * this rank receives, since the receiver may wait for the same. */
static void send(int to)
{
    struct outlet *outlet = &outlets[to];
    if (!outlet->filled)
        return;
    struct particle *out = outlet->messages[outlet->filling];
    enter();
    MPI_Isend(out, (int)(outlet->filled * (long)sizeof *out), MPI_BYTE, to, rank, MPI_COMM_WORLD,
              &outlet->sent[outlet->filling]);
    leave();
    outlet->filled = 0;
    outlet->filling = (outlet->filling + 1) % SENT_AT_ONCE;
    sent_to[to]++;
    for (int gone = 0; !gone;) {
        enter();
        MPI_Test(&outlet->sent[outlet->filling], &gone, MPI_STATUS_IGNORE);
        leave();
        if (!gone)
            look();
    }
}

static void follow(struct particle particle, long collisions)
{
    while (move(&particle, collisions)) {
        int slab = slab_of(&particle);
        if (slab == rank)
            continue;
        struct outlet *outlet = &outlets[slab];
        outlet->messages[outlet->filling][outlet->filled++] = particle;
        if (outlet->filled == per_message)
            send(slab);
        return;
    }
    tally += tallied(&particle);
    ended++;
}

/* Agrees on how many particles have ended, after all messages that were sent have come; until then they are waited for. */
static long agree(void)
{
    long mine[RANKS + 1], all[RANKS + 1];
    memcpy(mine, sent_to, sizeof sent_to);
    mine[RANKS] = ended;
    enter();
    MPI_Allreduce(mine, all, RANKS + 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    while (received < all[rank]) {
        MPI_Status status;
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        receive(&status);
    }
    leave();
    return all[RANKS];
}

static void step(struct point *point, long s)
{
    int kind = (int)(s % KINDS);
    memset(sent_to, 0, sizeof sent_to);
    received = banked = ended = 0;
    tally = 0;
    for (long number = 0; number < point->a; number++) {
        struct particle particle = born(number, kind);
        if (slab_of(&particle) == rank)
            bank[banked++] = particle;
    }
    do {
        for (long i = 1; banked > 0; i++) {
            follow(bank[--banked], point->b);
            if (i % LOOK == 0 || banked == 0)
                look();
        }
        for (int to = 0; to < ranks; to++)
            send(to);
    } while (agree() < point->a);
    uint64_t all = 0;
    enter();
    MPI_Allreduce(&tally, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    leave();
    checking();
    if (all != expected[kind])
        wrong("the sums over all particles");
    checked();
}

static void end(struct point *point)
{
    (void)point;
    for (int to = 0; to < ranks; to++) {
        MPI_Waitall(SENT_AT_ONCE, outlets[to].sent, MPI_STATUSES_IGNORE);
        for (int i = 0; i < SENT_AT_ONCE; i++)
            free(outlets[to].messages[i]);
    }
    free(bank), free(arriving), free(outlets);
}
