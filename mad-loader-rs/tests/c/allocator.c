/* A program with an allocator of its own, if OWN says so: it never frees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef OWN
static char memory[1 << 20];
static size_t used;
void *malloc(size_t size) { used += (size + 15) / 16 * 16; return memory + used - (size + 15) / 16 * 16; }
void free(void *address) {}
#endif
int main(void) {
    char *copy = strdup("text");
    int same = !strcmp(copy, "text");
    free(copy);
    return !same;
}
