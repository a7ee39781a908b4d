/* What `uses.c` uses. */
#ifdef LOCALS
static __thread char many[16384];
int used(int n) { many[n] = (char)n; return many[n]; }
#elif defined VARIABLE
int uses;
int used(int n) { uses++; return n; }
#elif !defined NOTHING
int used(int n) { return n; }
#endif
