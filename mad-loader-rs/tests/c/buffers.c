/* A rank gives the standard output buffers on its stack: the stream, which outlives the rank, takes the mode only. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdio_ext.h>

int main(void) {
    char buffer[BUFSIZ] = "", own[BUFSIZ] = "";
    int modes[5], used = 0;
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    modes[0] = __flbf(stdout) != 0;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    modes[1] = __flbf(stdout) == 0;
    printf("word\n");
    modes[2] = __fpending(stdout) == 5;
    setbuf(stdout, buffer);
    printf("word\n");
    setbuffer(stdout, buffer, sizeof buffer);
    printf("word\n");
    fflush(stdout);
    for (size_t i = 0; i < sizeof buffer; i++) used += buffer[i] != 0;
    setbuf(stdout, 0);
    modes[3] = __fbufsize(stdout) == 1;
    /* A stream of its own has it. */
    FILE *file = fopen("/dev/null", "w");
    setvbuf(file, own, _IOFBF, sizeof own);
    fputs("word", file);
    modes[4] = own[0] == 'w';
    fclose(file);
    printf("used %d, modes %d%d%d%d%d\n", used, modes[0], modes[1], modes[2], modes[3], modes[4]);
    return 0;
}
