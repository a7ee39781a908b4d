/* getopt behind the name of a subcommand, with words that the program takes itself, while other ranks do the same. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char text[200];
    int at = sprintf(text, "%s: starts at %d", argv[argc - 1], optind), option;
    optind = 2;
    while ((option = getopt(argc, argv, "abo")) != -1) {
        at += sprintf(text + at, " %c", option);
        if (option == 'o') at += sprintf(text + at, "=%s", argv[optind++]);
        usleep(3000);
    }
    at += sprintf(text + at, " rest");
    for (; optind < argc; optind++) at += sprintf(text + at, " %s", argv[optind]);
    puts(text);
    return 0;
}
