/* A function that the program exports, and whose address another function chooses. A library may have one of that name. */
#include <stdio.h>
#include <stdlib.h>
int own;
static int add(int n) { return n + own; }
static int (*choose(void))(int) { return add; }
int used(int n) __attribute__((ifunc("choose")));
int (*pointer)(int) = used;
int main(int argc, char **argv) {
    own = 100 * (1 + atoi(argv[1]));
    printf("%s: %d %d\n", argv[1], used(1), pointer(2));
    return 0;
}
