/* Attributes and keys of Fortran.
 *
 * The value of an attribute is a number as wide as an address in Fortran, a pointer in C. The standard says what each
 * language finds of the other's: C finds a pointer to the number that Fortran has set, Fortran the pointer that C has
 * set, as a number. So each number that Fortran sets gets a place of its own, and a table of these places tells them
 * from pointers of C's. A place goes with its attribute where the key is Fortran's; under a key of C's it stays.
 *
 * A key has the procedures of Fortran as its extra state, which is never freed: a key lives as long as attributes. */
#include "binding.h"

#include <pthread.h>
#include <stdint.h>

struct place {
    MPI_Aint value; /* first: its address is what C finds */
    struct place *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place *places[1024];

static struct place **bucket(void *place) {
    return &places[((uintptr_t)place >> 5) % (sizeof(places) / sizeof(*places))];
}

void *madmpi_attribute(MPI_Aint value) {
    struct place *made = madmpi_memory(1, sizeof(*made)), **first = bucket(made);
    made->value = value;
    pthread_mutex_lock(&lock);
    made->next = *first;
    *first = made;
    pthread_mutex_unlock(&lock);
    return made;
}

MPI_Aint madmpi_attribute_value(void *value) {
    MPI_Aint found = (MPI_Aint)value;
    pthread_mutex_lock(&lock);
    for (struct place *place = *bucket(value); place; place = place->next)
        if (place == value) found = place->value;
    pthread_mutex_unlock(&lock);
    return found;
}

void madmpi_attribute_free(void *value) {
    pthread_mutex_lock(&lock);
    for (struct place **link = bucket(value); *link; link = &(*link)->next) {
        if (*link != value) continue;
        *link = (*link)->next;
        free(value);
        break;
    }
    pthread_mutex_unlock(&lock);
}

typedef void copy_procedure(MPI_Fint *object, MPI_Fint *key, void *extra, void *value, void *made, MPI_Fint *flag,
                            MPI_Fint *code);
typedef void delete_procedure(MPI_Fint *object, MPI_Fint *key, void *value, void *extra, MPI_Fint *code);

struct keyval {
    copy_procedure *copy;
    delete_procedure *delete_;
    MPI_Aint extra;
    enum integers integers;
};

void *madmpi_keyval(madmpi_procedure *copy, madmpi_procedure *delete_, MPI_Aint extra, enum integers integers) {
    struct keyval *made = madmpi_memory(1, sizeof(*made));
    *made = (struct keyval){(copy_procedure *)copy, (delete_procedure *)delete_, extra, integers};
    return made;
}

static int copied(MPI_Fint object, MPI_Fint key, struct keyval *keyval, void *value, void *made, int *flag) {
    MPI_Fint logical = 0, code = MPI_SUCCESS;
    MPI_Aint from = madmpi_attribute_value(value), to = 0;
    if (keyval->integers == INTEGERS) {
        MPI_Fint extra = (MPI_Fint)keyval->extra, old = (MPI_Fint)from, new = 0;
        keyval->copy(&object, &key, &extra, &old, &new, &logical, &code);
        to = new;
    } else {
        keyval->copy(&object, &key, &keyval->extra, &from, &to, &logical, &code);
    }
    *flag = code == MPI_SUCCESS && logical;
    if (*flag) *(void **)made = madmpi_attribute(to);
    return code;
}

static int deleted(MPI_Fint object, MPI_Fint key, struct keyval *keyval, void *value) {
    MPI_Fint code = MPI_SUCCESS;
    MPI_Aint gone = madmpi_attribute_value(value);
    if (keyval->integers == INTEGERS) {
        MPI_Fint extra = (MPI_Fint)keyval->extra, old = (MPI_Fint)gone;
        keyval->delete_(&object, &key, &old, &extra, &code);
    } else {
        keyval->delete_(&object, &key, &gone, &keyval->extra, &code);
    }
    if (code == MPI_SUCCESS) madmpi_attribute_free(value);
    return code;
}

#define FUNCTIONS(kind, Handle, toint)                                                                        \
    int madmpi_##kind##_copy(Handle object, int key, void *extra, void *value, void *made, int *flag) {       \
        return copied(toint(object), key, extra, value, made, flag);                                          \
    }                                                                                                         \
    int madmpi_##kind##_delete(Handle object, int key, void *value, void *extra) {                            \
        return deleted(toint(object), key, extra, value);                                                     \
    }
FUNCTIONS(comm, MPI_Comm, MPI_Comm_toint)
FUNCTIONS(type, MPI_Datatype, MPI_Type_toint)
FUNCTIONS(win, MPI_Win, MPI_Win_toint)

/* The standard's procedures, for Fortran to pass and to call. */
#define PREDEFINED(kind, value_type)                                                                                \
    void mpi_##kind##dup_fn_(MPI_Fint *object, MPI_Fint *key, value_type *extra, value_type *value,                  \
                             value_type *made, MPI_Fint *flag, MPI_Fint *code) {                                     \
        (void)object, (void)key, (void)extra;                                                                       \
        *made = *value, *flag = 1, *code = MPI_SUCCESS;                                                             \
    }                                                                                                               \
    void mpi_##kind##null_copy_fn_(MPI_Fint *object, MPI_Fint *key, value_type *extra, value_type *value,            \
                                   value_type *made, MPI_Fint *flag, MPI_Fint *code) {                               \
        (void)object, (void)key, (void)extra, (void)value, (void)made;                                              \
        *flag = 0, *code = MPI_SUCCESS;                                                                             \
    }                                                                                                               \
    void mpi_##kind##null_delete_fn_(MPI_Fint *object, MPI_Fint *key, value_type *value, value_type *extra,          \
                                     MPI_Fint *code) {                                                              \
        (void)object, (void)key, (void)value, (void)extra;                                                          \
        *code = MPI_SUCCESS;                                                                                        \
    }
PREDEFINED(comm_, MPI_Aint)
PREDEFINED(type_, MPI_Aint)
PREDEFINED(win_, MPI_Aint)
PREDEFINED(, MPI_Fint)
