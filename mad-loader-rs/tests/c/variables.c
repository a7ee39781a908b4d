/* Static and exported variables, constructors, destructors, handlers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int exported = 10;
static int hidden = 20;
static int constructed;

__attribute__((constructor)) static void construct(int argc, char **argv) { constructed = argc * 100; }
__attribute__((destructor)) static void destruct(void) { printf("%d: destructor %d\n", exported, hidden); }
static void first(void) { printf("%d: handler 1\n", exported); }
static void second(void) { printf("%d: handler 2\n", exported); }

int main(int argc, char **argv) {
    atexit(first);
    atexit(second);
    int number = atoi(argv[1]);
    exported += number;
    hidden += number;
    for (int i = 0; i < 3; i++) {
        usleep(2000);
        exported += 100;
        hidden += 100;
    }
    printf("%d: hidden %d, constructed %d, name %s\n", exported, hidden, constructed, argv[0]);
    return number;
}
