/* getopt in the middle of a cluster, with another rank's calls in between. With STATUS the exit status is the number of options. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

extern char **environ;
int main(int argc, char **argv) {
    static const struct option longs[] = {{"name", required_argument, 0, 'n'}, {"flag", no_argument, 0, 'f'}, {0}};
    char text[200];
    int at = sprintf(text, "%s:", argv[argc - 1]), option, found = 0;
    while ((option = getopt_long(argc, argv, "abcn:f", longs, 0)) != -1) {
        at += sprintf(text + at, " %c", option);
        found++;
        if (option == 'n') at += sprintf(text + at, "=%s", optarg);
        usleep(3000);
    }
    at += sprintf(text + at, " rest");
    for (; optind < argc; optind++) at += sprintf(text + at, " %s", argv[optind]);
#ifdef STATUS
    return found;
#endif
    puts(text);
    return 0;
}
