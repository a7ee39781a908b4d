/* np: 4 */
/* Names and attributes of predefined datatypes are those of the process that has set them; a name's bytes stay as they are. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, copies, deleted;

static int copy(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
	(void)type, (void)key, (void)extra;
	copies++;
	*flag = 1;
	*(void **)out = in;
	return MPI_SUCCESS;
}

static int delete(MPI_Datatype type, int key, void *value, void *extra) {
	(void)type, (void)key, (void)extra;
	deleted += *(int *)value;
	return MPI_SUCCESS;
}

int main(int argc, char **argv) {
	int key, len, found, value, *got = NULL, sums[4], all[4];
	char name[MPI_MAX_OBJECT_NAME], own[32];
	MPI_Datatype type;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	value = rank + 1;
	MPI_Type_create_keyval(copy, delete, &key, NULL);
	MPI_Type_set_attr(MPI_INT, key, &value);
	sprintf(own, "Gr\xf6\xdf" "e %d", rank);
	MPI_Type_set_name(MPI_INT, own);
	MPI_Barrier(MPI_COMM_WORLD);

	MPI_Type_get_name(MPI_INT, name, &len);
	MPI_Type_get_attr(MPI_INT, key, &got, &found);
	sums[0] = strcmp(name, own) == 0 && len == (int)strlen(own) && found && got == &value;
	MPI_Type_dup(MPI_INT, &type);
	sums[1] = copies;
	MPI_Type_free(&type);
	sums[2] = deleted == value;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Type_delete_attr(MPI_INT, key);
	MPI_Type_get_attr(MPI_INT, key, &got, &found);
	sums[3] = !found && deleted == 2 * value;
	MPI_Type_free_keyval(&key);

	MPI_Reduce(sums, all, 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("own name and attribute: %d, copies: %d, deleted: %d, gone: %d\n", all[0], all[1], all[2], all[3]);
	MPI_Finalize();
	return 0;
}
