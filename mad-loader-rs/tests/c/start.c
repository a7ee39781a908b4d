/* A program that starts by itself, if OWN says so. */
#include <unistd.h>
#ifdef OWN
void _start(void) { _exit(0); }
#else
int main(void) { return 0; }
#endif
