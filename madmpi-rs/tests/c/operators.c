/* np: 1 */
/* The standard's operators on the standard's types, against C's own arithmetic; operators of the program. */
#include <complex.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 37 };

#define FAIL(op, type) printf("%s on %s: wrong\n", #op, #type)

/* `a` and `b` hold numbers; `same` compares them bit for bit or by value. */
#define CHECK(ctype, mpitype, op, value, expression)                            \
    do {                                                                        \
        ctype left[N], into[N];                                                 \
        ctype a, b;                                                             \
        int wrong = 0;                                                          \
        for (int i = 0; i < N; i++) {                                           \
            left[i] = (ctype)(value((i * 7 + 3) % 11));                         \
            into[i] = (ctype)(value((i * 5 + 1) % 13));                         \
        }                                                                       \
        MPI_Reduce_local(left, into, N, mpitype, op);                           \
        for (int i = 0; i < N; i++) {                                           \
            a = (ctype)(value((i * 7 + 3) % 11));                               \
            b = (ctype)(value((i * 5 + 1) % 13));                               \
            ctype expected = (ctype)(expression);                               \
            wrong |= left[i] != a || into[i] != expected;                       \
        }                                                                       \
        if (wrong)                                                              \
            FAIL(op, mpitype);                                                  \
        else                                                                    \
            passed++;                                                           \
    } while (0)

#define PLAIN(i) ((i) - 4)
#define SMALL(i) (i)
#define THIRDS(i) (((i) - 4) / (__typeof__(a))3)
#define TURNED(i) (((i) - 4) + (i) / 2.0 * I)
#define TRUTH(i) ((i) % 3 == 0)

#define ARITHMETIC(ctype, mpitype, value)                          \
    CHECK(ctype, mpitype, MPI_SUM, value, a + b);                  \
    CHECK(ctype, mpitype, MPI_PROD, value, a *b);                  \
    CHECK(ctype, mpitype, MPI_MIN, value, a < b ? a : b);          \
    CHECK(ctype, mpitype, MPI_MAX, value, a > b ? a : b)
#define BITS(ctype, mpitype)                                       \
    CHECK(ctype, mpitype, MPI_BAND, PLAIN, a &b);                  \
    CHECK(ctype, mpitype, MPI_BOR, PLAIN, a | b);                  \
    CHECK(ctype, mpitype, MPI_BXOR, PLAIN, a ^ b)
#define LOGIC(ctype, mpitype, value)                               \
    CHECK(ctype, mpitype, MPI_LAND, value, a &&b);                 \
    CHECK(ctype, mpitype, MPI_LOR, value, a || b);                 \
    CHECK(ctype, mpitype, MPI_LXOR, value, !a != !b)
#define INTEGER(ctype, mpitype)                                    \
    ARITHMETIC(ctype, mpitype, PLAIN);                             \
    REST(ctype, mpitype)
/* Open MPI 4.1 saturates sums of small ones, and both it and MPICH 4 order some as if they were signed. */
#define NATURAL(ctype, mpitype)                                    \
    ARITHMETIC(ctype, mpitype, SMALL);                             \
    REST(ctype, mpitype)
#define REST(ctype, mpitype)                                       \
    BITS(ctype, mpitype);                                          \
    LOGIC(ctype, mpitype, PLAIN)
#define COMPLEX(ctype, mpitype)                                    \
    CHECK(ctype, mpitype, MPI_SUM, TURNED, a + b);                 \
    CHECK(ctype, mpitype, MPI_PROD, TURNED, a *b)

#define PAIR(ctype, mpitype)                                                                              \
    do {                                                                                                  \
        struct {                                                                                          \
            ctype value;                                                                                  \
            int place;                                                                                    \
        } left[N], into[N], both[N];                                                                      \
        int wrong = 0;                                                                                    \
        for (int round = 0; round < 2; round++) {                                                         \
            for (int i = 0; i < N; i++) {                                                                 \
                left[i].value = (ctype)(i % 3), into[i].value = (ctype)(i % 5 - 1);                       \
                left[i].place = i % 2, into[i].place = 1 - i % 2;                                         \
                both[i] = left[i];                                                                        \
                if (left[i].value == into[i].value)                                                       \
                    both[i].place = 0;                                                                    \
                else if (round ? into[i].value > left[i].value : into[i].value < left[i].value)           \
                    both[i] = into[i];                                                                    \
            }                                                                                             \
            MPI_Reduce_local(left, into, N, mpitype, round ? MPI_MAXLOC : MPI_MINLOC);                    \
            for (int i = 0; i < N; i++)                                                                   \
                wrong |= into[i].value != both[i].value || into[i].place != both[i].place;                \
        }                                                                                                 \
        if (wrong)                                                                                        \
            FAIL(MINLOC or MAXLOC, mpitype);                                                              \
        else                                                                                              \
            passed++;                                                                                     \
    } while (0)

struct matrix {
    double at[2][2];
    char name;
};

/* Not commutative: two by two matrices. */
static void multiply(void *in, void *inout, int *len, MPI_Datatype *type) {
    struct matrix *a = in, *b = inout;
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    if (extent != sizeof(struct matrix))
        printf("the type is another one\n");
    for (int n = 0; n < *len; n++) {
        struct matrix product = b[n];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                product.at[i][j] = a[n].at[i][0] * b[n].at[0][j] + a[n].at[i][1] * b[n].at[1][j];
        b[n] = product;
    }
}

int main(int argc, char **argv) {
    int passed = 0, commutes;
    MPI_Init(&argc, &argv);

    INTEGER(char, MPI_CHAR); /* not in the standard, but in every library */
    INTEGER(signed char, MPI_SIGNED_CHAR);
    NATURAL(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(short, MPI_SHORT);
    NATURAL(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT);
    NATURAL(unsigned, MPI_UNSIGNED);
    INTEGER(long, MPI_LONG);
    NATURAL(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG);
    NATURAL(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(int8_t, MPI_INT8_T);
    NATURAL(uint8_t, MPI_UINT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    NATURAL(uint16_t, MPI_UINT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    NATURAL(uint32_t, MPI_UINT32_T);
    INTEGER(int64_t, MPI_INT64_T);
    NATURAL(uint64_t, MPI_UINT64_T);
    ARITHMETIC(MPI_Aint, MPI_AINT, PLAIN);
    BITS(MPI_Aint, MPI_AINT);
    ARITHMETIC(MPI_Offset, MPI_OFFSET, SMALL);
    BITS(MPI_Offset, MPI_OFFSET);
    ARITHMETIC(MPI_Count, MPI_COUNT, PLAIN);
    BITS(MPI_Count, MPI_COUNT);
    BITS(unsigned char, MPI_BYTE);
    ARITHMETIC(float, MPI_FLOAT, THIRDS);
    ARITHMETIC(double, MPI_DOUBLE, THIRDS);
    ARITHMETIC(long double, MPI_LONG_DOUBLE, THIRDS);
    COMPLEX(float complex, MPI_C_FLOAT_COMPLEX);
    COMPLEX(double complex, MPI_C_DOUBLE_COMPLEX);
    COMPLEX(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
    LOGIC(bool, MPI_C_BOOL, TRUTH);
    PAIR(short, MPI_SHORT_INT);
    PAIR(int, MPI_2INT);
    PAIR(long, MPI_LONG_INT);
    PAIR(float, MPI_FLOAT_INT);
    PAIR(double, MPI_DOUBLE_INT);
    PAIR(long double, MPI_LONG_DOUBLE_INT);
    printf("right: %d\n", passed);

    MPI_Op_commutative(MPI_SUM, &commutes);
    printf("sums commute: %d\n", commutes);
    MPI_Op product;
    MPI_Datatype type, plain;
    MPI_Op_create(multiply, 0, &product);
    MPI_Op_commutative(product, &commutes);
    printf("products of matrices commute: %d\n", commutes);
    MPI_Type_create_struct(2, (int[]){4, 1}, (MPI_Aint[]){0, offsetof(struct matrix, name)},
                           (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct matrix), &type);
    MPI_Type_commit(&type);
    struct matrix a[2] = {{{{1, 2}, {3, 4}}, 'a'}, {{{0, 1}, {1, 0}}, 'b'}};
    struct matrix b[2] = {{{{0, 1}, {1, 0}}, 'c'}, {{{1, 2}, {3, 4}}, 'd'}};
    MPI_Reduce_local(a, b, 2, type, product);
    for (int n = 0; n < 2; n++)
        printf("%c: %g %g %g %g\n", b[n].name, b[n].at[0][0], b[n].at[0][1], b[n].at[1][0], b[n].at[1][1]);
    MPI_Op_free(&product);
    printf("freed: %d\n", product == MPI_OP_NULL);
    MPI_Type_free(&plain);
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
