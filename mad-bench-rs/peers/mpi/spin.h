/* A computation of known length that calls nothing: what src/bench/spin.rs is for newmad. To be included after peer.h. */

enum { TRIAL = 100000, TRIALS = 60 };

static double steps_per_us;

static void steps(long n)
{
    volatile uint64_t seed = 0x9e3779b97f4a7c15u;
    uint64_t x = seed;
    for (long i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    seed = x;
}

/* How fast this core computes: the fastest of many trials. Once is enough. */
static void calibrate(void)
{
    if (steps_per_us > 0)
        return;
    int64_t fastest = INT64_MAX;
    for (int i = 0; i < TRIALS; i++) {
        int64_t start = now_ns();
        steps(TRIAL);
        int64_t took = now_ns() - start;
        fastest = took < fastest ? took : fastest;
    }
    steps_per_us = TRIAL * 1000.0 / (double)(fastest > 0 ? fastest : 1);
}

static long steps_of(long us)
{
    return (long)((double)us * steps_per_us);
}
