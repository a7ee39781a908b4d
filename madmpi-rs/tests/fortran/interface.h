! The three interfaces of Fortran for one program: -DINTERFACE=77 (mpif.h), 90 (mpi), 8 (mpi_f08).
#if INTERFACE == 8
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#define COMM type(MPI_Comm)
#define DATATYPE type(MPI_Datatype)
#define ERRHANDLER type(MPI_Errhandler)
#define FILE_HANDLE type(MPI_File)
#define GROUP type(MPI_Group)
#define INFO type(MPI_Info)
#define MESSAGE type(MPI_Message)
#define OPERATOR type(MPI_Op)
#define REQUEST type(MPI_Request)
#define STATUS(s) type(MPI_Status) :: s
#define WINDOW type(MPI_Win)
#define STATUSES(s, n) type(MPI_Status) :: s(n)
#define SOURCE_OF(s) s%MPI_SOURCE
#define TAG_OF(s) s%MPI_TAG
#define ERROR_OF(s) s%MPI_ERROR
#define ONE_OF(s, n) s(n)
#else
#if INTERFACE == 90
#define USE_MPI use mpi
#define INCLUDE_MPI
#else
#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#endif
#define COMM integer
#define DATATYPE integer
#define ERRHANDLER integer
#define FILE_HANDLE integer
#define GROUP integer
#define INFO integer
#define MESSAGE integer
#define OPERATOR integer
#define REQUEST integer
#define STATUS(s) integer :: s(MPI_STATUS_SIZE)
#define WINDOW integer
#define STATUSES(s, n) integer :: s(MPI_STATUS_SIZE, n)
#define SOURCE_OF(s) s(MPI_SOURCE)
#define TAG_OF(s) s(MPI_TAG)
#define ERROR_OF(s) s(MPI_ERROR)
#define ONE_OF(s, n) s(:, n)
#endif
