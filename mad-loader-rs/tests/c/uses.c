int used(int);
int main(void) { return used(0); }
