#ifdef FORTRAN
int madmpi_bottom_;
#endif
int used(int);
int main(void) { return used(0); }
