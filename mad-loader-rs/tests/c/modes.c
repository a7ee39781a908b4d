/* Rounding, and which exceptions trap, are a rank's own, whatever others do while it waits. The argument is the rank's number. */
#define _GNU_SOURCE
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    int number = atoi(argv[1]), mode = modes[number % 4], wrong = fegetround() != FE_TONEAREST || fegetexcept() != 0;
    volatile double one = 1, zero = 0;
    volatile long double long_one = 1, long_zero = 0;
    if (number % 4 != 0) fesetround(mode);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        /* Others have divided by zero since then. */
        int traps = number % 4 == 3 && i >= 10;
        if (traps) feenableexcept(FE_DIVBYZERO);
        wrong += fegetround() != mode || fegetexcept() != (traps ? FE_DIVBYZERO : 0);
        /* Who lets nothing trap divides by zero, in both units. */
        if (number % 4 != 3) wrong += one / zero <= 1 || long_one / long_zero <= 1;
        else wrong += one / 3 > 0.5 || long_one / 3 > 0.5;
    }
    printf("%d: %d wrong\n", number, wrong);
    return wrong != 0;
}
